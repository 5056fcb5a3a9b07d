// Liveness and readiness for load balancers. Must never happen: a liveness check that fails because a neighbour is down;
// an answer that tells a stranger more than which part is not ready.
import { Router } from "express";

export interface HealthDeps {
  parts: Record<string, () => Promise<boolean>>;
  /** True from the moment the program is told to stop: load balancers look elsewhere. */
  stopping(): boolean;
}

export function createHealth(deps: HealthDeps): Router {
  const router = Router();
  router.get("/healthz", (_req, res) => {
    res.json({ status: "ok" });
  });
  router.get("/readyz", async (_req, res) => {
    const checked = await Promise.all(Object.entries(deps.parts).map(async ([name, check]) => [name, await check().catch(() => false)] as const));
    const ready = !deps.stopping() && checked.every(([, isReady]) => isReady);
    const parts = Object.fromEntries(checked.map(([name, isReady]) => [name, isReady ? "ready" : "not ready"]));
    res.status(ready ? 200 : 503).json({ status: ready ? "ready" : deps.stopping() ? "stopping" : "not ready", parts });
  });
  return router;
}
