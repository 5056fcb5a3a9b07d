// The hand-drawn marks in views/icons: neutral pictures of a kind of service, not anybody's logo. Printed raw into
// pages, so only names of files that ship are ever looked up.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { VIEWS_DIR } from "./assets.js";

/** Name → inline SVG, hidden from screen readers (the words beside it say it); an unknown name is a plug. */
export function createIcons(): (name: string) => string {
  const folder = join(VIEWS_DIR, "icons");
  const icons = new Map<string, string>();
  for (const file of readdirSync(folder)) {
    if (!file.endsWith(".svg")) continue;
    const drawing = readFileSync(join(folder, file), "utf8").trim();
    icons.set(file.slice(0, -4), drawing.replace("<svg ", '<svg class="icon" aria-hidden="true" focusable="false" '));
  }
  return (name) => icons.get(name) ?? icons.get("plug") ?? "";
}
