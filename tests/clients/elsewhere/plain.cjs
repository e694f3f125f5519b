// Writes and reads by a URI as it is. Usage: plain.cjs URI ADDRESS; the driver must end up at ADDRESS.
const { MongoClient } = require("mongodb");

async function main(uri, address) {
  let used = [];
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 10000 });
  client.on("topologyDescriptionChanged", (event) => (used = [...event.newDescription.servers.keys()]));
  await client.connect();
  const items = client.db("elsewhere").collection("node");
  await items.drop();
  await client.withSession((session) => session.withTransaction(() => items.insertOne({ _id: 1 }, { session })));
  const count = await items.countDocuments({});
  const at = used.join();
  await client.close();
  if (count !== 1) throw new Error("what was inserted is not there");
  if (at !== address) throw new Error(`it went from ${uri} to ${at}`);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(`Node.js: ${error}`);
  process.exit(1);
});
