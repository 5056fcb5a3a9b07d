// Every route that the running program has, read from its own routers: what the matrix must place.
import type { Express } from "express";

interface Layer {
  rawPath: string | string[];
  slash: boolean;
  route?: { path: string; methods: Record<string, boolean> };
  handle: { stack?: Layer[] };
}

/** `METHOD path`; `ALL path` takes every method; `MOUNT path` hands a whole tree of addresses to something that is no router. */
export function routesOf(app: Express): string[] {
  const stack = (app as unknown as { router: { stack: Layer[] } }).router.stack;
  return [...new Set(walk(stack, ""))].sort();
}

function walk(stack: readonly Layer[], prefix: string): string[] {
  return stack.flatMap((layer) => {
    const paths = [layer.rawPath].flat().map((path) => prefix + (path === "/" && layer.slash ? "" : path));
    const { route } = layer;
    if (route) return paths.flatMap((path) => Object.keys(route.methods).map((method) => `${method === "_all" ? "ALL" : method.toUpperCase()} ${path}`));
    const inner = layer.handle.stack;
    if (inner) return paths.flatMap((path) => walk(inner, path));
    return layer.slash ? [] : paths.map((path) => `MOUNT ${path}`);
  });
}
