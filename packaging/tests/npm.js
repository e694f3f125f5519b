// The npm package as a test would use it: a server of its own, and as the binary of mongodb-memory-server.
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const { MongoClient } = require("mongodb");
const { QuarryServer, mongod } = require("quarry-server");

async function use(uri) {
  const client = new MongoClient(uri);
  const things = client.db("test").collection("things");
  await things.insertOne({ _id: 1, n: 2 });
  assert.deepStrictEqual(await things.findOne({ n: 2 }), { _id: 1, n: 2 });
  await client.close();
}

async function main() {
  const server = await QuarryServer.start();
  await use(server.uri);
  const folder = server.process.spawnargs[server.process.spawnargs.indexOf("--dbpath") + 1];
  assert(fs.existsSync(folder));
  await server.stop();
  assert(!fs.existsSync(folder), "its folder is gone");
  await assert.rejects(QuarryServer.start({ args: ["--noSuchOption"] }), /noSuchOption/);

  process.env.MONGOMS_SYSTEM_BINARY = mongod;
  const { MongoMemoryServer } = require("mongodb-memory-server-core");
  const single = await MongoMemoryServer.create();
  await use(single.getUri());
  await single.stop();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
