import type { ChildProcess } from "node:child_process";

/** The server's binary. */
export const binary: string;
/** The same with mongod's command line, for MONGOMS_SYSTEM_BINARY of mongodb-memory-server. */
export const mongod: string;

export interface Options {
  /** Its data; without it a new folder, gone when the server stops. */
  dbPath?: string;
  /** Any free one without it. */
  port?: number;
  /** More options of `quarry serve`. */
  args?: string[];
}

/** A running server. */
export class QuarryServer {
  static start(options?: Options): Promise<QuarryServer>;
  /** `host:port` */
  address: string;
  /** For a driver. */
  uri: string;
  process: ChildProcess;
  /** Stops it; a folder that was made for it goes. */
  stop(): Promise<void>;
}
