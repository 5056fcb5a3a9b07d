// The dashboard under /admin, for those who run the installation. Administrators change things; viewers read.
// Must never happen: a screen for anybody else; a change outside the vault's front door, or without its CSRF token.
import { Router } from "express";
import { accountScreens } from "./accounts.js";
import { auditScreens } from "./audit.js";
import { connectionScreens } from "./connections.js";
import { overviewScreen } from "./overview.js";
import { type AdminDeps, adminGuard } from "./page.js";

export type { AdminDeps } from "./page.js";

export function createAdminPages(deps: AdminDeps): Router {
  const router = Router();
  router.use("/admin", adminGuard(deps.session));
  router.use(overviewScreen(deps), connectionScreens(deps), accountScreens(deps), auditScreens(deps));
  return router;
}
