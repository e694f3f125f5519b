// The page: asks the server every second and shows the answers for the chosen time range.

const ASK_EACH_MS = 1000;
const RANGES = [
  { words: "1 min", seconds: 60 },
  { words: "5 min", seconds: 300 },
  { words: "15 min", seconds: 900 },
  { words: "1 h", seconds: 3600 },
  { words: "6 h", seconds: 21600 },
  { words: "since the start", seconds: 0 },
];

const answers = new History();
const charts = CHARTS.map((chart) => new Chart(chart));
let range = 300;

function addRange({ words, seconds }) {
  const button = document.createElement("button");
  button.textContent = words;
  button.setAttribute("aria-pressed", seconds === range);
  button.onclick = () => {
    range = seconds;
    for (const other of button.parentNode.children) {
      other.setAttribute("aria-pressed", other === button);
    }
    paint();
  };
  document.getElementById("ranges").append(button);
}

function paintHead({ status, warnings }) {
  const who = [status.quarry.version, status.storageEngine.name, status.host];
  document.getElementById("who").textContent = who.join(", ");
  const hours = Math.floor(status.uptime / 3600);
  const minutes = Math.floor((status.uptime / 60) % 60);
  const now = status.localTime.$date.slice(0, 19).replace("T", " ");
  document.getElementById("since").textContent = `up ${hours} h ${minutes} min, ${now} UTC`;
  const items = warnings.map((line) => {
    const item = document.createElement("li");
    item.textContent = JSON.parse(line).msg;
    return item;
  });
  const section = document.getElementById("warnings");
  section.querySelector("ul").replaceChildren(...items);
  section.hidden = items.length === 0;
}

function paint() {
  if (!answers.answer) return;
  paintHead(answers.answer);
  const span = answers.span(range);
  const samples = answers.samples.filter((sample) => sample.time >= span.from);
  const latest = answers.samples.at(-1).values;
  for (const chart of charts) chart.draw(samples, span, latest);
  fillTables(answers.answer, answers.since(range));
}

async function ask() {
  const trouble = document.getElementById("bad");
  try {
    const response = await fetch("metrics.json", { cache: "no-store" });
    if (!response.ok) throw new Error(`status ${response.status}`);
    answers.take(await response.json(), Date.now());
    paint();
    trouble.textContent = "";
  } catch (error) {
    trouble.textContent = `no answer: ${error.message}`;
  }
  setTimeout(ask, ASK_EACH_MS);
}

document.getElementById("commands").parentNode.before(...charts.map((chart) => chart.section));
RANGES.forEach(addRange);
addEventListener("resize", paint);
ask();
