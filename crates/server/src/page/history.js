// The server's answers over time: for each answer a sample of values for the charts, and the counts
// that tables subtract. Bounded: one per second for five minutes, then one per half minute for six
// hours. Must not know: the page.

const KEPT_S = 21600;
const EACH_SECOND_S = 300;
const THEN_EACH_S = 30;
const WRITES = ["insert", "update", "delete", "findAndModify", "bulkWrite"];

const isRead = ([, command]) => command.reads;
const isWrite = ([name]) => WRITES.includes(name);

function latenciesOf(commands, isWanted) {
  return addHistograms(
    Object.entries(commands)
      .filter(isWanted)
      .map(([, command]) => command.buckets),
  );
}

// Values that are in the answer itself.
function levelsOf(answer) {
  const status = answer.status;
  const engine = status.quarry.engine;
  const debts = Object.keys(engine).filter((name) => name.endsWith("pending_compaction_bytes"));
  return {
    open: status.connections.current,
    active: status.connections.active,
    resident: status.mem.resident * 1048576,
    held: status.quarry.operationsMemory.usedBytes,
    free: engine.free_bytes,
    reserve: engine.reserve_bytes,
    memoryLimit: answer.memoryLimit,
    debt: sumOf(debts.map((name) => engine[name])),
  };
}

// Values for the time between two answers.
function ratesOf(older, newer, seconds) {
  const [was, is] = [older.status, newer.status];
  const rate = (section, names) =>
    sumOf(names.map((name) => is[section][name] - was[section][name])) / seconds;
  const slowest = (isWanted) =>
    quantile(
      subtractHistogram(
        latenciesOf(newer.commands, isWanted),
        latenciesOf(older.commands, isWanted),
      ),
      0.99,
    );
  const hits = is.quarry.engine.cache_hits - was.quarry.engine.cache_hits;
  const misses = is.quarry.engine.cache_misses - was.quarry.engine.cache_misses;
  return {
    reads: rate("opcounters", ["query", "getmore"]),
    writes: rate("opcounters", ["insert", "update", "delete"]),
    others: rate("opcounters", ["command"]),
    received: rate("network", ["bytesIn"]),
    sent: rate("network", ["bytesOut"]),
    hits: hits + misses > 0 ? (100 * hits) / (hits + misses) : undefined,
    readLatency: slowest(isRead),
    writeLatency: slowest(isWrite),
  };
}

// Removes entries that are too old and, after a while, those too close to their neighbour.
function thin(entries, now) {
  let kept = -Infinity;
  return entries.filter((entry) => {
    const age = (now - entry.time) / 1000;
    const isKept =
      age <= KEPT_S && (age < EACH_SECOND_S || entry.time - kept >= THEN_EACH_S * 1000);
    if (isKept) kept = entry.time;
    return isKept;
  });
}

class History {
  constructor() {
    this.forget();
  }

  forget() {
    this.answer = null;
    this.time = null;
    this.samples = [];
    this.counts = [];
  }

  // Adds an answer that arrived at `time`, in milliseconds.
  take(answer, time) {
    const hasStartedAgain =
      this.answer && answer.status.uptimeMillis < this.answer.status.uptimeMillis;
    if (hasStartedAgain) this.forget();
    const values = levelsOf(answer);
    if (this.answer) {
      Object.assign(values, ratesOf(this.answer, answer, (time - this.time) / 1000));
    }
    this.answer = answer;
    this.time = time;
    this.samples = thin([...this.samples, { time, values }], time);
    const { commands, collections } = answer;
    this.counts = thin([...this.counts, { time, commands, collections }], time);
  }

  // Start and end of a range of this many seconds; 0 means the whole history.
  span(seconds) {
    const from = seconds ? this.time - seconds * 1000 : this.samples[0].time;
    return { from, to: this.time };
  }

  // The counts from which the tables of a range subtract, and the length of that range: since the
  // server's start if `seconds` is 0, otherwise since the first counts within the range.
  since(seconds) {
    const uptime = this.answer.status.uptimeMillis / 1000;
    if (!seconds) {
      const words = `since the start, ${showTime(uptime * 1e6)}`;
      return { commands: {}, collections: [], seconds: uptime, words };
    }
    const from = this.time - seconds * 1000;
    const { time, commands, collections } = this.counts.find((entry) => entry.time >= from);
    const words =
      time === this.time
        ? "from now on"
        : `from ${showClock(time, true)} to ${showClock(this.time, true)}`;
    return { commands, collections, seconds: (this.time - time) / 1000, words };
  }
}
