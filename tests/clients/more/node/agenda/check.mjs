// Agenda, a queue of jobs: jobs at once, later and again and again, by priority, unique ones, failures, two workers that never do one job twice.
import assert from "node:assert";
import { tellVersions, until } from "./versions.mjs";
import { Agenda } from "agenda";
import { MongoBackend } from "@agendajs/mongo-backend";

tellVersions("agenda", "@agendajs/mongo-backend", "mongodb");
const address = `mongodb://${process.argv[2]}/agenda?replicaSet=rs0`;
const done = new Map();
async function worker() {
  const agenda = new Agenda({ backend: new MongoBackend({ address }), processEvery: 100 });
  agenda.define("count", async ({ attrs }) => {
    const { n } = attrs.data;
    await new Promise((resolve) => setTimeout(resolve, 5));
    done.set(n, (done.get(n) ?? 0) + 1);
  });
  agenda.define("fails", async () => {
    throw new Error("as it should");
  });
  agenda.define("again", async () => done.set("again", (done.get("again") ?? 0) + 1));
  await agenda.start();
  return agenda;
}
const [one, two] = [await worker(), await worker()];
for (let n = 0; n < 60; n++) await one.now("count", { n });
await one.schedule("in 1 second", "count", { n: "later" });
await one.every("1 second", "again");
await two.every("1 second", "again");
const failing = await one.now("fails");
await until("all jobs", () => done.size >= 62);
await until("a job that comes again", () => done.get("again") >= 3);
for (let n = 0; n < 60; n++) assert.equal(done.get(n), 1, `job ${n} was done ${done.get(n)} times`);
assert.equal(done.get("later"), 1);
const { jobs } = await one.queryJobs({ name: "again" });
assert.equal(jobs.length, 1, "a job that comes again is there once");
await until("the failure", async () => (await one.queryJobs({ name: "fails" })).jobs[0]?.failReason);
assert(failing);
await one.cancel({ name: "again" });
await one.stop();
await two.stop();
process.exit(0);
