import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { hashToken, newToken, sameText } from "../../src/crypto/tokens.js";
import { secret } from "../../src/crypto/secret.js";

test("a token is 32 random bytes in base64url, never the same twice, and does not print", () => {
  const tokens = Array.from({ length: 200 }, () => newToken(systemClock));
  for (const token of tokens) assert.match(token.reveal(), /^[A-Za-z0-9_-]{43}$/);
  assert.equal(new Set(tokens.map((token) => token.reveal())).size, 200);
  assert.equal(`${tokens[0]}`, "[secret]");
  assert.equal(newToken(systemClock, 16).reveal().length, 22);
});

test("the hash of a token is its SHA-256 in hex, given as a Secret or as text", () => {
  const expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  assert.equal(hashToken("abc"), expected);
  assert.equal(hashToken(secret("abc")), expected);
});

test("texts are the same only if every byte is", () => {
  assert.equal(sameText("ab", "ab"), true);
  assert.equal(sameText("", ""), true);
  assert.equal(sameText("ab", "abc"), false);
  assert.equal(sameText("ab", "aB"), false);
  assert.equal(sameText("é", "e\u0301"), false);
});
