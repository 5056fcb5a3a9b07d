// The scopes that the practice Slack knows, in the words of its page.

export const SLACK_SCOPES: Record<string, string> = {
  "channels:read": "See the public channels and their names",
  "channels:history": "Read messages in public channels",
  "channels:write": "Create and change public channels",
  "groups:read": "See the private channels that you are in",
  "groups:history": "Read messages in private channels that you are in",
  "im:read": "See who you have direct messages with",
  "im:history": "Read your direct messages",
  "mpim:read": "See the group messages that you are in",
  "mpim:history": "Read the group messages that you are in",
  "users:read": "See the people of the workspace",
  "users:read.email": "See people's e-mail addresses",
  "users.profile:read": "See people's profiles",
  "team:read": "See the workspace's name",
  "chat:write": "Send messages as you",
  "reactions:read": "See reactions",
  "reactions:write": "Add reactions as you",
  "search:read": "Search the workspace",
  "identity.basic": "Know who you are",
  "identity.email": "See your e-mail address",
  "identity.team": "Know your workspace",
};

/** In the name of the app instead of the person, where it is asked for by a bot scope. */
export const BOT_TITLES: Record<string, string> = {
  "chat:write": "Send messages as the app",
  "reactions:write": "Add reactions as the app",
};

/** Slack separates by commas; spaces are taken too, as it does. */
export function splitScopes(text: string | null): string[] {
  return [...new Set((text ?? "").split(/[\s,]+/).filter(Boolean))];
}
