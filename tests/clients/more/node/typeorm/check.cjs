// TypeORM with `synchronize`: it creates the indexes of its entities at each start. Options that an entity leaves out go to the driver as undefined, and
// the driver sends undefined as null, which MongoDB 8.2 refuses (14); with `ignoreUndefined: true` they are left out.
require("reflect-metadata");
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { BSON } = require("mongodb");
const { DataSource, EntitySchema } = require("typeorm");

const versionOf = (name) => {
  const folder = process.env.NODE_PATH;
  return JSON.parse(fs.readFileSync(path.join(folder, name, "package.json"), "utf8")).version;
};
for (const name of ["typeorm", "mongodb"]) console.log("VERSION", name, versionOf(name));
const Person = new EntitySchema({
  name: "Person",
  columns: {
    _id: { type: "string", objectId: true, primary: true, generated: true },
    mail: { type: String },
    age: { type: Number },
  },
  indices: [
    { name: "mail_once", columns: ["mail"], unique: true },
    { name: "age", columns: ["age"] },
    { name: "age_where_there", columns: ["age", "mail"], sparse: true },
  ],
});

async function start(options, sent = []) {
  const url = `mongodb://${process.argv[2]}/typeorm?directConnection=true`;
  const source = new DataSource({ type: "mongodb", url, synchronize: true, entities: [Person], monitorCommands: true, ...options });
  const connect = source.driver.connect.bind(source.driver);
  source.driver.connect = async () => {
    await connect();
    source.driver.queryRunner.databaseConnection.on("commandStarted", ({ commandName, command }) => {
      if (commandName !== "createIndexes") return;
      // What the monitor shows goes through the serializer that the connection uses.
      const bytes = BSON.serialize({ indexes: command.indexes }, { ignoreUndefined: false, ...options });
      sent.push(...BSON.deserialize(bytes).indexes);
    });
  };
  await source.initialize();
  return source;
}

(async () => {
  const plain = [];
  await assert.rejects(start({}, plain), (error) => error.code === 14);
  console.log("sent as it comes:", JSON.stringify(plain));
  assert(plain.some(({ sparse }) => sparse === null));
  const kept = [];
  let source = await start({ ignoreUndefined: true }, kept);
  console.log("sent with ignoreUndefined:", JSON.stringify(kept));
  assert(!kept.some((index) => Object.values(index).includes(null)));
  await source.getMongoRepository("Person").deleteMany({});
  await source.destroy();
  // The second start finds its indexes there.
  source = await start({ ignoreUndefined: true });
  const people = source.getMongoRepository("Person");
  await people.save({ mail: "a@example.org", age: 3 });
  await assert.rejects(people.insert({ mail: "a@example.org", age: 4 }), (error) => error.code === 11000);
  assert.equal((await people.find({ where: { age: { $gt: 1 } } })).length, 1);
  const indexes = await people.collectionIndexes();
  assert.deepEqual(indexes.map(({ name }) => name).sort(), ["_id_", "age", "age_where_there", "mail_once"]);
  assert.equal(indexes.find(({ name }) => name === "mail_once").unique, true);
  assert.equal(indexes.find(({ name }) => name === "age_where_there").sparse, true);
  await source.destroy();
})().catch((error) => {
  console.error(error.stack, error.code ?? "");
  process.exit(1);
}).then(() => process.exit(0));
