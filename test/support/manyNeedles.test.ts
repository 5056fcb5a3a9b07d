// The quick search of thousands of secrets finds what the plain one finds, and nothing else.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { manySearcherFor } from "./manyNeedles.js";
import { needlesOf, searcherFor, type Secret } from "./needles.js";

const made = (prefix: string, bytes: number): Secret => ({ kind: prefix, value: prefix + randomBytes(bytes).toString("base64url") });
const secrets = [
  ...Array.from({ length: 400 }, () => made("", 32)),
  ...Array.from({ length: 400 }, () => made("1//", 24)),
  ...Array.from({ length: 200 }, () => made("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwOi8v.", 64)),
  ...Array.from({ length: 200 }, () => ({ kind: "with marks", value: `p/${randomBytes(9).toString("base64")}+ü "${randomBytes(6).toString("hex")}` })),
];

test("each secret is found in each of its forms, at the beginning, in the midst and at the end of a text", () => {
  const { find } = manySearcherFor(secrets);
  for (const secret of secrets) {
    for (const needle of needlesOf(secret.value)) {
      for (const text of [needle, `${needle} behind`, `before ${needle}`, `before${needle}behind`]) assert.ok(find(text).includes(secret), needle);
    }
  }
});

test("it agrees with the plain search, on texts with many, with parts too short, with one character changed, and with none", () => {
  const [many, plain] = [manySearcherFor(secrets), searcherFor(secrets)];
  const changed = (text: string): string => `${text.slice(0, -1)}${text.endsWith("~") ? "x" : "~"}`;
  const some = secrets.filter((_secret, index) => index % 60 === 0);
  const texts = [
    some.map(({ value }) => value).join(""),
    some.map(({ value }) => Buffer.from(value).toString("base64")).join("\n"),
    some.map(({ value }) => value.slice(0, 11)).join(" "),
    some.map(({ value }) => changed(value.slice(-20))).join(" "),
    randomBytes(20_000).toString("base64"),
    "",
  ];
  const kept = texts.map((text) => many.find(text).map((secret) => secrets.indexOf(secret)).sort((a, b) => a - b));
  assert.deepEqual(kept, texts.map((text) => plain.find(text).map((secret) => secrets.indexOf(secret))));
  assert.deepEqual([kept[0]?.length, kept[2]?.length, kept[4]?.length, kept[5]?.length], [some.length, 0, 0, 0]);
});
