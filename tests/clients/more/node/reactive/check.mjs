// What Meteor (and so WeKan and Rocket.Chat) and Komodo ask of a server, written from the calls in their sources: Meteor's tailing of the log with its filter,
// its "caught up" by the last entry, transactions in it, drops; its unique, sparse and partial indexes; Komodo's indexes at each start, its queries and updates.
import assert from "node:assert";
import { tellVersions, until } from "./versions.mjs";
import { GridFSBucket, MongoClient, ObjectId } from "mongodb";

tellVersions("mongodb");
const client = await MongoClient.connect(`mongodb://${process.argv[2]}/?replicaSet=rs0`);
const db = client.db("meteor");
const log = client.db("local").collection("oplog.rs");

const { setName } = await client.db("admin").command({ ismaster: 1 });
assert(setName, "Meteor asks for a replica set by its name");
const last = await log.findOne({}, { sort: { $natural: -1 }, projection: { ts: 1 } });
const filter = (after) => ({
  $and: [
    { $or: [{ op: { $in: ["i", "u", "d"] } }, { op: "c", "o.drop": { $exists: true } }, { op: "c", "o.dropDatabase": 1 }, { op: "c", "o.applyOps": { $exists: true } }] },
    { ns: /^(?:meteor\.|admin\.\$cmd)/ },
    ...(after ? [{ ts: { $gt: after } }] : []),
  ],
});
const entries = [];
const cursor = log.find(filter(last.ts), { tailable: true, awaitData: true, maxAwaitTimeMS: 1000 });
const tail = (async () => {
  for await (const entry of cursor) entries.push(entry);
})().catch(() => {});

const cards = db.collection("cards");
for (const [key, options] of [[{ boardId: 1, createdAt: -1 }, {}], [{ "services.resume.loginTokens.hashedToken": 1 }, { unique: true, sparse: true }], [{ username: 1 }, { unique: true, partialFilterExpression: { username: { $type: "string" } } }], [{ modifiedAt: 1 }, { expireAfterSeconds: 3600 }], [{ title: "text" }, {}]]) {
  await cards.createIndex(key, options);
  await cards.createIndex(key, options);
}
await cards.insertOne({ _id: "c1", boardId: "b", title: "one", labels: [] });
await cards.updateOne({ _id: "c1" }, { $set: { title: "two" }, $addToSet: { labels: "red" } });
await cards.updateMany({ boardId: "b" }, { $inc: { sort: 1 } });
await client.withSession((session) => session.withTransaction(async () => {
  await cards.insertOne({ _id: "c2", boardId: "b" }, { session });
  await cards.deleteOne({ _id: "c1" }, { session });
}));
await db.collection("other").insertOne({});
await db.collection("other").drop();
// Caught up: the last entry that the filter takes has been seen.
const caught = async () => {
  const newest = await log.findOne(filter(), { projection: { ts: 1 }, sort: { $natural: -1 } });
  return entries.at(-1)?.ts.equals(newest.ts);
};
await until("the tail to catch up", caught);
const kinds = entries.map(({ op, o }) => (op === "c" ? Object.keys(o)[0] : op)).join(" ");
assert.equal(kinds, "i u u applyOps i drop");
assert.equal(entries[1].o2._id, "c1");
assert.equal(entries[1].o.$v, 2);
assert.deepEqual(entries[3].o.applyOps.map(({ op }) => op), ["i", "d"]);
// Files of WeKan's cards.
const bucket = new GridFSBucket(db, { bucketName: "attachments" });
const sent = bucket.openUploadStream("photo");
sent.end(Buffer.alloc(600_000, 7));
await new Promise((resolve, reject) => sent.once("finish", resolve).once("error", reject));
let bytes = 0;
for await (const part of bucket.openDownloadStreamByName("photo")) bytes += part.length;
assert.equal(bytes, 600_000);
// Rocket.Chat follows change streams.
const stream = client.db("rocketchat").watch([{ $match: { operationType: { $in: ["insert", "update", "delete"] }, "ns.coll": { $in: ["rocketchat_message"] } } }], { fullDocument: "updateLookup" });
const changes = [];
stream.on("change", (change) => changes.push(change.operationType));
await new Promise((resolve) => setTimeout(resolve, 300));
const messages = client.db("rocketchat").collection("rocketchat_message");
await messages.insertOne({ _id: "m", msg: "hello" });
await messages.updateOne({ _id: "m" }, { $set: { msg: "bye" } });
await messages.deleteOne({ _id: "m" });
await until("the stream", () => changes.length === 3);
assert.deepEqual(changes, ["insert", "update", "delete"]);
await stream.close();

// Komodo makes its indexes at each start.
const komodo = client.db("komodo");
for (let start = 0; start < 2; start++) {
  for (const name of ["Server", "Deployment", "Build", "Stack"]) {
    await komodo.collection(name).createIndex({ name: 1 }, { unique: true });
    await komodo.collection(name).createIndex({ tags: 1 });
  }
  await komodo.collection("Update").createIndex({ "target.type": 1, "target.id": 1 });
}
const id = new ObjectId();
await komodo.collection("Server").insertOne({ _id: id, name: "s1", tags: [], config: { data: { password: "a" } } });
await assert.rejects(komodo.collection("Server").insertOne({ name: "s1" }), (error) => error.code === 11000);
await komodo.collection("Server").updateOne({ _id: id }, { $set: { "config.data.password": "b" } });
const found = await komodo.collection("Server").find({ tags: { $all: [] } }).toArray();
assert.equal(found.length, 0);
assert.equal((await komodo.collection("Server").findOne({ $or: [{ _id: id }, { name: "s1" }] })).config.data.password, "b");
await komodo.collection("Stats").insertMany(Array.from({ length: 50 }, (_, n) => ({ ts: n, sid: "s1", cpu: n })));
const mean = await komodo.collection("Stats").aggregate([{ $match: { sid: "s1", ts: { $gte: 10 } } }, { $group: { _id: "$sid", mean: { $avg: "$cpu" } } }]).toArray();
assert.equal(mean[0].mean, 29.5);
await cursor.close();
await tail;
await client.close();
process.exit(0);
