// kill -9 on PostgreSQL: what is kept, and how soon it serves again.
import { test } from "node:test";
import { describeCrashes } from "../support/crashLoad.js";

if (process.env.TEST_DATABASE_URL) describeCrashes("postgresql");
else test("kill -9 (postgresql)", { skip: "TEST_DATABASE_URL is not set" }, () => {});
