import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../src/clock.js";
import { secret } from "../../src/crypto/secret.js";
import { createPasswords, passwordProblem } from "../../src/identity/passwords.js";

const passwords = createPasswords(systemClock);

test("a password opens with itself alone, also when its letters are composed otherwise", async () => {
  const stored = await passwords.hash(secret("Grüße aus der Küche"));
  assert.equal(await passwords.verify(secret("Grüße aus der Küche".normalize("NFD")), stored), true);
  assert.equal(await passwords.verify(secret("Grüsse aus der Küche"), stored), false);
  assert.equal(await passwords.verify(secret(""), stored), false);
});

test("the stored string names its parameters, its salt is its own, and the password is not in it", async () => {
  const [one, other] = await Promise.all([passwords.hash(secret("correct horse battery")), passwords.hash(secret("correct horse battery"))]);
  assert.match(one, /^scrypt\$32768\$8\$3\$[\w-]{22}\$[\w-]{43}$/);
  assert.notEqual(one, other);
  assert.ok(!one.includes("correct"));
  assert.equal(passwords.isOutdated(one), false);
  assert.equal(passwords.isOutdated(one.replace("32768", "16384")), true);
});

test("without a hash to check, the answer is no and takes the work of a real check", async () => {
  const stored = await passwords.hash(secret("correct horse battery"));
  const cpu = async (run: () => Promise<boolean>): Promise<number> => {
    const from = process.cpuUsage();
    for (let round = 0; round < 3; round++) assert.equal(await run(), false);
    const { user, system } = process.cpuUsage(from);
    return user + system;
  };
  const known = await cpu(() => passwords.verify(secret("wrong"), stored));
  const nobody = await cpu(() => passwords.verify(secret("wrong"), null));
  const broken = await cpu(() => passwords.verify(secret("wrong"), "scrypt$1$1$1$$"));
  // CPU, not wall time: the machine is shared. A shortcut would cost a hundredth.
  assert.ok(nobody > known / 3, `nobody ${nobody} µs, known ${known} µs`);
  assert.ok(broken > known / 3, `broken ${broken} µs, known ${known} µs`);
});

test("a stored string with parameters beyond ours is refused before it costs memory", async () => {
  const stored = await passwords.hash(secret("correct horse battery"));
  assert.equal(await passwords.verify(secret("correct horse battery"), stored.replace("32768", "1073741824")), false);
});

test("a password is refused for its length, its sameness or the e-mail address, and never repeated", () => {
  for (const [password, problem] of [
    ["short", /at least 10/],
    ["x".repeat(257), /at most 256/],
    ["aaaaaaaaaaaaaa", /more different/],
    ["Ann@People.test", /e-mail address/],
    ["correct horse", null],
  ] as const) {
    const said = passwordProblem(password, "ann@people.test");
    if (problem === null) assert.equal(said, null);
    else assert.match(said ?? "", problem);
    assert.ok(!said?.includes(password));
  }
});
