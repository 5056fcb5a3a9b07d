import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ownPath } from "../../src/http/ownPath.js";

const ORIGIN = "https://outband.test";

test("an own path stays as it is, with its query", () => {
  for (const path of ["/", "/connections", "/connect/abc?x=1&y=//z", "/oauth/authorize?redirect_uri=https%3A%2F%2Fapp.test", "/a#b"]) {
    assert.equal(ownPath(path), path);
  }
});

test("anything that a browser could read as another origin is nothing", () => {
  const foreign = ["", "connections", "//evil.test", "///evil.test", "/\\evil.test", "\\\\evil.test", "https://evil.test/", "/\t/evil.test", "/\n/evil.test"];
  for (const path of [...foreign, " /x", "/x\u0000", "/é", "javascript:alert(1)", "/".padEnd(5_000, "x"), undefined, null, 7, ["/x"]]) {
    assert.equal(ownPath(path), null, JSON.stringify(path));
  }
});

test("coming back to sign-in or sign-out is no way back", () => {
  for (const path of ["/login", "/logout", "/login?again=1", "/logout#x"]) assert.equal(ownPath(path), null);
  assert.equal(ownPath("/login-help"), "/login-help");
});

test("whatever passes resolves to our own origin", () => {
  const text = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.stringMatching(/^[/\\.:@a-z\t\n%?#]*$/));
  fc.assert(
    fc.property(text, (tail) => {
      for (const candidate of [tail, `/${tail}`]) {
        const own = ownPath(candidate);
        if (own !== null) assert.equal(new URL(own, `${ORIGIN}/login`).origin, ORIGIN, JSON.stringify(candidate));
      }
    }),
    { numRuns: 500 },
  );
});
