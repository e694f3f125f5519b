// Starts servers as mongodb-memory-server starts mongod: alone and as a replica set. Usage: start.cjs BINARY, which is called mongod.
const { MongoMemoryReplSet, MongoMemoryServer } = require("mongodb-memory-server-core");
const { MongoClient } = require("mongodb");

async function writes(uri) {
  const client = await MongoClient.connect(uri, { serverSelectionTimeoutMS: 10000 });
  await client.db("smoke").collection("items").insertOne({ _id: 1 });
  const count = await client.db("smoke").collection("items").countDocuments();
  await client.close();
  if (count !== 1) throw new Error(`${uri}: ${count} documents`);
}

async function main(systemBinary) {
  const binary = { systemBinary, version: "8.2.0" };
  for (const storageEngine of ["wiredTiger", "ephemeralForTest"]) {
    const server = await MongoMemoryServer.create({ binary, instance: { storageEngine } });
    await writes(server.getUri());
    await server.stop();
  }
  const set = await MongoMemoryReplSet.create({ binary, replSet: { count: 1, storageEngine: "wiredTiger" } });
  await writes(set.getUri());
  await set.stop();
  console.log("mongodb-memory-server: ok");
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
