// Short-lived things kept under an unguessable key: authorization requests and codes. In memory only: a restart voids them,
// as it may at a real provider. Must never grow without bound.
import type { Clock } from "../clock.js";
import { digest, randomText } from "./digest.js";

export interface Shelf<Item> {
  put(item: Item): string;
  /** Null once it is too old, or was never there. */
  get(key: string): Item | null;
}

export function createShelf<Item>(options: { clock: Clock; prefix: string; ttlMs: number; itemsMax: number }): Shelf<Item> {
  const items = new Map<string, { item: Item; goneAtMs: number }>();

  return {
    put(item) {
      const key = randomText(options.clock, options.prefix);
      items.set(digest(key), { item, goneAtMs: options.clock.now() + options.ttlMs });
      const oldest = items.keys().next();
      if (items.size > options.itemsMax && !oldest.done) items.delete(oldest.value);
      return key;
    },
    get(key) {
      const found = items.get(digest(key));
      return found && found.goneAtMs > options.clock.now() ? found.item : null;
    },
  };
}
