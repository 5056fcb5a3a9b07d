// Brings dist/ up to date: the Prisma client when the schema changed, then TypeScript. Views, assets and migrations are
// not copied: src/ and dist/ both lie one level below the root and read them from there.
// Must never happen: two builds at once (`npm start` beside `npm run outband`), or a stamp over a half-written dist/.
//   --if-changed  do nothing when the inputs are those of the last build     --quiet  print only errors
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { withBuildLock } from "./build-lock.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const at = (...parts) => join(root, ...parts);
const GENERATED = at("src", "db", "generated");
const DIST_STAMP = at("dist", ".build-stamp");
const CLIENT_STAMP = join(GENERATED, ".build-stamp");

const ifChanged = process.argv.includes("--if-changed");
const quiet = process.argv.includes("--quiet");
const say = (line) => quiet || console.log(line);

if (ifChanged && isCurrent()) process.exit(0);
process.exitCode = await withBuildLock(at("dist"), () => (ifChanged && isCurrent() ? 0 : build()));

function build() {
  const startedAt = performance.now();
  const inputs = inputsDigest();
  rmSync(DIST_STAMP, { force: true });
  if (!(ifChanged && isClientCurrent())) {
    say("Generating the database client …");
    if (run([at("scripts", "prisma.mjs"), "generate"]) !== 0) return 1;
    writeFileSync(CLIENT_STAMP, clientDigest());
  }
  say("Compiling …");
  removeOrphans();
  if (run([at("node_modules", "typescript", "bin", "tsc"), "-p", at("tsconfig.json")]) !== 0) return 1;
  // The digest of before: a file saved while the compiler ran makes the next start build again.
  writeFileSync(DIST_STAMP, inputs);
  say(`Built in ${((performance.now() - startedAt) / 1000).toFixed(1)} s.`);
  return 0;
}

function run(argv) {
  const result = spawnSync(process.execPath, argv, { cwd: root, stdio: ["ignore", quiet ? "pipe" : "inherit", "inherit"] });
  if (quiet && result.status !== 0) process.stderr.write(result.stdout ?? "");
  return result.status ?? 1;
}

function isCurrent() {
  return (
    isClientCurrent() &&
    read(DIST_STAMP) === inputsDigest() &&
    sources().every((file) => file.endsWith(".d.ts") || existsSync(outputOf(file)))
  );
}

function isClientCurrent() {
  return read(CLIENT_STAMP) === clientDigest();
}

function clientDigest() {
  return digest([at("prisma", "schema.prisma"), at("prisma.config.ts"), at("node_modules", "@prisma", "client", "package.json")]);
}

function inputsDigest() {
  const own = sources().filter((file) => !file.startsWith(GENERATED));
  return digest([at("prisma", "schema.prisma"), at("package-lock.json"), at("tsconfig.json"), at("scripts", "build.mjs"), ...own]);
}

function digest(files) {
  const hash = createHash("sha256");
  for (const file of files)
    hash
      .update(`${relative(root, file)}\0`)
      .update(readFileSync(file))
      .update("\0");
  return hash.digest("hex");
}

function sources() {
  return list(at("src"))
    .filter((file) => file.endsWith(".ts"))
    .sort();
}

function outputOf(source) {
  return at("dist", relative(at("src"), source).replace(/\.ts$/, ".js"));
}

/** Removes outputs whose source is gone, so that a deleted module cannot be imported; and the compiler's own memory
 *  when it vouches for an output that is not there. */
function removeOrphans() {
  const known = sources();
  const outputs = new Set(known.map(outputOf));
  for (const file of list(at("dist"))) {
    const script = file.replace(/(\.js\.map|\.d\.ts)$/, ".js");
    if (script.endsWith(".js") && !outputs.has(script)) rmSync(file, { force: true });
  }
  const isWhole = known.every((file) => file.endsWith(".d.ts") || existsSync(outputOf(file)));
  if (!ifChanged || !isWhole) rmSync(at("dist", ".tsbuildinfo"), { force: true });
}

function list(directory) {
  mkdirSync(directory, { recursive: true });
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
}

function read(file) {
  return existsSync(file) ? readFileSync(file, "utf8") : null;
}
