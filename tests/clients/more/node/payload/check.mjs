// Payload's local interface over its adapter for MongoDB: collections with unique and localized fields, relations, versions with drafts, globals, users who
// log in, queries, pages, transactions of its own, migrations' collection.
import assert from "node:assert";
import { tellVersions } from "./versions.mjs";
import { buildConfig, getPayload } from "payload";
import { mongooseAdapter } from "@payloadcms/db-mongodb";

tellVersions("payload", "@payloadcms/db-mongodb", "mongoose");
const config = buildConfig({
  secret: "secret",
  db: mongooseAdapter({ url: `mongodb://${process.argv[2]}/payload?replicaSet=rs0`, ensureIndexes: true }),
  telemetry: false,
  typescript: { autoGenerate: false },
  localization: { locales: ["en", "de"], defaultLocale: "en", fallback: true },
  globals: [{ slug: "site", fields: [{ name: "title", type: "text" }] }],
  collections: [
    { slug: "people", auth: true, fields: [{ name: "name", type: "text" }] },
    { slug: "tags", fields: [{ name: "name", type: "text", unique: true, required: true }] },
    {
      slug: "posts",
      versions: { drafts: true },
      fields: [
        { name: "title", type: "text", localized: true },
        { name: "slug", type: "text", unique: true, index: true },
        { name: "views", type: "number" },
        { name: "place", type: "point" },
        { name: "tags", type: "relationship", relationTo: "tags", hasMany: true },
        { name: "blocks", type: "array", fields: [{ name: "text", type: "text" }] },
      ],
    },
  ],
});
const payload = await getPayload({ config });
const tags = [];
for (const name of ["red", "green"]) tags.push(await payload.create({ collection: "tags", data: { name } }));
await assert.rejects(payload.create({ collection: "tags", data: { name: "red" } }), (error) => error.name === "ValidationError");
for (let n = 0; n < 25; n++) {
  await payload.create({
    collection: "posts",
    data: { title: `post ${n}`, slug: `post-${n}`, views: n, place: [n / 10, n / 10], tags: [tags[n % 2].id], blocks: [{ text: `b${n}` }], _status: n % 5 ? "published" : "draft" },
  });
}
const page = await payload.find({ collection: "posts", where: { views: { greater_than: 4 } }, sort: "-views", limit: 10, page: 2 });
assert.equal(page.totalDocs, 20);
assert.equal(page.docs[0].views, 14);
const red = await payload.find({ collection: "posts", where: { and: [{ "tags.name": { equals: "red" } }, { "blocks.text": { like: "b1" } }] }, limit: 0 });
assert.deepEqual(red.docs.map(({ views }) => views).sort((a, b) => a - b), [10, 12, 14, 16, 18]);
assert.equal(red.docs[0].tags[0].name, "red");
const near = await payload.find({ collection: "posts", where: { place: { near: "0.5,0.5,100,0" } } });
assert.equal(near.docs[0].views, 5);
const one = (await payload.find({ collection: "posts", where: { slug: { equals: "post-3" } } })).docs[0];
await payload.update({ collection: "posts", id: one.id, locale: "de", data: { title: "Beitrag 3" } });
await payload.update({ collection: "posts", where: { views: { less_than: 3 } }, data: { views: 100 } });
const german = await payload.findByID({ collection: "posts", id: one.id, locale: "all" });
assert.deepEqual(german.title, { en: "post 3", de: "Beitrag 3" });
assert.equal((await payload.count({ collection: "posts", where: { views: { equals: 100 } } })).totalDocs, 3);
const versions = await payload.findVersions({ collection: "posts", where: { parent: { equals: one.id } } });
assert(versions.totalDocs >= 2, `${versions.totalDocs} versions`);
const first = versions.docs.at(-1);
await payload.restoreVersion({ collection: "posts", id: first.id });
await payload.updateGlobal({ slug: "site", data: { title: "a site" } });
assert.equal((await payload.findGlobal({ slug: "site" })).title, "a site");
await payload.create({ collection: "people", data: { email: "ann@example.org", password: "secret", name: "Ann" } });
const login = await payload.login({ collection: "people", data: { email: "ann@example.org", password: "secret" } });
assert(login.token);
await assert.rejects(payload.login({ collection: "people", data: { email: "ann@example.org", password: "wrong" } }));
// A transaction that is given up leaves nothing.
const transactionID = await payload.db.beginTransaction();
assert(transactionID, "no transactions");
await payload.create({ collection: "tags", data: { name: "blue" }, req: { transactionID } });
await payload.db.rollbackTransaction(transactionID);
assert.equal((await payload.count({ collection: "tags" })).totalDocs, 2);
const gone = await payload.delete({ collection: "posts", where: { views: { greater_than: 20 } } });
assert.equal(gone.docs.length, 7);
await payload.db.destroy();
process.exit(0);
