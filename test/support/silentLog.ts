// A log that says nothing, for code under test that wants one.
import { createLog, type Log } from "../../src/log.js";

export const silentLog: Log = createLog({ level: "silent", write: () => {} });
