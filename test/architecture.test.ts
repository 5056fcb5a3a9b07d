// Reads the tree and keeps the house true: who may import whom, and one gate per power.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SRC = join(ROOT, "src");

/** Lower rooms know nothing of higher ones. Files directly in src are named here too. */
const RANK: Record<string, number> = {
  "errors.ts": 0,
  "clock.ts": 0,
  "ids.ts": 0,
  "log.ts": 0,
  config: 0,
  crypto: 0,
  db: 0,
  net: 0,
  http: 0,
  connectors: 1,
  audit: 1,
  events: 1,
  vault: 2,
  identity: 2,
  sandbox: 3,
  api: 3,
  pages: 3,
  admin: 3,
  mcp: 3,
  authorization: 3,
  cli: 3,
  sdk: 3,
  "app.ts": 4,
  "worker.ts": 4,
  "server.ts": 5,
  "abandon.ts": 5,
  "keyCheck.ts": 5,
};
const SURFACES = ["api", "pages", "admin", "mcp", "authorization", "sandbox", "cli", "sdk"];

/** A room that may look one way against the ranks, and why. */
const EXCEPTIONS: { from: RegExp; to: RegExp; why: string }[] = [
  { from: /^audit\//, to: /^identity\/principal\.ts$/, why: "an audit row names its actor; the type alone" },
];

interface Source {
  path: string;
  room: string;
  text: string;
  code: string;
}

const sources: Source[] = listFiles(SRC, ".ts")
  .filter((file) => !file.includes("/db/generated/"))
  .map((file) => {
    const text = readFileSync(file, "utf8");
    const path = relative(SRC, file);
    return { path, room: path.includes("/") ? (path.split("/")[0] ?? "") : path, text, code: withoutComments(text) };
  });

test("every room has a rank, and every file belongs to one", () => {
  assert.deepEqual([...new Set(sources.map((source) => source.room))].filter((room) => RANK[room] === undefined), []);
});

test("imports go downwards, and surfaces never import one another", () => {
  const wrong: string[] = [];
  for (const source of sources) {
    for (const target of importsOf(source)) {
      const room = target.includes("/") ? (target.split("/")[0] ?? "") : target;
      if (EXCEPTIONS.some((exception) => exception.from.test(source.path) && exception.to.test(target))) continue;
      const up = (RANK[room] ?? 99) > (RANK[source.room] ?? 99);
      const across = SURFACES.includes(room) && SURFACES.includes(source.room) && room !== source.room;
      if (up || across) wrong.push(`${source.path} → ${target}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("a connector knows no database and no vault", () => {
  assert.deepEqual(offenders(/^connectors\//, /from "\.\.\/(?:\.\.\/)?(?:db|vault|identity)\//), []);
});

test("only the vault's front door leads to accounts: surfaces import no other part of it that writes", () => {
  const allowed = /^vault\/(front|types|store|vault)\.ts$/;
  const wrong = sources
    .filter((source) => SURFACES.includes(source.room))
    .flatMap((source) => importsOf(source).filter((target) => target.startsWith("vault/") && !allowed.test(target)).map((target) => `${source.path} → ${target}`));
  assert.deepEqual(wrong, []);
});

const GATES: { power: string; pattern: RegExp; allowed: RegExp }[] = [
  { power: "the environment", pattern: /process\.env/, allowed: /^(config\/config\.ts|cli\/environment\.ts)$/ },
  { power: "time", pattern: /Date\.now\(|new Date\(\)|performance\.now\(/, allowed: /^clock\.ts$/ },
  { power: "timers", pattern: /\bset(?:Timeout|Interval)\(|AbortSignal\.timeout\(/, allowed: /^clock\.ts$/ },
  { power: "randomness", pattern: /Math\.random\(|randomBytes\((?!length)|randomUUID\(|getRandomValues\(/, allowed: /^clock\.ts$/ },
  { power: "the network", pattern: /(?<![.\w])fetch\(|from "undici"|from "node:https?"|from "axios"/, allowed: /^(net\/|cli\/|sdk\/|sandbox\/|server\.ts|app\.ts|http\/problem\.ts)/ },
  { power: "making a Prisma client", pattern: /new PrismaClient\(|from "@prisma\/adapter-pg"|from "pg"/, allowed: /^db\// },
  { power: "the status of an account", pattern: /connectedAccount\.update(?:Many)?\((?:(?!\}\);)[\s\S]){0,300}?data:\s*\{[^}]*\bstatus\b/, allowed: /^vault\/account\.ts$/ },
  { power: "printing", pattern: /console\.(?:log|error|warn|info|debug)\(/, allowed: /^cli\// },
];

for (const gate of GATES) {
  test(`one gate: ${gate.power}`, () => {
    const wrong = sources.filter((source) => !gate.allowed.test(source.path) && gate.pattern.test(withoutClock(source.code))).map((source) => source.path);
    assert.deepEqual(wrong, []);
  });
}

test("no default exports, no enums, no any", () => {
  assert.deepEqual(offenders(/./, /^export default/m), []);
  assert.deepEqual(offenders(/./, /^\s*(?:export )?(?:const )?enum /m), []);
  assert.deepEqual(offenders(/./, /(?::|<|\bas) any\b/), []);
});

test("no file is longer than 400 lines, and each opens with what it owns", () => {
  const long = sources.filter((source) => source.text.split("\n").length > 400).map((source) => source.path);
  const silent = sources.filter((source) => !/^(?:#!.*\n)?\/\//.test(source.text)).map((source) => source.path);
  assert.deepEqual({ long, silent }, { long: [], silent: [] });
});

test("views escape what they print and hold no inline script or style", () => {
  const wrong: string[] = [];
  for (const file of listFiles(join(ROOT, "views"), ".ejs")) {
    const text = readFileSync(file, "utf8");
    for (const raw of text.matchAll(/<%-([\s\S]*?)%>/g)) {
      if (!/^\s*(?:include\(|icon\(|body\b|marks?\()/.test(raw[1] ?? "")) wrong.push(`${relative(ROOT, file)}: ${raw[0]}`);
    }
    if (/<script\b(?![^>]*\bsrc=)|<style\b|\sstyle=|\son[a-z]+=/i.test(text)) wrong.push(`${relative(ROOT, file)}: inline script or style`);
    if (/(?:src|href)="https?:\/\//.test(text)) wrong.push(`${relative(ROOT, file)}: a third party's resource or address`);
  }
  assert.deepEqual(wrong, []);
});

function offenders(where: RegExp, pattern: RegExp): string[] {
  return sources.filter((source) => where.test(source.path) && pattern.test(source.code)).map((source) => source.path);
}

function importsOf(source: Source): string[] {
  const found = [...source.code.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map((match) => match[1] ?? "");
  return found.map((specifier) => relative(SRC, resolve(dirname(join(SRC, source.path)), specifier)).replace(/\.js$/, ".ts"));
}

function listFiles(folder: string, ending: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? listFiles(path, ending) : path.endsWith(ending) ? [path] : [];
  });
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|[^:"'`])\/\/.*$/gm, "$1");
}

/** `clock.randomBytes(…)` is the gate itself, wherever it stands. */
function withoutClock(code: string): string {
  return code.replace(/\bclock\.\w+\(/g, "clock(");
}
