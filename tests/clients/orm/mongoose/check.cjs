// Mongoose: schema, unique index, session.withTransaction, connection.transaction, change streams with resume.
// Usage: NODE_PATH=... node check.cjs HOST:PORT
'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const mongoose = require('mongoose');

const Account = mongoose.model('Account', new mongoose.Schema({
  owner: { type: String, required: true, unique: true },
  balance: { type: Number, min: 0, default: 0 },
  moves: [{ by: Number, at: Date }],
}));
const Entry = mongoose.model('Entry', new mongoose.Schema({ from: String, to: String, amount: Number }));

const balances = async () => Object.fromEntries((await Account.find().sort('owner')).map((a) => [a.owner, a.balance]));

async function move(session, from, to, amount) {
  const giver = await Account.findOne({ owner: from }).session(session);
  giver.balance -= amount;
  giver.moves.push({ by: -amount, at: new Date() });
  // The account given to is changed first, so that a refusal comes after a write.
  await Account.updateOne({ owner: to }, { $inc: { balance: amount } }, { session });
  await Entry.create([{ from, to, amount }], { session });
  await giver.save({ session });
}

async function commitAndRollback() {
  await mongoose.connection.withSession((session) => session.withTransaction(async () => {
    await move(session, 'ann', 'bob', 30);
    assert.equal(await Entry.countDocuments(), 0, 'a write is seen outside before the commit');
    assert.equal(await Entry.countDocuments().session(session), 1);
  }));
  assert.deepEqual(await balances(), { ann: 70, bob: 30 });
  assert.equal(await Entry.countDocuments(), 1);

  const refused = mongoose.connection.withSession((session) => session.withTransaction(() => move(session, 'ann', 'bob', 500)));
  await assert.rejects(refused, { name: 'ValidationError' });
  assert.deepEqual(await balances(), { ann: 70, bob: 30 }, 'a rollback left something');
  assert.equal(await Entry.countDocuments(), 1, 'a rollback left something');

  const twice = mongoose.connection.transaction(async (session) => {
    await Entry.create([{ from: 'x' }], { session });
    await Account.create([{ owner: 'ann' }], { session });
  });
  await assert.rejects(twice, { code: 11000 });
  assert.equal(await Entry.countDocuments(), 1, 'a rollback left something');
}

// Two transactions read and change the same document: withTransaction runs one of them again.
async function conflict() {
  let runs = 0;
  const add = () => mongoose.connection.withSession((session) => session.withTransaction(async () => {
    runs += 1;
    const ann = await Account.findOne({ owner: 'ann' }).session(session);
    await new Promise((done) => setTimeout(done, 50));
    ann.balance += 1;
    await ann.save({ session });
  }));
  await Promise.all([add(), add(), add()]);
  assert.equal((await balances()).ann, 73, 'an update is lost');
  assert.ok(runs > 3, `${runs} runs: no conflict was met`);
  return runs;
}

async function streams() {
  const first = Account.watch([{ $match: { operationType: { $in: ['insert', 'update'] } } }], {
    fullDocument: 'updateLookup',
    hydrate: true,
  });
  const change = once(first, 'change');
  // The server's first answer brings a token; a write before it might not be in the stream.
  await once(first, 'resumeTokenChanged');
  await Account.create({ owner: 'cid', balance: 1 });
  const [inserted] = await change;
  assert.equal(inserted.operationType, 'insert');
  assert.ok(inserted.fullDocument instanceof Account);
  assert.equal(inserted.fullDocument.owner, 'cid');
  await first.close();

  // What happens while nobody watches comes after the resume, in order.
  await Account.updateOne({ owner: 'cid' }, { $set: { balance: 2 } });
  await Account.deleteOne({ owner: 'cid' });
  await mongoose.connection.transaction(async (session) => {
    await Account.create([{ owner: 'dan' }], { session });
    await Account.updateOne({ owner: 'bob' }, { $inc: { balance: 1 } }, { session });
  });
  const again = Account.watch([], { resumeAfter: inserted._id });
  const events = [];
  while (events.length < 4) events.push(await again.next());
  await again.close();
  assert.deepEqual(events.map((e) => e.operationType), ['update', 'delete', 'insert', 'update']);
  assert.deepEqual(events[0].updateDescription.updatedFields, { balance: 2 });
  assert.equal(events[2].fullDocument.owner, 'dan');
  assert.deepEqual(events[2].lsid, events[3].lsid);
  assert.equal(String(events[2].txnNumber), String(events[3].txnNumber));
}

async function main() {
  await mongoose.connect(`mongodb://${process.argv[2]}/orm_mongoose?replicaSet=rs0`, { serverSelectionTimeoutMS: 10000 });
  await mongoose.connection.dropDatabase();
  await Promise.all([Account.init(), Entry.init()]);
  await Account.create([{ owner: 'ann', balance: 100 }, { owner: 'bob' }]);
  await commitAndRollback();
  const runs = await conflict();
  await streams();
  await mongoose.connection.dropDatabase();
  await mongoose.disconnect();
  const driver = require('mongodb/package.json').version;
  console.log(`mongoose ${mongoose.version} (driver ${driver}): ok, 3 transactions that met each other took ${runs} runs`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
