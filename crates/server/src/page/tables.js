// The tables: commands and collections in the time range, the engine, slow operations.

const COMMANDS_MAX = 15;
const KINDS = ["query", "getmore", "insert", "update", "remove", "command"];
// Fields that drivers add to each command.
const ADDED = ["lsid", "txnNumber", "$clusterTime", "$db", "$readPreference"];

// Fills a table with column names (without any: no head), rows, and classes for its columns.
function fillTable(id, columns, rows, classes = []) {
  const table = document.getElementById(id);
  table.textContent = "";
  const addRow = (cells, tag) => {
    const row = table.insertRow();
    cells.forEach((words, column) => {
      const cell = document.createElement(tag);
      if (classes[column]) cell.className = classes[column];
      cell.dataset.name = columns[column] ?? "";
      cell.textContent = words;
      row.append(cell);
    });
  };
  if (columns.length) addRow(columns, "th");
  for (const cells of rows) addRow(cells, "td");
  if (!rows.length) table.insertRow().insertCell().textContent = "none";
}

function commandRows(commands, since) {
  const rows = [];
  for (const [name, command] of Object.entries(commands)) {
    const was = since.commands[name] ?? { count: 0, time: 0, buckets: [] };
    const runs = command.count - was.count;
    if (runs <= 0) continue;
    const time = command.time - was.time;
    const latencies = subtractHistogram(command.buckets, was.buckets);
    const quantiles = [0.5, 0.95, 0.99].map((share) => showTime(quantile(latencies, share)));
    const rate = showCount(runs / since.seconds);
    rows.push({ time, cells: [name, showCount(runs), rate, showTime(time / runs), ...quantiles] });
  }
  rows.sort((a, b) => b.time - a.time);
  return rows.slice(0, COMMANDS_MAX).map((row) => row.cells);
}

function collectionRows(collections, since) {
  const were = new Map(since.collections.map((collection) => [collection.ns, collection]));
  const rows = collections.map((collection) => {
    const was = were.get(collection.ns);
    const grown = (kind, field) => collection[kind][field] - (was ? was[kind][field] : 0);
    const kinds = KINDS.map((kind) => ({ count: grown(kind, "count"), time: grown(kind, "time") }));
    return { name: collection.ns, kinds, time: sumOf(kinds.map((kind) => kind.time)) };
  });
  const cell = ({ count, time }) =>
    count ? `${showCount(count)} · ${showTime(time / count)}` : "0";
  return rows
    .filter((row) => row.time > 0 || row.kinds.some((kind) => kind.count > 0))
    .sort((a, b) => b.time - a.time)
    .map((row) => [row.name, showTime(row.time), ...row.kinds.map(cell)]);
}

function engineRows(engine) {
  // An engine has a metric once, or once for each column family.
  const all = (name) =>
    Object.keys(engine)
      .filter((key) => key === name || key.endsWith(`.${name}`))
      .map((key) => engine[key]);
  const most = (name) => (all(name).length ? Math.max(...all(name)) : undefined);
  const sum = (name) => (all(name).length ? sumOf(all(name)) : undefined);
  const row = (words, value, show) => ({ words, value, show });
  return [
    row("Compactions running", most("running_compactions"), showCount),
    row("Files of tables", sum("sst_bytes"), showBytes),
    row("Memory of writes", sum("memtable_bytes"), showBytes),
    row("Block cache", engine.block_cache_usage_bytes, showBytes),
    row("Free space", engine.free_bytes, showBytes),
    row("Journal, flushes", engine.journal_flushes, showCount),
    row("Journal, last flush", engine.journal_flush_us_last, showTime),
    row("Journal fails now", engine.journal_failing, showCount),
    row("Writers stopped", engine.stall_stops, showCount),
    row("Writes that waited for compaction", engine.admission_waits, showCount),
    row("Longest of these waits", engine.admission_wait_us_max, showTime),
    row("Writes refused for want of space", engine.space_short, (n) => (n ? "yes" : "no")),
    row("Errors in the background", engine.background_errors, showCount),
  ]
    .filter(({ value }) => value !== undefined)
    .map(({ words, value, show }) => [words, show(value)]);
}

function searchRows(search) {
  if (!search) return [];
  const row = (words, value, show) => ({ words, value, show });
  const mean = search.searches ? search.searchMicros / search.searches : 0;
  const { pending, building, ready, stale, failed } = search.indexes;
  if (!(pending + building + ready + stale + failed + search.searches)) return [];
  return [
    row("Search indexes, ready", ready, showCount),
    row("Search indexes, being built", pending + building, showCount),
    row("Search indexes, stale or failed", stale + failed, showCount),
    row("Documents in search indexes", search.documents, showCount),
    row("Memory of graphs of vectors", search.graphBytes, showBytes),
    row("Searches", search.searches, showCount),
    row("Searches, mean time", mean, showTime),
    row("Searches that failed", search.searchesFailed, showCount),
  ].map(({ words, value, show }) => [words, show(value)]);
}

// The progress of a migration into this server, or of the standby that this server is.
function followRows(follow) {
  if (!follow || follow.phase === "none") return [];
  const isOver = follow.phase === "done";
  const state = isOver || follow.running ? follow.phase : `${follow.phase}, nobody follows`;
  const seconds = (n) => showTime(n * 1_000_000);
  return [
    [follow.standby ? "Standby" : "Migration", state],
    ["Behind", `${seconds(follow.lagSeconds)}, ${showCount(follow.lagOperations)} operations`],
    ["Applied", `${showCount(follow.applied)}, ${showCount(follow.appliedPerSecond)} a second`],
    [
      "Copied",
      `${showCount(follow.documents)} documents, ${showBytes(follow.bytesPerSecond)} a second`,
    ],
    ["Findings", showCount(follow.findings)],
  ];
}

// A command as it was sent, with the fields that drivers add at the end.
function commandText(command = {}) {
  const isAdded = ([name]) => ADDED.includes(name);
  const fields = Object.entries(command);
  const ordered = [...fields.filter((field) => !isAdded(field)), ...fields.filter(isAdded)];
  return JSON.stringify(Object.fromEntries(ordered));
}

function slowRow(line) {
  const { t, attr } = JSON.parse(line);
  return [
    t.$date.slice(11, 19),
    showTime(attr.durationMillis * 1000),
    attr.ns,
    attr.planSummary ?? "-",
    `${showCount(attr.docsExamined ?? 0)} docs, ${showCount(attr.keysExamined ?? 0)} keys`,
    commandText(attr.command),
  ];
}

function fillTables(answer, since) {
  document.getElementById("of-commands").textContent = `${since.words}; latencies are upper bounds`;
  document.getElementById("of-collections").textContent =
    `${since.words}; operations · mean time of one`;
  const commandColumns = ["command", "runs", "a second", "mean", "p50", "p95", "p99"];
  fillTable("commands", commandColumns, commandRows(answer.commands, since));
  const collections = collectionRows(answer.collections, since);
  fillTable("collections", ["collection", "time", ...KINDS], collections);
  const { engine, search, follow } = answer.status.quarry;
  fillTable("engine", [], [...engineRows(engine), ...searchRows(search)]);
  const followed = followRows(follow);
  document.getElementById("of-follow").hidden = followed.length === 0;
  fillTable("follow", [], followed);
  const slowColumns = ["when", "took", "collection", "plan", "examined", "command"];
  const slowClasses = ["", "", "text", "text", "", "command"];
  fillTable("slow", slowColumns, answer.slow.map(slowRow), slowClasses);
}
