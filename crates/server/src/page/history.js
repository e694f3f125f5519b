// What the server answered over time: one sample of values for the charts with each answer, and the
// counts that tables subtract from. Bounded: each second for five minutes, then each half minute
// for six hours. Knows nothing of the page.

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

// Values that the answer itself has.
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

// Values of the time between two answers.
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

// Drops what is too old and, after a while, what is too close to its neighbour.
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

  // Takes an answer that came at a time in milliseconds.
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

  // From when to when a range of so many seconds is; 0 is all there is.
  span(seconds) {
    const from = seconds ? this.time - seconds * 1000 : this.samples[0].time;
    return { from, to: this.time };
  }

  // What tables of a range subtract from, and what that range is: since the server's start where
  // the range is 0, from now on where nothing is older.
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
