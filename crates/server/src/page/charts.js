// The charts: lines over the time range, with axes, limits and the values under the pointer.

const MARGIN = { left: 56, right: 8, top: 8, bottom: 18 };

// A series: the key of its value in a sample, its label, its colour. `least` is the lowest top of
// the axis.
const series = (key, words, colour) => ({ key, words, colour });
const CHARTS = [
  {
    title: "Operations a second",
    show: showCount,
    least: 4,
    series: [
      series("reads", "reads", "a"),
      series("writes", "writes", "b"),
      series("others", "other commands", "c"),
    ],
  },
  {
    title: "Latency, 99 of 100 are faster",
    show: showTime,
    least: 100,
    series: [series("readLatency", "reads", "a"), series("writeLatency", "writes", "b")],
  },
  {
    title: "Network, bytes a second",
    show: showBytes,
    least: 1024,
    series: [series("received", "in", "a"), series("sent", "out", "b")],
  },
  {
    title: "Connections",
    show: showCount,
    least: 4,
    series: [series("open", "open", "a"), series("active", "active", "b")],
  },
  {
    title: "Memory",
    show: showBytes,
    least: 1024,
    series: [series("resident", "resident", "a"), series("held", "held by operations", "b")],
    limit: { key: "memoryLimit", words: "--memory" },
  },
  {
    title: "Disk, free",
    show: showBytes,
    least: 1024,
    series: [series("free", "free", "a")],
    limit: { key: "reserve", words: "writes are refused below" },
  },
  {
    title: "Block cache, hits",
    show: showPercent,
    ticks: [0, 50, 100],
    series: [series("hits", "of all reads", "a")],
  },
  {
    title: "Compaction to be done",
    show: showBytes,
    least: 1024,
    series: [series("debt", "bytes", "a")],
  },
];

const shown = (chart, value) => (isNumber(value) ? chart.show(value) : "-");

// The namespace comes from the template, because the page contains no address, not even that of a
// namespace.
function svgElement(name, attributes, words) {
  const svg = document.getElementById("chart").content.querySelector("svg");
  const element = document.createElementNS(svg.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (words !== undefined) element.textContent = words;
  return element;
}

class Chart {
  constructor(chart) {
    this.chart = chart;
    this.pointer = null;
    this.section = document.getElementById("chart").content.firstElementChild.cloneNode(true);
    this.section.querySelector("h2").textContent = chart.title;
    this.keys = this.section.querySelector(".keys");
    this.svg = this.section.querySelector("svg");
    this.tip = this.section.querySelector(".tip");
    this.svg.setAttribute("aria-label", chart.title);
    const box = this.section.querySelector(".chart");
    box.onpointermove = (event) => this.point(event.clientX - box.getBoundingClientRect().left);
    box.onpointerleave = () => this.point(null);
  }

  // Draws the samples of a time span; `latest` has the present values.
  draw(samples, span, latest) {
    const { chart } = this;
    const width = Math.max(200, this.svg.clientWidth);
    const height = this.svg.clientHeight || 130;
    this.samples = samples;
    const limit = chart.limit && latest[chart.limit.key];
    const values = samples.flatMap((sample) => chart.series.map((one) => sample.values[one.key]));
    const most = Math.max(...values.filter(isNumber), limit || 0, chart.least ?? 0);
    const ticks = chart.ticks ?? axisTicks(most, chart.show === showBytes);
    const plotWidth = width - MARGIN.left - MARGIN.right;
    const plotHeight = height - MARGIN.top - MARGIN.bottom;
    const duration = Math.max(1, span.to - span.from);
    this.x = (time) => MARGIN.left + (plotWidth * (time - span.from)) / duration;
    this.y = (value) => MARGIN.top + plotHeight * (1 - Math.min(1, value / ticks.at(-1)));
    this.line = svgElement("line", { class: "at", y1: MARGIN.top, y2: height - MARGIN.bottom });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(
      ...this.valueAxis(ticks, width),
      ...this.timeAxis(span, height),
      ...chart.series.map((one) => this.curve(one)),
      ...(limit ? this.limit(limit, width) : []),
      this.line,
    );
    this.drawKeys(latest);
    this.point(this.pointer);
  }

  valueAxis(ticks, width) {
    return ticks.flatMap((value) => {
      const y = this.y(value);
      const line = { x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y, class: "axis" };
      const words = { x: MARGIN.left - 5, y: y + 4, "text-anchor": "end" };
      return [svgElement("line", line), svgElement("text", words, this.chart.show(value))];
    });
  }

  timeAxis(span, height) {
    const places = [
      { share: 0, anchor: "start" },
      { share: 0.5, anchor: "middle" },
      { share: 1, anchor: "end" },
    ];
    const withSeconds = span.to - span.from < 600000;
    return places.map(({ share, anchor }) => {
      const time = span.from + (span.to - span.from) * share;
      const place = { x: this.x(time), y: height - 3, "text-anchor": anchor };
      return svgElement("text", place, showClock(time, withSeconds));
    });
  }

  // A line with gaps where there is no value.
  curve({ key, colour }) {
    let path = "";
    let pen = "M";
    for (const sample of this.samples) {
      const value = sample.values[key];
      if (isNumber(value)) {
        path += `${pen}${this.x(sample.time).toFixed(1)} ${this.y(value).toFixed(1)}`;
        pen = "L";
      } else {
        pen = "M";
      }
    }
    return svgElement("path", { d: path, class: "curve", stroke: `var(--${colour})` });
  }

  limit(value, width) {
    const y = this.y(value);
    const right = width - MARGIN.right;
    const line = { x1: MARGIN.left, x2: right, y1: y, y2: y, class: "limit" };
    const place = { x: right, y: y + (y < 24 ? 13 : -4), "text-anchor": "end", class: "limit" };
    const words = `${this.chart.limit.words} ${this.chart.show(value)}`;
    return [svgElement("line", line), svgElement("text", place, words)];
  }

  drawKeys(latest) {
    const keys = this.chart.series.map((one) => {
      const key = document.createElement("span");
      const mark = document.createElement("i");
      mark.style.background = `var(--${one.colour})`;
      key.append(mark, `${one.words} ${shown(this.chart, latest[one.key])}`);
      return key;
    });
    this.keys.replaceChildren(...keys);
  }

  // Shows the values nearest to the pointer; null shows none.
  point(place) {
    this.pointer = place;
    if (!this.line) return;
    const isShown = place != null && this.samples.length > 0;
    this.line.style.display = isShown ? "" : "none";
    this.tip.style.display = isShown ? "block" : "none";
    if (!isShown) return;
    const distance = (sample) => Math.abs(this.x(sample.time) - place);
    const nearest = this.samples.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    const x = this.x(nearest.time);
    this.line.setAttribute("x1", x);
    this.line.setAttribute("x2", x);
    const lines = this.chart.series.map(
      (one) => `${one.words} ${shown(this.chart, nearest.values[one.key])}`,
    );
    this.tip.textContent = [showClock(nearest.time, true), ...lines].join("\n");
    const width = this.svg.clientWidth;
    this.tip.style.left = x < width / 2 ? `${x + 8}px` : "";
    this.tip.style.right = x < width / 2 ? "" : `${width - x + 8}px`;
  }
}
