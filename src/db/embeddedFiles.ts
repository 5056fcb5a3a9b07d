// The files of the embedded database, written through to the disk. PGlite's own NodeFS has no fsync: a commit would be
// answered while it exists in the page cache alone (upstream issue 1107). Rests on names inside PGlite and Emscripten,
// hence its exact version pin and the count below, which is looked at on every start. Must never happen: an
// acknowledged commit that a power cut takes back.
import { fsyncSync } from "node:fs";
import { NodeFS } from "@electric-sql/pglite/nodefs";

type EngineOptions = Parameters<NodeFS["init"]>[1];

interface NodeStream {
  /** The descriptor of the file or directory in the host system. */
  nfd?: number;
  path?: string;
}

type Operation = (...args: unknown[]) => unknown;

interface EngineModule {
  NODEFS: { stream_ops: Record<string, Operation | undefined>; node_ops: Record<string, Operation | undefined> };
}

/** All that changes a file or a directory goes through one of these. */
const STREAM_CHANGES = ["write", "setattr"];
const NODE_CHANGES = ["setattr", "mknod", "rename", "unlink", "rmdir", "symlink"];

export class SyncedFiles extends NodeFS {
  /** How often the engine asked for a file to be on the disk. */
  syncs = 0;
  /** How often that took a wait for the disk. */
  waits = 0;
  /**
   * What was put on the disk since anything at all was changed: it is there still. After a crash the engine goes over all its
   * files (a thousand) twice before it changes the first one; the second time was a third of the start on a busy disk.
   */
  readonly #onDisk = new Set<string>();

  override async init(lite: Parameters<NodeFS["init"]>[0], options: EngineOptions): ReturnType<NodeFS["init"]> {
    return super.init(lite, { ...options, preRun: [...(options.preRun ?? []), (module: unknown) => this.#hook(module as EngineModule)] });
  }

  #hook({ NODEFS }: EngineModule): void {
    // Without one of them a change could go unseen: then nothing is ever remembered.
    const remembers = [this.#watch(NODEFS.stream_ops, STREAM_CHANGES), this.#watch(NODEFS.node_ops, NODE_CHANGES)].every(Boolean);
    NODEFS.stream_ops["fsync"] = (asked) => {
      const { nfd, path } = asked as NodeStream;
      this.syncs += 1;
      if (nfd === undefined || (path !== undefined && this.#onDisk.has(path))) return 0;
      fsyncSync(nfd);
      this.waits += 1;
      if (remembers && path !== undefined) this.#onDisk.add(path);
      return 0;
    };
  }

  #watch(operations: Record<string, Operation | undefined>, names: readonly string[]): boolean {
    return names.every((name) => {
      const change = operations[name];
      if (!change) return false;
      operations[name] = (...args) => {
        this.#onDisk.clear();
        try {
          return change(...args);
        } finally {
          this.#onDisk.clear();
        }
      };
      return true;
    });
  }
}
