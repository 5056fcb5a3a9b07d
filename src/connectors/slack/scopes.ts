// The user scopes of Slack that the tools need.
export const CHANNELS_READ = "channels:read";
export const GROUPS_READ = "groups:read";
export const CHANNELS_HISTORY = "channels:history";
export const GROUPS_HISTORY = "groups:history";
export const CHAT_WRITE = "chat:write";
