// What this process writes on stdout and stderr, besides what the test runner sees of it.
import { after } from "node:test";

export interface Output {
  text(): string;
  stop(): void;
}

const running = new Set<Output>();
after(() => {
  for (const output of running) output.stop();
});

/** `hides`: texts that go no further, because a test wrote them to see whether it would be caught. */
export function captureOutput(hides: (text: string) => boolean = () => false): Output {
  const parts: string[] = [];
  const undo = [process.stdout, process.stderr].map((stream) => {
    const write = stream.write;
    stream.write = ((...args: Parameters<typeof write>) => {
      const [chunk] = args;
      const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("latin1");
      parts.push(text);
      return hides(text) ? true : write.apply(stream, args);
    }) as typeof write;
    return () => {
      stream.write = write;
    };
  });
  const output: Output = {
    text: () => parts.join(""),
    stop: () => {
      for (const step of undo) step();
      running.delete(output);
    },
  };
  running.add(output);
  return output;
}
