// The front door `/`: it has no page of its own and brings each person to theirs.
import { Router } from "express";
import { personOf, type PageDeps } from "./page.js";

export function createHomePage(deps: Pick<PageDeps, "session">): Router {
  const router = Router();
  router.get("/", deps.session.requirePerson, (req, res) => {
    const { role } = personOf(deps.session, req);
    res.status(303).location(role === "admin" ? "/admin" : "/connections").end();
  });
  return router;
}
