// The style sheet and the few pictures of our own. Their URLs carry a digest of the content, so they may be cached for
// good and change at once with a new version. Nothing a person typed or a provider said is ever served from here.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import express, { type RequestHandler } from "express";

/** `src/http` and `dist/http` lie equally deep. */
export const VIEWS_DIR = fileURLToPath(new URL("../../views", import.meta.url));
const ASSETS_DIR = join(VIEWS_DIR, "assets");

/** To be mounted at /assets. */
export function createAssets(): RequestHandler {
  return express.static(ASSETS_DIR, {
    index: false,
    redirect: false,
    dotfiles: "ignore",
    setHeaders: (res) => {
      // Without a digest in the URL a cached copy could be a version behind.
      res.setHeader("Cache-Control", "public, max-age=31536000, immutable");
    },
  });
}

/** Name → URL with the digest of the content. */
export function assetUrls(): (name: string) => string {
  const urls = new Map<string, string>();
  for (const name of readdirSync(ASSETS_DIR)) {
    const digest = createHash("sha256").update(readFileSync(join(ASSETS_DIR, name))).digest("base64url").slice(0, 12);
    urls.set(name, `/assets/${name}?v=${digest}`);
  }
  return (name) => urls.get(name) ?? `/assets/${name}`;
}
