// One person, one account: who asks × with what standing × which route of pages, API and MCP × whose thing. Every cell's answer is
// said by the tables of this folder; each is asked over HTTP, and the rows of everybody else must be as they were.
// A route of the program that no table places fails, so that a new one must be placed. PostgreSQL answers every cell; the embedded
// database, whose rows can only be looked at through the API, answers one of several.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { KINDS } from "../support/journey.js";
import { adminCells } from "./adminPages.js";
import { apiCells } from "./apiCells.js";
import { type Cell, changesOf, type Fault, faultsOf, nameOf } from "./cell.js";
import { mcpCells } from "./mcpCells.js";
import { oauthCells } from "./oauthCells.js";
import { pageCells } from "./pages.js";
import { routesOf } from "./routes.js";
import { sessionCells } from "./sessions.js";
import { makeWorld, type World } from "./world.js";

const PARTS: Record<string, Cell[]> = {
  "a person's pages and links": pageCells(),
  "sign-in, settings and the way back": sessionCells(),
  "the dashboard": adminCells(),
  "the vault API": apiCells(),
  "the MCP endpoint": mcpCells(),
  "the authorization server": oauthCells(),
};
const ALL = Object.values(PARTS).flat();
const CELLS_MIN = 1_000;
/** A prime, so that no actor or object of the tables is left out by their order. */
const EMBEDDED_EVERY = 11;
/** Cells that may change nothing are asked side by side, and the database is looked at once behind them. */
const AT_ONCE = 12;
const FAULTS_SHOWN = 25;

for (const kind of KINDS) {
  describe(`who may do what with whose (${kind})`, () => {
    let world: World;
    before(async () => {
      world = await makeWorld(kind);
    });
    after(() => world?.close());

    test("every route of the program is in the matrix, and the matrix names no other", () => {
      assert.deepEqual([...new Set(ALL.map(({ route }) => route))].sort(), routesOf(world.outband.app().express));
    });

    for (const [part, all] of Object.entries(PARTS)) {
      const cells = kind === "embedded" ? all.filter((_cell, at) => at % EMBEDDED_EVERY === 0) : all;
      test(`${part}: ${cells.length} cells, 0 wrong allows`, async (t) => {
        const faults: Fault[] = [];
        await world.records.changed();
        for (const group of groupsOf(cells)) {
          const answers = await Promise.all(group.map(async (cell) => faultsOf(cell, await cell.run(world), world)));
          faults.push(...answers.flat(), ...changesOf(group, await world.records.changed()));
        }
        const wrongAllows = faults.filter(({ isWrongAllow }) => isWrongAllow);
        t.diagnostic(`${cells.length} cells, ${wrongAllows.length} wrong allows, ${faults.length - wrongAllows.length} other differences`);
        const told = [...wrongAllows, ...faults.filter(({ isWrongAllow }) => !isWrongAllow)].slice(0, FAULTS_SHOWN);
        assert.equal(faults.length, 0, `\n${told.map(({ cell, problem, isWrongAllow }) => `${isWrongAllow ? "WRONG ALLOW " : ""}${cell}: ${problem}`).join("\n")}`);
      });
    }
  });
}

test(`the matrix has ${ALL.length} cells`, () => {
  assert.ok(ALL.length >= CELLS_MIN, `${ALL.length} cells`);
  const names = ALL.map(nameOf);
  assert.equal(new Set(names).size, names.length, names.find((name, at) => names.indexOf(name) !== at));
});

/** A cell that may change something stands alone, so that what it changes is known to be its doing. */
function groupsOf(cells: readonly Cell[]): Cell[][] {
  const groups: Cell[][] = [];
  for (const cell of cells) {
    const last = groups.at(-1);
    if (last?.[0] && last.length < AT_ONCE && last[0].changes.length === 0 && cell.changes.length === 0) last.push(cell);
    else groups.push([cell]);
  }
  return groups;
}
