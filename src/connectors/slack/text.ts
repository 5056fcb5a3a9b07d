// Text on its way into Slack. Must never happen: a mention of everybody, or of anybody, that the text's `<!channel>` or `<@U1>` makes.

/** Slack cuts longer texts (its documentation of chat.postMessage); 4,000 is what it recommends. */
export const TEXT_CHARS_MAX = 40_000;

/** `&`, `<` and `>` are all that Slack's markup needs escaped; escaped, `<!channel>` and `<@U1>` are plain letters. */
export function escapeText(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
