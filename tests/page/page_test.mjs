// The live page's arithmetic: figures for people, latencies, the history of answers. Its scripts run as the page has them, without a document.
// Usage: node --test tests/page/page_test.mjs

import assert from "node:assert/strict";
import fs from "node:fs";
import test from "node:test";
import vm from "node:vm";

const folder = new URL("../../crates/server/src/page/", import.meta.url);
const names = ["showCount", "showBytes", "showTime", "addHistograms", "subtractHistogram", "quantile", "axisTicks", "History", "commandRows", "collectionRows", "engineRows", "followRows", "commandText"];
const scripts = ["numbers.js", "history.js", "tables.js"].map((name) => fs.readFileSync(new URL(name, folder), "utf8"));
const page = vm.runInNewContext(`"use strict";${scripts.join("\n")};({ ${names.join(", ")} })`);
// Values of another context have prototypes of their own.
const same = (actual, expected) => assert.deepEqual(JSON.parse(JSON.stringify(actual)), expected);

test("figures have units and few digits", () => {
  for (const [value, shown] of [[0, "0"], [0.25, "0.3"], [7, "7"], [999, "999"], [1000, "1.0k"], [1_600_000, "1.6M"], [123_456, "123k"], [NaN, "-"], [null, "-"]]) {
    assert.equal(page.showCount(value), shown, `${value}`);
  }
  for (const [value, shown] of [[0, "0 B"], [999, "999 B"], [1024, "1.0 KiB"], [5 * 2 ** 30, "5.0 GiB"], [undefined, "-"]]) {
    assert.equal(page.showBytes(value), shown, `${value}`);
  }
  for (const [value, shown] of [[12, "12 µs"], [1500, "1.5 ms"], [250_000, "250 ms"], [2_500_000, "2.5 s"], [120_000_000, "2.0 min"], [null, "-"]]) {
    assert.equal(page.showTime(value), shown, `${value}`);
  }
});

test("an axis begins at 0 and reaches the largest value in a few steps", () => {
  for (const isBinary of [false, true]) {
    for (const most of [0.3, 1, 4, 7, 99, 100, 101, 12_345, 2 ** 30, 3 * 2 ** 40]) {
      const ticks = page.axisTicks(most, isBinary);
      assert.ok(ticks[0] === 0 && ticks.at(-1) >= most && ticks.length >= 3 && ticks.length <= 7, `${most}: ${ticks}`);
    }
  }
  same(page.axisTicks(0, false), [0, 1]);
});

test("latencies of a time are the difference of two histograms", () => {
  const grown = page.subtractHistogram([[64, 5], [128, 9], [256, 2]], [[64, 5], [128, 4]]);
  same(grown, [[128, 5], [256, 2]]);
  assert.equal(page.quantile(grown, 0.5), 128);
  assert.equal(page.quantile(grown, 0.99), 256);
  assert.equal(page.quantile([], 0.5), null);
  same(page.addHistograms([[[256, 1]], [[64, 2], [256, 3]]]), [[64, 2], [256, 4]]);
});

function answer(second, finds, uptime = second) {
  return {
    memoryLimit: 1000,
    commands: { find: { count: finds, time: finds * 100, reads: true, buckets: [[128, finds]] } },
    collections: [{ ns: "a.b", ...Object.fromEntries(["query", "getmore", "insert", "update", "remove", "command"].map((kind) => [kind, { count: kind === "query" ? finds : 0, time: kind === "query" ? finds * 50 : 0 }])) }],
    status: {
      uptimeMillis: uptime * 1000,
      connections: { current: 3, active: 1 },
      mem: { resident: 2 },
      network: { bytesIn: second * 10, bytesOut: second * 20 },
      opcounters: { query: finds, getmore: 0, insert: 0, update: 0, delete: 0, command: 0 },
      quarry: { operationsMemory: { usedBytes: 5 }, engine: { cache_hits: second * 3, cache_misses: second, "a.pending_compaction_bytes": 1, "b.pending_compaction_bytes": 2 } },
    },
  };
}

test("rates are of the time between two answers", () => {
  const history = new page.History();
  history.take(answer(0, 0), 0);
  assert.equal(history.samples[0].values.reads, undefined);
  history.take(answer(2, 500), 2000);
  const { values } = history.samples[1];
  assert.equal(values.reads, 250);
  assert.equal(values.received, 10);
  assert.equal(values.hits, 75);
  assert.equal(values.readLatency, 128);
  assert.equal(values.writeLatency, null);
  assert.equal(values.debt, 3);
  assert.equal(values.resident, 2097152);
});

test("six hours are kept in bounded memory, and a range begins where it says", () => {
  const history = new page.History();
  for (let second = 0; second <= 8 * 3600; second++) history.take(answer(second, second), second * 1000);
  assert.ok(history.samples.length < 1100, `${history.samples.length} samples`);
  const gaps = history.samples.slice(1).map((sample, n) => sample.time - history.samples[n].time);
  assert.ok(Math.max(...gaps) <= 31_000, `a gap of ${Math.max(...gaps)} ms`);
  for (const seconds of [60, 300, 900, 3600, 21_600]) {
    const since = history.since(seconds);
    assert.ok(since.seconds <= seconds && since.seconds > seconds - 31, `${seconds}: ${since.seconds}`);
    const [[, runs, rate]] = page.commandRows(history.answer.commands, since);
    assert.equal(rate, "1");
    assert.equal(runs, page.showCount(since.seconds));
  }
  assert.equal(history.since(0).seconds, 8 * 3600);
});

test("nothing is counted before a second answer, and a server that starts again begins anew", () => {
  const history = new page.History();
  history.take(answer(5, 100), 5000);
  const since = history.since(60);
  assert.equal(since.words, "from now on");
  same(page.commandRows(history.answer.commands, since), []);
  same(page.collectionRows(history.answer.collections, since), []);
  history.take(answer(6, 120), 6000);
  same(page.collectionRows(history.answer.collections, history.since(60))[0].slice(0, 3), ["a.b", "1.0 ms", "20 · 50 µs"]);
  history.take(answer(7, 1, 0), 7000);
  assert.equal(history.samples.length, 1);
});

test("figures of all families of columns count, and a figure that an engine lacks is left out", () => {
  const rows = page.engineRows({ "a.sst_bytes": 1024, "b.sst_bytes": 1024, "a.running_compactions": 1, "b.running_compactions": 2, space_short: 0 });
  same(rows, [["Compactions running", "2"], ["Files of tables", "2.0 KiB"], ["Writes refused for want of space", "no"]]);
});

test("a command shows what was asked before what the driver added", () => {
  assert.equal(page.commandText({ lsid: 1, update: "c", $db: "d", updates: [] }), '{"update":"c","updates":[],"lsid":1,"$db":"d"}');
});

test("a migration or a standby is shown while there is one", () => {
  const follow = { phase: "following", running: true, standby: true, lagSeconds: 0.012, lagOperations: 3, applied: 5000, appliedPerSecond: 120, documents: 40, bytesPerSecond: 2048, findings: 0 };
  same(page.followRows(undefined), []);
  same(page.followRows({ phase: "none" }), []);
  same(page.followRows(follow), [["Standby", "following"], ["Behind", "12.0 ms, 3 operations"], ["Applied", "5.0k, 120 a second"], ["Copied", "40 documents, 2.0 KiB a second"], ["Findings", "0"]]);
  assert.equal(page.followRows({ ...follow, running: false })[0][1], "following, nobody follows");
});
