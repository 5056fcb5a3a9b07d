// 10,000 canaries: tokens, client secrets, keys, codes, verifiers, passwords, cookies and links of many people, brought through
// the whole program, mishaps included, and then each looked for in every answer, log line, table and file, in clear, in base64,
// in hex and url-encoded: 0 hits outside their lawful carriers (test/support/carriers.ts).
// npm run bench:canaries -- [--canaries 10000] [--kind embedded|postgresql]; postgresql needs TEST_DATABASE_URL.
import { randomBytes } from "node:crypto";
import { parseArgs } from "node:util";
import { createBrowser } from "../test/support/browser.js";
import { createCanaries, ROUNDS_MAX } from "../test/support/canaryRounds.js";
import { sweep } from "../test/support/canarySweep.js";
import { startEchoingApi } from "../test/support/echoingApi.js";
import { callTool } from "../test/support/mcpCall.js";
import type { Secret } from "../test/support/needles.js";
import { ADMIN_KEY, startOutband } from "../test/support/outband.js";
import { captureOutput } from "../test/support/output.js";
import { dumpTables, readFiles } from "../test/support/rawDatabase.js";
import { secretsOf } from "../test/support/secretsOf.js";
import { recordWire } from "../test/support/wire.js";

const { values } = parseArgs({ options: { canaries: { type: "string", default: "10000" }, kind: { type: "string", default: "embedded" } } });
const wanted = Number(values.canaries);
const kind = values.kind === "postgresql" ? "postgresql" : "embedded";
const startedAt = performance.now();
const seconds = (): number => Math.round((performance.now() - startedAt) / 1000);

const planted: Secret = { kind: "planted", value: `planted-${randomBytes(9).toString("hex")}` };
const master = randomBytes(32).toString("base64");
const wire = recordWire();
const output = captureOutput((text) => text.trim() === planted.value);
const outband = await startOutband({ kind, settings: { MASTER_KEY: master, SETTLE_WAIT_MS: "1000", SETTLE_LEG_MS: "500" } });
outband.provider.setPolicy("slack", { accessTtlS: 43_200, rotatesRefreshTokens: true });
const keyApi = await startEchoingApi();
const portOf = (origin: string): number => Number(new URL(origin).port);
const [ourPort, theirPort] = [portOf(outband.url), portOf(outband.provider.origin)];
const admin = createBrowser(outband.url);
const setupUrl = outband.app().setupUrl ?? "";
const password = `root ${randomBytes(12).toString("hex")}`;
await admin.post(setupUrl, { email: "root@people.example", password, password_again: password }, { from: await admin.get(setupUrl) });

const canaries = await createCanaries(outband, keyApi, planted);
canaries.typed.push({ kind: "master key", value: master }, { kind: "admin key", value: ADMIN_KEY }, { kind: "password", value: password }, { kind: "set-up token", value: setupUrl.split("/").at(-1) ?? "" });
const harvest = new Map<string, Secret>();
let harvestedTo = 0;
let rounds = 0;
const all = (): Secret[] => [...new Map([...harvest.values(), ...canaries.typed].map((secret) => [secret.value, secret])).values()];
while (rounds < ROUNDS_MAX && all().length < wanted) {
  await canaries.round(rounds);
  rounds += 1;
  harvestNew();
  if (rounds % 5 === 0) process.stderr.write(`  ${seconds()} s: ${rounds} people, ${all().length} canaries\n`);
}

// Everything that can be read is read, after a restart too.
const sender = (await outband.api("POST", "/session-tokens", { identifier: "person-0", ttl_s: 3_600 })).body.token;
const listed = await callTool(outband.url, sender, "gmail_list_messages", { query: planted.value, account: "link 0" });
if (listed.body.result?.resultType !== "complete" || listed.body.result.isError === true) throw new Error(JSON.stringify(listed.body));
await outband.restart();
for (const path of ["/connections", "/accounts?limit=200", "/users?limit=200", "/api-keys", "/tools", "/keys", "/events?limit=200", "/nothing"]) await outband.api("GET", path);
for (const { id } of (await outband.api("GET", "/accounts?limit=200")).body.data) await outband.api("GET", `/accounts/${id}`);
const { id: shown } = (await outband.api("GET", "/accounts?identifier=person-0")).body.data[0];
for (const path of ["/admin", "/admin/connections", "/admin/connections/mail-0", "/admin/connections/mail-0/edit", "/admin/accounts", `/admin/accounts/${shown}`, "/admin/audit"]) {
  const page = await admin.get(path);
  if (page.status !== 200) throw new Error(`${path}: ${page.status}`);
}
process.stdout.write(`${planted.value}\n`);
await outband.close();
await keyApi.close();
wire.stop();
harvestNew();

const secrets = all();
const outcome = sweep(
  {
    // The program's own lines, and the planted one behind them.
    log: [...outband.logs, `{"message":"${planted.value}"}`].join("\n"),
    output: output.text(),
    ours: wire.of(ourPort),
    theirs: [...wire.of(theirPort), ...wire.of(keyApi.port)],
    tables: await dumpTables(outband.databaseUrl === null ? { dataDir: outband.dataDir } : { databaseUrl: outband.databaseUrl }),
    files: outband.databaseUrl === null ? readFiles(outband.dataDir) : [],
  },
  secrets,
  planted,
);
output.stop();

const kinds = new Map<string, number>();
for (const secret of secrets) kinds.set(secret.kind, (kinds.get(secret.kind) ?? 0) + 1);
const looked = Object.entries(outcome.chars).map(([name, chars]) => `${name} ${Math.round(chars / 1_000)}`);
console.log(`${secrets.length} canaries of ${kinds.size} kinds, ${rounds} people, ${wire.exchanges.length} exchanges (${kind}): ${outcome.hits.length} hits; ${seconds()} s`);
console.log(`  looked at, in thousand characters: ${looked.join(", ")}`);
console.log(`  self-check: ${outcome.carried} canaries met in their lawful carriers; ${outcome.tried} planted in a text (clear, base64, base64url, hex, url-encoded), ${outcome.missed.length} missed; places where the planted label was not seen: ${outcome.blind.join(", ") || "none"}`);
console.log(`  ${[...kinds].map(([name, count]) => `${name} ${count}`).join(", ")}`);
for (const problem of [...outcome.hits, ...new Set(outcome.missed)].slice(0, 20)) console.log(`  ${problem}`);
process.exitCode = outcome.hits.length + outcome.missed.length + outcome.blind.length === 0 && secrets.length >= wanted ? 0 : 1;

function harvestNew(): void {
  const found = secretsOf(wire.exchanges.slice(harvestedTo), ({ port }) => (port === ourPort ? "ours" : port === theirPort ? "provider" : null));
  harvestedTo = wire.exchanges.length;
  for (const secret of found) if (!harvest.has(secret.value)) harvest.set(secret.value, secret);
}
