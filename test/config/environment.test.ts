import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "dotenv";
import { loadEnvironment, readSettings } from "../../src/config/config.js";

const KEY = Buffer.from("0123456789abcdef0123456789abcdef").toString("base64");

test(".env is read from the working folder, and the environment wins over it", () => {
  const folder = mkdtempSync(join(tmpdir(), "outband-env-"));
  try {
    assert.equal(loadEnvironment(folder)["LINK_TTL_S"], undefined);
    writeFileSync(join(folder, ".env"), 'LINK_TTL_S=61\nPATH=/nowhere\n# comment\nADMIN_PASSWORD="a # b"\n');
    const env = loadEnvironment(folder);
    assert.equal(env["LINK_TTL_S"], "61");
    assert.equal(env["ADMIN_PASSWORD"], "a # b");
    assert.notEqual(env["PATH"], "/nowhere");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test(".env.example names every setting once, each with a reason above it, and its values are accepted", () => {
  const text = readFileSync(new URL("../../.env.example", import.meta.url), "utf8");
  const asked = new Set<string>();
  readSettings(new Proxy({} as Record<string, string | undefined>, { get: (_target, name) => void asked.add(String(name)) }), "linux");
  const named = [...text.matchAll(/^#([A-Z][A-Z0-9_]+)=/gm)].map((match) => match[1] ?? "");
  assert.deepEqual([...named].sort(), [...asked].sort());
  const blocks = text.split("\n").map((line, index, lines) => [line, lines[index - 1] ?? ""] as const);
  for (const [line, above] of blocks) if (/^#[A-Z][A-Z0-9_]+=/.test(line)) assert.match(above, /^#/, line);
  const filled = parse(text.replace(/^#([A-Z][A-Z0-9_]+=)/gm, "$1"));
  const outcome = readSettings({ ...filled, MASTER_KEY: KEY, ADMIN_PASSWORD: "correct horse" }, "linux");
  const problems = outcome.ok ? [] : outcome.problems;
  // Only the empty halves of the pairs are missing.
  assert.deepEqual(problems, ["OIDC_ISSUER is set, but OIDC_CLIENT_ID is not. Set both or neither."]);
});
