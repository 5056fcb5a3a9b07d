// A template tag whose holes are escaped. Must never happen: text of a request or a person's name in a page as markup.

/** Markup made by the tag; the only thing that goes into a hole unescaped. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Hole = string | number | Html | null | false | undefined | readonly Html[];

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

function fill(hole: Hole): string {
  if (hole instanceof Html) return hole.text;
  if (Array.isArray(hole)) return hole.map((one: Html) => one.text).join("");
  return hole === null || hole === undefined || hole === false ? "" : escapeHtml(String(hole));
}

/** An e-mail address that breaks after its `@`, where a narrow screen has to break it at all. */
export function address(email: string): Html {
  const [name = "", domain = ""] = email.split("@");
  return html`${name}@<wbr>${domain}`;
}

export function html(parts: TemplateStringsArray, ...holes: Hole[]): Html {
  return new Html(parts.map((part, at) => part + (at < holes.length ? fill(holes[at]) : "")).join(""));
}
