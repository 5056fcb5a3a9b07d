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
}

interface EngineModule {
  NODEFS: { stream_ops: { fsync?: (stream: NodeStream) => number } };
}

export class SyncedFiles extends NodeFS {
  /** How often the engine asked for a file to be on the disk. */
  syncs = 0;

  override async init(lite: Parameters<NodeFS["init"]>[0], options: EngineOptions): ReturnType<NodeFS["init"]> {
    return super.init(lite, { ...options, preRun: [...(options.preRun ?? []), (module: unknown) => this.#hook(module as EngineModule)] });
  }

  #hook(module: EngineModule): void {
    module.NODEFS.stream_ops.fsync = (stream) => {
      if (stream.nfd !== undefined) fsyncSync(stream.nfd);
      this.syncs += 1;
      return 0;
    };
  }
}
