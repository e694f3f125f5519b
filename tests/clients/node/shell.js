// Smoke of mongosh, as a person would type it. Usage: mongosh --quiet --norc URI shell.js
/* global db, print, EJSON, quit */

function same(what, given, expected) {
  const [left, right] = [EJSON.stringify(given), EJSON.stringify(expected)];
  if (left !== right) throw new Error(`mongosh: ${what}: given ${left}, expected ${right}`);
}

const smoke = db.getSiblingDB('smoke_mongosh');
smoke.dropDatabase();
same('ping', smoke.runCommand({ ping: 1 }).ok, 1);
same('hello', smoke.hello().isWritablePrimary, true);

same('insertOne', smoke.items.insertOne({ _id: 0, n: 0, group: 0, name: 'item 0' }).insertedId, 0);
const rest = [];
for (let n = 1; n < 1000; n += 1) rest.push({ _id: n, n, group: n % 10, name: `item ${n}` });
same('insertMany', Object.keys(smoke.items.insertMany(rest).insertedIds).length, 999);

const found = smoke.items.find({ group: 3, n: { $gte: 100 } }, { _id: 0, n: 1 }).sort({ n: -1 }).limit(3).toArray();
same('find', found, [{ n: 993 }, { n: 983 }, { n: 973 }]);
let seen = 0;
smoke.items.find().batchSize(100).forEach((item) => { seen += item.n; });
same('cursor over batches', seen, 499500);
same('explain', smoke.items.find({ _id: 1 }).explain().ok, 1);

const one = smoke.items.updateOne({ _id: 7 }, { $set: { name: 'seven' }, $inc: { n: 1000 } });
same('updateOne', [one.matchedCount, one.modifiedCount], [1, 1]);
const upsert = smoke.items.updateOne({ _id: 'new' }, { $set: { name: 'new' } }, { upsert: true });
same('upsert', [upsert.upsertedCount, upsert.insertedId], [1, 'new']);
const after = smoke.items.findOneAndUpdate({ _id: 7 }, { $inc: { n: -1000 } }, { returnDocument: 'after' });
same('findOneAndUpdate', after, { _id: 7, n: 7, group: 7, name: 'seven' });
same('deleteOne', smoke.items.deleteOne({ _id: 'new' }).deletedCount, 1);

const groups = smoke.items.aggregate([
  { $match: { group: { $lte: 1 } } },
  { $group: { _id: '$group', sum: { $sum: '$n' } } },
  { $sort: { _id: -1 } },
]).toArray();
same('aggregate', groups, [{ _id: 1, sum: 49600 }, { _id: 0, sum: 49500 }]);
same('countDocuments', smoke.items.countDocuments({ group: 1 }), 100);
same('distinct', smoke.items.distinct('group').length, 10);

same('createIndex', smoke.items.createIndex({ name: 1 }, { unique: true }), 'name_1');
same('getIndexes', smoke.items.getIndexes().map((index) => index.name), ['_id_', 'name_1']);
let code = 0;
try {
  smoke.items.insertOne({ _id: 'twin', name: 'seven' });
} catch (error) {
  code = error.code;
}
same('unique violation', code, 11000);

same('show collections', smoke.getCollectionNames(), ['items']);
same('show dbs', db.adminCommand({ listDatabases: 1, nameOnly: true }).databases.some((entry) => entry.name === 'smoke_mongosh'), true);
same('stats', smoke.items.stats().count, 1000);
same('drop', smoke.items.drop(), true);
same('dropDatabase', smoke.dropDatabase().ok, 1);
print(`mongosh ${version()}: ok`);
