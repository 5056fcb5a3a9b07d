// Collects the body of an answer: decoded, counted as it grows, and given up at the cap. Must never happen: a small answer
// that unpacks into all of the memory (a cap on the compressed bytes let 49 kB become 50 MB).
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import type { Transform } from "node:stream";

export interface BodyCollector {
  /** False: stop sending until `onRoom`. */
  write(chunk: Buffer): boolean;
  end(): void;
  destroy(): void;
}

export interface BodyEnd {
  onDone(body: Buffer): void;
  onTooLarge(): void;
  /** The bytes do not fit their content-encoding, or end too early. */
  onBroken(): void;
  onRoom(): void;
}

const DECODERS: Record<string, () => Transform> = {
  gzip: () => createGunzip(),
  "x-gzip": () => createGunzip(),
  deflate: () => createInflate(),
  br: () => createBrotliDecompress(),
};

export const ACCEPT_ENCODING = "gzip, deflate, br";
/** One coding is what servers send; stacked codings are a bomb's shape. */
const CODINGS_MAX = 2;

/** Null: a content-encoding that we did not ask for. */
export function createBodyCollector(contentEncoding: string, bytesMax: number, end: BodyEnd): BodyCollector | null {
  const codings = contentEncoding
    .toLowerCase()
    .split(",")
    .map((coding) => coding.trim())
    .filter((coding) => coding !== "" && coding !== "identity");
  const makers = codings.map((coding) => (Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined));
  if (makers.length > CODINGS_MAX || makers.includes(undefined)) return null;
  // The last coding was put on last and comes off first (RFC 9110, 8.4).
  return collect(
    makers.reverse().flatMap((make) => (make ? [make()] : [])),
    bytesMax,
    end,
  );
}

function collect(decoders: Transform[], bytesMax: number, end: BodyEnd): BodyCollector {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let bytesOnWire = 0;
  let isOver = false;
  const finish = (tell: () => void) => {
    if (isOver) return;
    isOver = true;
    for (const decoder of decoders) decoder.destroy();
    tell();
  };
  const take = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > bytesMax) finish(end.onTooLarge);
    else if (!isOver) chunks.push(chunk);
  };
  const done = () => finish(() => end.onDone(Buffer.concat(chunks)));
  const [first] = decoders;
  for (const [index, decoder] of decoders.entries()) {
    decoder.on("error", () => finish(end.onBroken));
    const next = decoders[index + 1];
    if (next) decoder.pipe(next);
    else decoder.on("data", take).on("end", done);
  }
  first?.on("drain", end.onRoom);
  return {
    write: (chunk) => {
      if (isOver) return true;
      if (first === undefined) {
        take(chunk);
        return true;
      }
      // Blocks that unpack to nothing would never reach the cap on decoded bytes.
      bytesOnWire += chunk.length;
      if (bytesOnWire > bytesMax) {
        finish(end.onTooLarge);
        return true;
      }
      return first.write(chunk);
    },
    end: () => {
      if (first === undefined || bytesOnWire === 0) done();
      else first.end();
    },
    destroy: () => finish(() => {}),
  };
}
