// Linear or logarithmic scale per chart, and a readout under the pointer. The page is complete
// without it.
for (const figure of document.querySelectorAll("figure")) {
  const buttons = figure.querySelectorAll(".switch button");
  for (const button of buttons) {
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      for (const svg of figure.querySelectorAll("svg")) {
        svg.toggleAttribute("hidden", svg.dataset.scale !== button.dataset.scale);
      }
    });
  }
  const source = figure.querySelector("script");
  if (!source) continue;
  const data = JSON.parse(source.textContent);
  const tip = figure.querySelector(".tip");
  const hide = () => {
    tip.style.visibility = "hidden";
    for (const line of figure.querySelectorAll(".cursor")) line.style.visibility = "hidden";
  };
  for (const svg of figure.querySelectorAll("svg")) {
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const at = (event.clientX - box.left) * scale;
      let best = -1;
      for (let i = 0; i < data.px.length; i++) {
        const isNearer = best < 0 || Math.abs(data.px[i] - at) < Math.abs(data.px[best] - at);
        if (isNearer) best = i;
      }
      if (best < 0) return hide();
      const line = svg.querySelector(".cursor");
      line.setAttribute("x1", data.px[best]);
      line.setAttribute("x2", data.px[best]);
      line.style.visibility = "visible";
      tip.replaceChildren();
      for (const text of [data.x[best], ...data.series.map((s) => s.name + ": " + s.text[best])]) {
        const row = document.createElement("div");
        row.textContent = text;
        tip.append(row);
      }
      tip.style.visibility = "visible";
      const frame = figure.getBoundingClientRect();
      const left = data.px[best] / scale + box.left - frame.left;
      const fits = left + 14 + tip.offsetWidth < frame.width;
      tip.style.left = (fits ? left + 12 : left - 12 - tip.offsetWidth) + "px";
      tip.style.top = event.clientY - frame.top + 10 + "px";
    });
  }
}
