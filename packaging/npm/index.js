// Starts a Quarry server for tests and applications.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

/** The server's binary. */
const binary = path.join(__dirname, "bin", "quarry");
/** The same with mongod's command line, for MONGOMS_SYSTEM_BINARY of mongodb-memory-server. */
const mongod = path.join(__dirname, "bin", "mongod");

const LISTENING = /listening on mongodb:\/\/([^\s,]+)/;
const KEPT_OUTPUT = 64 * 1024;

/** A running server. */
class QuarryServer {
  /**
   * Starts one. `dbPath`: its data; without it a new folder, gone when the server stops. `port`: any free one without it.
   * `args`: more options of `quarry serve`.
   */
  static async start({ dbPath, port = 0, args = [] } = {}) {
    const scratch = dbPath === undefined ? fs.mkdtempSync(path.join(os.tmpdir(), "quarry-")) : undefined;
    const options = ["serve", "--dbpath", dbPath ?? scratch, "--port", String(port), "--nounixsocket", ...args];
    const child = spawn(binary, options, { stdio: ["ignore", "pipe", "pipe"] });
    const server = new QuarryServer(child, scratch);
    try {
      const address = await server.#listening();
      server.address = address;
      server.uri = `mongodb://${address}/?directConnection=true`;
      return server;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  #ended;
  #scratch;

  constructor(child, scratch) {
    this.process = child;
    this.#scratch = scratch;
    this.#ended = new Promise((resolve) => {
      child.once("exit", (status, signal) => resolve(signal ?? status));
      child.once("error", resolve);
    });
  }

  #listening() {
    return new Promise((resolve, reject) => {
      let output = "";
      const take = (chunk) => {
        output = (output + chunk).slice(-KEPT_OUTPUT);
        const found = LISTENING.exec(output);
        if (found) resolve(found[1]);
      };
      this.process.stdout.on("data", take);
      this.process.stderr.on("data", take);
      this.#ended.then((how) => reject(new Error(`quarry ended (${how}) before it listened: ${output.trim()}`)));
    });
  }

  /** Stops it: data that were acknowledged are on the disk; a folder that was made for it goes. */
  async stop() {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill("SIGTERM");
    await this.#ended;
    if (this.#scratch !== undefined) fs.rmSync(this.#scratch, { recursive: true, force: true });
  }
}

module.exports = { QuarryServer, binary, mongod };
