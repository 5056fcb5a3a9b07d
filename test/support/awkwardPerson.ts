// A practice person at the practice providers' pages: follows an authorization URL through the forms, as a browser without
// JavaScript does, and comes back with the URL that the provider redirects to. It does not follow that one.

export interface PersonAnswers {
  /** By e-mail address or a part of the name; default: Mara. */
  person?: string;
  decision?: "allow" | "deny";
  /** Scopes to untick at the practice Google. */
  untick?: readonly string[];
}

interface Form {
  action: string;
  fields: [string, string][];
  /** `<button>`s that have a name: name, value and text. */
  buttons: { name: string; value: string; text: string }[];
  /** Radio buttons and check boxes: name, value and label. */
  choices: { type: string; name: string; value: string; text: string }[];
}

function unescapeHtml(text: string): string {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&#39;", "'").replaceAll("&amp;", "&");
}

function attribute(tag: string, name: string): string {
  return unescapeHtml(new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1] ?? "");
}

function textOf(markup: string): string {
  return unescapeHtml(
    markup
      .replace(/<[^>]+>/g, " ")
      .replace(/\s+/g, " ")
      .trim(),
  );
}

export function formsOf(page: string): Form[] {
  return [...page.matchAll(/<form\b([^>]*)>([\s\S]*?)<\/form>/g)].map(([, tag = "", inner = ""]) => ({
    action: attribute(tag, "action"),
    fields: [...inner.matchAll(/<input type="hidden"[^>]*>/g)].map(([input]): [string, string] => [
      attribute(input, "name"),
      attribute(input, "value"),
    ]),
    buttons: [...inner.matchAll(/<button\b([^>]*)>([\s\S]*?)<\/button>/g)].map(([, button = "", text = ""]) => ({
      name: attribute(button, "name"),
      value: attribute(button, "value"),
      text: textOf(text),
    })),
    choices: [...inner.matchAll(/<label\b[^>]*>(<input type="(?:radio|checkbox)"[^>]*>)([\s\S]*?)<\/label>/g)].map(
      ([, input = "", text = ""]) => ({
        type: attribute(input, "type"),
        name: attribute(input, "name"),
        value: attribute(input, "value"),
        text: textOf(text),
      }),
    ),
  }));
}

/** One page or one redirect of the practice providers. */
async function send(url: string, body?: URLSearchParams): Promise<{ status: number; location: string | null; page: string }> {
  const answer = await fetch(url, { redirect: "manual", ...(body && { method: "POST", body }) });
  return { status: answer.status, location: answer.headers.get("location"), page: await answer.text() };
}

/** Goes through the pages and gives the URL that leads back, not followed. Throws when a page cannot be answered. */
export async function authorizeAs(authorizationUrl: string | URL, answers: PersonAnswers = {}): Promise<URL> {
  const { person = "Mara", decision = "allow", untick = [] } = answers;
  const origin = new URL(authorizationUrl).origin;
  let step = await send(String(authorizationUrl));
  for (let pages = 0; pages < 5; pages += 1) {
    if (step.location) return new URL(step.location);
    const forms = formsOf(step.page);
    const chooser = forms.find((form) => form.buttons.some((button) => button.name === "person"));
    const consent = forms.find((form) => form.buttons.some((button) => button.name === "decision"));
    const form = chooser ?? consent;
    if (!form) throw new Error(`No form to answer, status ${step.status}: ${textOf(step.page).slice(0, 300)}`);
    const body = new URLSearchParams(form.fields);
    if (chooser) body.set("person", chooser.buttons.find((button) => button.text.includes(person))?.value ?? "");
    for (const choice of chooser ? [] : form.choices) {
      if (choice.type === "radio" ? choice.text.includes(person) : !untick.includes(choice.value)) body.append(choice.name, choice.value);
    }
    if (!chooser)
      body.set(
        "decision",
        form.buttons.find((button) => button.name === "decision" && (button.value === "allow") === (decision === "allow"))?.value ?? "",
      );
    step = await send(new URL(form.action, origin).href, body);
  }
  throw new Error("The practice provider asked without end.");
}
