// MikroORM: the implicit transaction of em.flush, em.transactional, a version field, the change stream of a flush.
// Usage: NODE_PATH=... node check.cjs HOST:PORT
'use strict';
const assert = require('node:assert/strict');
const { MikroORM, defineEntity, p } = require('@mikro-orm/mongodb');
const core = require('@mikro-orm/core/package.json').version;

const Author = defineEntity({
  name: 'Author',
  properties: {
    _id: p.type('ObjectId').primary(),
    name: p.string().unique(),
    age: p.integer(),
    version: p.integer().version(),
    books: () => p.oneToMany(Book).mappedBy('author'),
  },
});
const Book = defineEntity({
  name: 'Book',
  properties: {
    _id: p.type('ObjectId').primary(),
    title: p.string().unique(),
    author: () => p.manyToOne(Author),
  },
});

const lines = [];
const count = async (orm) => [await orm.em.fork().count(Author), await orm.em.fork().count(Book)];
const said = (what) => lines.filter((line) => line.includes(what)).length;

async function flush(orm) {
  lines.length = 0;
  const em = orm.em.fork();
  const ann = em.create(Author, { name: 'ann', age: 40 });
  em.create(Book, { title: 'one', author: ann });
  em.create(Book, { title: 'two', author: ann });
  await em.flush();
  assert.deepEqual([said('db.begin'), said('db.commit'), said('db.rollback')], [1, 1, 0], 'flush opened no transaction');
  assert.deepEqual(await count(orm), [1, 2]);
  const books = await orm.em.fork().find(Book, { author: ann._id }, { populate: ['author'], orderBy: { title: 'desc' } });
  assert.deepEqual(books.map((b) => [b.title, b.author.name]), [['two', 'ann'], ['one', 'ann']]);

  // The author is written before the book, whose title is taken: nothing of the flush may stay.
  lines.length = 0;
  const bad = orm.em.fork();
  bad.create(Book, { title: 'one', author: bad.create(Author, { name: 'bob', age: 1 }) });
  await assert.rejects(bad.flush(), { name: 'UniqueConstraintViolationException' });
  assert.deepEqual([said('db.begin'), said('db.commit'), said('db.rollback')], [1, 0, 1]);
  assert.ok(said("getCollection('author').insert") > 0, 'the author was not written before the refusal');
  assert.deepEqual(await count(orm), [1, 2], 'a rollback left something');
}

async function transactional(orm) {
  const refused = orm.em.fork().transactional(async (em) => {
    const ann = await em.findOneOrFail(Author, { name: 'ann' });
    ann.age = 41;
    await em.flush();
    assert.equal((await em.fork({ keepTransactionContext: true }).findOneOrFail(Author, { name: 'ann' })).age, 41);
    assert.equal((await orm.em.fork({ clear: true }).findOneOrFail(Author, { name: 'ann' })).age, 40, 'a write is seen outside');
    throw new Error('changed my mind');
  });
  await assert.rejects(refused, { message: 'changed my mind' });
  assert.equal((await orm.em.fork().findOneOrFail(Author, { name: 'ann' })).age, 40, 'a rollback left something');

  await orm.em.fork().transactional(async (em) => {
    (await em.findOneOrFail(Author, { name: 'ann' })).age = 42;
    em.create(Author, { name: 'cid', age: 3 });
  });
  assert.deepEqual(await count(orm), [2, 2]);

  const [one, two] = [orm.em.fork(), orm.em.fork()];
  const seen = [await one.findOneOrFail(Author, { name: 'ann' }), await two.findOneOrFail(Author, { name: 'ann' })];
  seen.forEach((author, n) => { author.age = 50 + n; });
  await one.flush();
  await assert.rejects(two.flush(), { name: 'OptimisticLockError' });
  assert.equal((await orm.em.fork().findOneOrFail(Author, { name: 'ann' })).age, 50);
}

async function stream(orm) {
  const watched = orm.em.getConnection().getCollection(Author).watch([], { fullDocument: 'updateLookup' });
  // The stream is open when the first answer is there.
  assert.equal(await watched.tryNext(), null);
  const em = orm.em.fork();
  (await em.findOneOrFail(Author, { name: 'cid' })).age = 4;
  em.create(Author, { name: 'dan', age: 5 });
  await em.flush();
  const events = [await watched.next(), await watched.next()];
  await watched.close();
  const names = events.map((e) => [e.operationType, e.fullDocument.name, e.fullDocument.age]).sort();
  assert.deepEqual(names, [['insert', 'dan', 5], ['update', 'cid', 4]]);
  assert.ok(events[0].lsid && String(events[0].txnNumber) === String(events[1].txnNumber), 'one flush is not one transaction');
}

async function main() {
  const orm = await MikroORM.init({
    entities: [Author, Book],
    clientUrl: `mongodb://${process.argv[2]}/?replicaSet=rs0&serverSelectionTimeoutMS=10000`,
    dbName: 'orm_mikro',
    implicitTransactions: true,
    debug: ['query', 'query-params'],
    colors: false,
    logger: (line) => lines.push(line),
  });
  await orm.schema.refresh();
  await flush(orm);
  await transactional(orm);
  await stream(orm);
  await orm.schema.drop();
  await orm.close();
  console.log(`mikro-orm ${core} (driver ${require('mongodb/package.json').version}): ok`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
