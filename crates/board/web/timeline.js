// The recording of a few steps: one lane per stream or thread, drawn for the part of time that is looked at.

import { h } from "./dom.js";
import { duration, number, ticks } from "./scale.js";

const ROW = 24, TOP = 22, SHOWN = 15;
const paint = (index, dark) => `hsl(${(215 + index * 137.508) % 360} 62% ${dark ? 58 : 52}%)`;

export function timeline({ all, names, lanes }) {
  const end = Math.max(...lanes.flatMap((lane) => lane.spans.map(([start, length]) => start + length))), begin = Math.min(...lanes.flatMap((lane) => lane.spans.map(([start]) => start)));
  const count = lanes.reduce((sum, lane) => sum + lane.spans.length, 0);
  const totals = names.map((name, index) => ({ name, index, time: 0, count: 0 }));
  for (const lane of lanes) for (const [, length, index] of lane.spans) { totals[index].time += length; totals[index].count += 1; }
  const whole = Math.max(1e-9, totals.reduce((sum, part) => sum + part.time, 0));
  const canvas = h("canvas", { class: "timeline", tabIndex: 0, role: "img", ariaLabel: `A recording of ${time(end - begin)}: ${lanes.length} lanes, ${count} spans. Plus and minus scale, arrows move, 0 shows everything.` });
  const note = h("p", { class: "hint", role: "status" }, "Drag moves, ctrl and the wheel scale, a double-click shows everything.");
  let view = [begin, end];

  function draw() {
    const width = canvas.clientWidth, height = TOP + ROW * lanes.length;
    if (!width) return;
    canvas.style.height = `${height}px`;
    canvas.width = width * devicePixelRatio; canvas.height = height * devicePixelRatio;
    const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement), dark = document.documentElement.dataset.theme === "dark";
    pen.scale(devicePixelRatio, devicePixelRatio);
    pen.font = "11px system-ui, sans-serif"; pen.textBaseline = "middle";
    const scale = width / (view[1] - view[0]);
    for (const tick of ticks(view[0], view[1], width / 110)) {
      const x = (tick - view[0]) * scale;
      pen.fillStyle = style.getPropertyValue("--grid"); pen.fillRect(x, TOP, 1, height);
      pen.fillStyle = style.getPropertyValue("--soft"); pen.fillText(time(tick - begin), x + 3, TOP / 2);
    }
    lanes.forEach((lane, row) => {
      const top = TOP + row * ROW;
      let free = -1;
      for (const [start, length, index] of lane.spans) {
        const left = (start - view[0]) * scale, right = left + length * scale;
        // What would be drawn over a pixel that is full already is left out.
        if (right < 0 || left > width || (right <= free && right - left < 1)) continue;
        pen.fillStyle = paint(index, dark);
        pen.fillRect(left, top + 2, Math.max(right - left - 0.5, 0.5), ROW - 4);
        free = Math.max(free, Math.ceil(Math.max(right, left + 0.5)));
        if (right - left > 60) {
          pen.save(); pen.beginPath(); pen.rect(left, top, right - left - 4, ROW); pen.clip();
          pen.fillStyle = "#fff"; pen.fillText(names[index], Math.max(left, 0) + 4, top + ROW / 2); pen.restore();
        }
      }
      pen.fillStyle = style.getPropertyValue("--soft");
    });
  }

  function look(from, to) {
    const width = Math.min(Math.max(to - from, (end - begin) * 1e-6), end - begin);
    from = Math.min(Math.max(from, begin), end - width);
    view = [from, from + width];
    draw();
  }
  const scaleAt = (share, factor) => { const at = view[0] + share * (view[1] - view[0]); look(at - (at - view[0]) * factor, at + (view[1] - at) * factor); };
  const share = (event) => event.offsetX / Math.max(1, canvas.clientWidth);
  const at = (event) => {
    const lane = lanes[Math.floor((event.offsetY - TOP) / ROW)], moment = view[0] + share(event) * (view[1] - view[0]), reach = (view[1] - view[0]) / Math.max(1, canvas.clientWidth);
    const span = lane?.spans.findLast(([start, length]) => start - reach <= moment && moment <= start + length + reach);
    return span && { lane, span };
  };
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.offsetX, view }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) { const moved = ((drag.x - event.offsetX) / Math.max(1, canvas.clientWidth)) * (drag.view[1] - drag.view[0]); look(drag.view[0] + moved, drag.view[1] + moved); return; }
    const found = at(event);
    if (found) note.textContent = `${names[found.span[2]]}: ${time(found.span[1])} at ${time(found.span[0] - begin)} on ${label(found.lane)}`;
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("dblclick", () => look(begin, end));
  canvas.addEventListener("wheel", (event) => { if (!event.ctrlKey) return; event.preventDefault(); scaleAt(share(event), event.deltaY > 0 ? 1.25 : 0.8); }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = (view[1] - view[0]) / 5, moves = { ArrowLeft: () => look(view[0] - step, view[1] - step), ArrowRight: () => look(view[0] + step, view[1] + step), "+": () => scaleAt(0.5, 0.6), "-": () => scaleAt(0.5, 1.6), 0: () => look(begin, end) };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
  });
  new ResizeObserver(draw).observe(canvas);
  const rows = [...totals].sort((a, b) => b.time - a.time).slice(0, SHOWN).map((part) => h("tr", {}, h("td", { title: part.name }, h("span", { class: "badge" }, h("span", { class: "swatch", style: { background: paint(part.index, false), borderColor: paint(part.index, false) } }), part.name)),
    h("td", { class: "num" }, number(part.count)), h("td", { class: "num" }, time(part.time)), h("td", { class: "num" }, `${((100 * part.time) / whole).toFixed(1)} %`)));
  const left = all > count ? `, the longest ${count} of ${all} spans` : `, ${count} spans`;
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, "What the device did in the recorded steps"), h("span", { class: "hint" }, `${time(end - begin)}${left}`)),
    h("div", { class: "lanes" }, h("div", { class: "names", style: { paddingTop: `${TOP}px` } }, lanes.map((lane) => h("div", { title: label(lane), style: { height: `${ROW}px` } }, label(lane)))), canvas), note,
    h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, ["what took the most time", "times", "in all", "share"].map((text, column) => h("th", { class: column ? "num" : "" }, text)))), h("tbody", {}, rows))));
}

function label(lane) {
  return [lane.process, lane.lane].filter(Boolean).join(" ") || "?";
}

// Microseconds, as people say them.
function time(micros) {
  return micros < 1000 ? `${number(micros, 3)} µs` : micros < 1e6 ? `${number(micros / 1000, 4)} ms` : duration(micros / 1e6);
}
