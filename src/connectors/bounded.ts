// Several requests side by side, never more than a limit, results in order. The first failure ends it: no request is begun
// after it, and those under way are waited for, so that nothing outlives the call.

export async function mapBounded<Item, Result>(
  items: readonly Item[],
  atOnceMax: number,
  run: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  let failure: { thrown: unknown } | null = null;
  async function worker(): Promise<void> {
    while (next < items.length && !failure) {
      const index = next;
      next += 1;
      try {
        results[index] = await run(items[index] as Item);
      } catch (thrown) {
        failure ??= { thrown };
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnceMax, items.length) }, worker));
  const ended = failure as { thrown: unknown } | null;
  if (ended) throw ended.thrown;
  return results;
}
