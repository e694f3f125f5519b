// Numbers for people, and the arithmetic of latencies. Must not know: the server, the page.

function scaled(value, step, units, from) {
  let unit = 0;
  while (Math.abs(value) >= from && unit < units.length - 1) {
    value /= step;
    unit++;
  }
  return { value, unit: units[unit], isWhole: unit === 0 };
}

const isNumber = (value) => value != null && isFinite(value);

function showCount(value) {
  if (!isNumber(value)) return "-";
  const shown = scaled(value, 1000, ["", "k", "M", "G", "T"], 999.5);
  const isRound = shown.isWhole && (shown.value % 1 === 0 || shown.value >= 100);
  const digits = isRound || shown.value >= 100 ? 0 : 1;
  return shown.value.toFixed(digits) + shown.unit;
}

function showBytes(value) {
  if (!isNumber(value)) return "-";
  const shown = scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"], 1000);
  return `${shown.value.toFixed(shown.isWhole || shown.value >= 100 ? 0 : 1)} ${shown.unit}`;
}

function showTime(us) {
  if (!isNumber(us)) return "-";
  if (us < 1e3) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e5 ? 1 : 0)} ms`;
  if (us < 6e7) return `${(us / 1e6).toFixed(1)} s`;
  return `${(us / 6e7).toFixed(1)} min`;
}

const showPercent = (value) => `${value.toFixed(value % 1 && value < 99.95 ? 1 : 0)} %`;

const showClock = (time, withSeconds) =>
  new Date(time).toTimeString().slice(0, withSeconds ? 8 : 5);

const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

// A histogram is a list of [upper bound in microseconds, count], sorted by bound.
const byBound = (counts) => [...counts].sort((a, b) => a[0] - b[0]);

function addHistograms(histograms) {
  const counts = new Map();
  for (const [bound, count] of histograms.flat())
    counts.set(bound, (counts.get(bound) ?? 0) + count);
  return byBound(counts);
}

function subtractHistogram(newer, older) {
  const counts = new Map(newer);
  for (const [bound, count] of older) counts.set(bound, (counts.get(bound) ?? 0) - count);
  return byBound(counts).filter(([, count]) => count > 0);
}

// The bound within which this share of all values lies; null for an empty histogram.
function quantile(histogram, share) {
  const wanted = share * sumOf(histogram.map(([, count]) => count));
  let seen = 0;
  for (const [bound, count] of histogram) {
    seen += count;
    if (seen >= wanted) return bound;
  }
  return null;
}

// Tick values of an axis from 0 to at least `most`: three to five steps of 1, 2 or 5 times a power
// of ten, or of a power of two.
function axisTicks(most, isBinary) {
  if (!(most > 0)) return [0, 1];
  const base = isBinary ? 2 : 10;
  const power = Math.pow(base, Math.floor(Math.log(most / 3) / Math.log(base)));
  const steps = isBinary ? [1, 2, 4] : [1, 2, 5, 10];
  const fits = isBinary ? (step) => most / step <= 4 : (step) => step >= most / 3;
  const step = steps.map((factor) => factor * power).find(fits);
  const ticks = [];
  for (let value = 0; value <= most * 1.0001; value += step) ticks.push(value);
  if (ticks.at(-1) < most) ticks.push(ticks.at(-1) + step);
  return ticks;
}
