// Prisma's schema engine (the WebAssembly build that belongs to this version of Prisma) on in-memory PGlite databases.
// Works around two defects of @prisma/adapter-pg 7.10.0: it does not know PostgreSQL's "char" type, and it cuts a
// script at every semicolon. Check both, and the engine's version, when Prisma is upgraded.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { PGlite } from "@electric-sql/pglite";
import { PrismaPg } from "@prisma/adapter-pg";
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum } from "@prisma/driver-adapter-utils";
import pg from "pg";
import { tsImport } from "tsx/esm/api";

const CHAR = 18;
const TEXT = 25;

/** Once: the glue keeps views into the memory of the instance it was given first. */
let engineModule = null;

/** `openPool` gives the main database of the engine, instead of an empty one; it stays the caller's. */
export async function openSchemaEngine(files, { openPool } = {}) {
  engineModule ??= loadEngine();
  const { SchemaEngine } = await engineModule;
  const { EmbeddedSocket } = await tsImport("../src/db/embeddedSocket.ts", import.meta.url);
  const databases = [];
  const connectEmpty = async () => {
    const lite = await PGlite.create();
    const pool = new pg.Pool({ max: 1, stream: () => new EmbeddedSocket(lite), user: "postgres", database: "postgres", ssl: false });
    databases.push({ lite, pool });
    return connect(pool);
  };
  const factory = {
    provider: "postgres",
    adapterName: "@prisma/adapter-pg",
    connect: openPool ? async () => connect(await openPool()) : connectEmpty,
    connectToShadowDb: connectEmpty,
  };
  const datamodels = files.map(({ path, content }) => [path, content]);
  const engine = await SchemaEngine.new({ datamodels }, () => {}, bindMigrationAwareSqlAdapterFactory(factory));
  return {
    diff: (params) => engine.diff(params),
    applyMigrations: (params) => engine.applyMigrations(params),
    diagnose: (params) => engine.diagnoseMigrationHistory(params),
    close: async () => {
      engine.free();
      for (const { lite, pool } of databases) {
        await pool.end();
        await lite.close();
      }
    },
  };
}

async function loadEngine() {
  const glueUrl = import.meta.resolve("@prisma/schema-engine-wasm/schema_engine_bg");
  const glue = await import(glueUrl);
  const bytes = await readFile(fileURLToPath(new URL("schema_engine_bg.wasm", glueUrl)));
  const { instance } = await WebAssembly.instantiate(bytes, { "./schema_engine_bg.js": glue });
  glue.__wbg_set_wasm(instance.exports);
  instance.exports.__wbindgen_start();
  return glue;
}

async function connect(pool) {
  const adapter = await new PrismaPg(pool).connect();
  const query = pool.query.bind(pool);
  const performIO = adapter.performIO.bind(adapter);
  let charColumns = [];
  adapter.performIO = async (request) => {
    const result = await performIO(request);
    charColumns = result.fields.flatMap((field, index) => (field.dataTypeID === CHAR ? [index] : []));
    return { ...result, fields: result.fields.map((field) => (field.dataTypeID === CHAR ? { ...field, dataTypeID: TEXT } : field)) };
  };
  const queryRaw = adapter.queryRaw.bind(adapter);
  adapter.queryRaw = async (request) => {
    const result = await queryRaw(request);
    for (const index of charColumns) result.columnTypes[index] = ColumnTypeEnum.Character;
    return result;
  };
  adapter.executeScript = async (script) => {
    await query(script);
  };
  return adapter;
}
