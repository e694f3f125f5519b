// Smoke of the official Node.js driver. Usage: NODE_PATH=... node driver.cjs HOST:PORT, or HOST:PORT,HOST:PORT... of
// servers that all write one database.
'use strict';
const assert = require('node:assert/strict');
const { MongoClient } = require('mongodb');
const { version } = require('mongodb/package.json');

const DB = 'smoke_node';
const connect = (address, options) => new MongoClient(`mongodb://${address}/`, { serverSelectionTimeoutMS: 10000, ...options });

async function reads(items) {
  const found = items.find({ group: 3, n: { $gte: 100 } }, { projection: { _id: 0, n: 1 } }).sort({ n: -1 }).limit(5);
  assert.deepEqual(await found.toArray(), [993, 983, 973, 963, 953].map((n) => ({ n })));
  const seen = [];
  for await (const item of items.find({}, { batchSize: 100 }).sort({ n: 1 })) seen.push(item.n);
  assert.deepEqual(seen, Array.from({ length: 1000 }, (_, n) => n));
  const unfinished = items.find({}, { batchSize: 10 });
  await unfinished.next();
  await unfinished.close();
  assert.equal(await items.countDocuments({ group: { $in: [1, 2] } }), 200);
  assert.equal(await items.estimatedDocumentCount(), 1000);
  assert.deepEqual((await items.distinct('group', { n: { $lt: 4 } })).sort(), [0, 1, 2, 3]);
  const groups = items.aggregate([
    { $match: { group: { $lte: 1 } } },
    { $group: { _id: '$group', sum: { $sum: '$n' }, max: { $max: '$n' } } },
    { $sort: { _id: -1 } },
  ]);
  assert.deepEqual(await groups.toArray(), [{ _id: 1, sum: 49600, max: 991 }, { _id: 0, sum: 49500, max: 990 }]);
}

async function writes(items) {
  const one = await items.updateOne({ _id: 7 }, { $set: { name: 'seven' }, $inc: { n: 1000 } });
  assert.deepEqual([one.matchedCount, one.modifiedCount], [1, 1]);
  const many = await items.updateMany({ group: 5 }, { $inc: { seen: 1 } });
  assert.deepEqual([many.matchedCount, many.modifiedCount], [100, 100]);
  const upsert = await items.updateOne({ _id: 'new' }, { $setOnInsert: { name: 'upserted' } }, { upsert: true });
  assert.deepEqual([upsert.matchedCount, upsert.upsertedId], [0, 'new']);
  const after = await items.findOneAndUpdate({ _id: 7 }, { $inc: { n: -1000 } }, { returnDocument: 'after' });
  assert.deepEqual(after, { _id: 7, n: 7, group: 7, name: 'seven' });
  assert.equal((await items.deleteOne({ _id: 'new' })).deletedCount, 1);
  assert.equal((await items.deleteMany({ group: 8 })).deletedCount, 100);
  const bulk = await items.bulkWrite([
    { insertOne: { document: { _id: 'b', name: 'b' } } },
    { updateOne: { filter: { _id: 'b' }, update: { $set: { name: 'bulk' } } } },
    { deleteOne: { filter: { _id: 'b' } } },
  ]);
  assert.deepEqual([bulk.insertedCount, bulk.modifiedCount, bulk.deletedCount], [1, 1, 1]);
}

async function indexes(items) {
  assert.equal(await items.createIndex({ group: 1, n: -1 }), 'group_1_n_-1');
  await items.createIndex({ name: 1 }, { unique: true });
  const names = (await items.listIndexes().toArray()).map((index) => index.name).sort();
  assert.deepEqual(names, ['_id_', 'group_1_n_-1', 'name_1']);
  await assert.rejects(items.insertOne({ _id: 'twin', name: 'seven' }), { code: 11000, keyValue: { name: 'seven' } });
  const found = items.find({ group: 4 }, { projection: { _id: 0, n: 1 } }).sort({ n: -1 }).limit(2);
  assert.deepEqual(await found.toArray(), [{ n: 994 }, { n: 984 }]);
}

async function listing(client, items) {
  const names = async () => (await client.db(DB).listCollections().toArray()).map((collection) => collection.name);
  const databases = async () => (await client.db().admin().listDatabases()).databases.map((database) => database.name);
  assert.deepEqual(await names(), ['items']);
  assert.ok((await databases()).includes(DB));
  await items.drop();
  assert.deepEqual(await names(), []);
  await client.db(DB).dropDatabase();
  assert.ok(!(await databases()).includes(DB));
}

async function endedSessions(watchers) {
  const statuses = await Promise.all(watchers.map((watcher) => watcher.db('admin').command({ serverStatus: 1 })));
  return statuses.reduce((sum, status) => sum + (status.metrics.commands.endSessions?.total ?? 0), 0);
}

async function changes(items) {
  const stream = items.watch([], { maxAwaitTimeMS: 5000 });
  const first = stream.next();
  // The stream is opened by its first use; what is written before it is not seen.
  await new Promise((go) => stream.once('resumeTokenChanged', go));
  await items.insertMany([{ _id: 0 }, { _id: 1 }]);
  assert.equal((await first).documentKey._id, 0);
  const token = stream.resumeToken;
  await stream.close();
  await items.updateOne({ _id: 1 }, { $push: { a: 1 }, $unset: { b: '' } });
  const resumed = items.watch([{ $match: { operationType: 'update' } }], { resumeAfter: token, maxAwaitTimeMS: 5000 });
  const update = await resumed.next();
  assert.deepEqual(update.updateDescription, { updatedFields: { a: [1] }, removedFields: [], truncatedArrays: [] });
  await resumed.close();
  await items.drop();
}

async function main() {
  const address = process.argv[2];
  const watchers = address.split(',').map((one) => connect(one, { directConnection: true }));
  const [watcher] = watchers;
  try {
    assert.equal((await watcher.db('admin').command({ ping: 1 })).ok, 1);
    const hello = await watcher.db('admin').command({ hello: 1 });
    assert.equal(hello.isWritablePrimary, true);
    const endedBefore = await endedSessions(watchers);
    // Servers that all write one database are no set.
    const client = connect(address, hello.setName ? { replicaSet: hello.setName } : {});
    try {
      const items = client.db(DB).collection('items');
      await client.db(DB).dropDatabase();
      assert.equal((await items.insertOne({ _id: 0, n: 0, group: 0, name: 'item 0' })).insertedId, 0);
      const rest = Array.from({ length: 999 }, (_, i) => ({ _id: i + 1, n: i + 1, group: (i + 1) % 10, name: `item ${i + 1}` }));
      assert.equal((await items.insertMany(rest)).insertedCount, 999);
      await reads(items);
      await writes(items);
      await indexes(items);
      await changes(client.db(DB).collection('watched'));
      await listing(client, items);
    } finally {
      await client.close();
    }
    assert.ok((await endedSessions(watchers)) > endedBefore, 'endSessions on close');
  } finally {
    await Promise.all(watchers.map((one) => one.close()));
  }
  console.log(`Node.js driver ${version}: ok`);
}

main().catch((error) => {
  console.error('Node.js driver:', error);
  process.exitCode = 1;
});
