// Where the time went: parts of every epoch, speed, what the log has about the machine.

import { h, empty, throttled } from "./dom.js";
import { on, json, color } from "./state.js";
import { chosenRun, runChoice } from "./evaluation.js";
import { bytes, duration, number, short } from "./scale.js";
import { fixed } from "./chart.js";
import { timeline } from "./timeline.js";

// Device time is what training does not spend on waiting for input.
const PARTS = [["input", "#e0a030"], ["device", "#2f6fed"], ["validation", "#14a06a"], ["checkpoint", "#b06ad0"], ["compile", "#d0605a"]];

export function machine(main) {
  const bar = h("div", { class: "bar" }), body = h("div", { class: "stack" });
  let chart = null, generation = 0;
  main.append(bar, body);

  async function load() {
    const mine = (generation += 1);
    const run = chosenRun();
    if (!run) { body.replaceChildren(empty("No runs", "Nothing is shown; choose runs at the side.")); return; }
    const data = await json("machine", { run: run.id }).catch(() => ({ columns: [], compiled: [], lines: [] }));
    const recorded = await recording(run, data.recorded);
    if (mine !== generation) return;
    chart?.close();
    chart = null;
    bar.replaceChildren(runChoice(load));
    const columns = Object.fromEntries(data.columns.map(({ name, values }) => [name, values]));
    const parts = [];
    if (columns.seconds?.length) {
      parts.push(summary(columns), epochs(columns));
      if (columns.images_per_second) {
        chart = fixed([{ name: run.name, color: color(run), points: columns.images_per_second.map((value, index) => [columns.epoch?.[index] ?? index + 1, value]) }], { label: "Images per second", axisName: "epoch" });
        parts.push(h("figure", { class: "card", style: { margin: 0 } }, h("header", {}, h("h3", {}, "Images per second over epochs")), chart.plot));
      }
    }
    if (data.compiled.length) parts.push(programs(data.compiled, columns.memory));
    if (recorded) parts.push(recorded);
    if (data.lines.length) parts.push(h("section", { class: "card" }, h("header", {}, h("h3", {}, "From the log")), h("pre", { class: "log" }, data.lines.slice(-200).map((line) => highlighted(line)))));
    body.replaceChildren(...(parts.length ? parts : [empty("No times", "Only runs of Octant keep ", h("code", {}, "timing.csv"), ".")]));
  }

  // A recording that did not change stays, with the part of it that is looked at.
  let kept = { key: null, section: null };
  async function recording(run, stamp) {
    const key = stamp ? `${run.name} ${stamp}` : null;
    if (key !== kept.key) {
      const trace = key && await json("timeline", { run: run.id }).catch(() => null);
      kept = { key, section: trace?.lanes.length ? timeline(trace) : null };
    }
    return kept.section;
  }

  const stops = [on("runs", throttled(2000, load)), on("selection", load), on("theme", load)];
  load();
  return () => { generation += 1; chart?.close(); stops.forEach((stop) => stop()); };
}

function highlighted(line) {
  const at = line.indexOf("bound by");
  return at < 0 ? `${line}\n` : h("span", {}, h("span", { class: "hint" }, line.slice(0, Math.min(at, 60)).trim(), " … "), h("b", {}, line.slice(at)), "\n");
}

// Compilations, and the memory that was planned and used.
function programs(compiled, memory) {
  const used = Math.max(0, ...(memory ?? []).filter(Number.isFinite)), planned = Math.max(0, ...compiled.map((program) => program.planned ?? 0));
  const text = [planned ? `${bytes(planned)} planned for a step` : "", used ? `${bytes(used)} used at most` : ""].filter(Boolean).join(", ");
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, "Programs and memory"), h("span", { class: "hint" }, text)), h("div", { class: "scroll" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, ["phase", "program", "made", "in", "memory planned"].map((name, column) => h("th", { class: column > 2 ? "num" : "" }, name)))),
    h("tbody", {}, compiled.map((program) => h("tr", {}, h("td", {}, program.phase), h("td", {}, program.program), h("td", {}, program.cached ? "loaded from the cache" : "compiled"), h("td", { class: "num" }, duration(program.seconds)), h("td", { class: "num" }, program.planned ? bytes(program.planned) : "")))))));
}

function split(columns) {
  const at = (name, index) => columns[name]?.[index] ?? 0;
  return columns.seconds.map((_, index) => ({
    input: at("input", index), device: Math.max(0, at("training", index) - at("input", index)), validation: at("validation", index),
    checkpoint: at("checkpoint", index), compile: at("compile", index),
  }));
}

function key() {
  return h("div", { class: "key" }, PARTS.map(([name, paint]) => h("span", {}, h("i", { style: { background: paint } }), name)));
}

function summary(columns) {
  const rows = split(columns);
  const totals = PARTS.map(([name, paint]) => ({ name, paint, seconds: rows.reduce((sum, row) => sum + row[name], 0) }));
  const all = Math.max(1e-9, totals.reduce((sum, part) => sum + part.seconds, 0));
  const most = totals.reduce((a, b) => (a.seconds >= b.seconds ? a : b));
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, `Bound by ${most.name}: ${(100 * most.seconds / all).toFixed(0)} % of ${duration(all)}`)),
    h("div", { style: { display: "flex", height: "26px", borderRadius: "6px", overflow: "hidden" }, role: "img", ariaLabel: totals.map((part) => `${part.name} ${(100 * part.seconds / all).toFixed(0)} percent`).join(", ") },
      totals.map((part) => h("div", { style: { background: part.paint, width: `${(100 * part.seconds) / all}%` }, title: `${part.name}: ${duration(part.seconds)}` }))), key(),
    h("p", { class: "hint" }, totals.map((part) => `${part.name} ${duration(part.seconds)} (${number((100 * part.seconds) / all, 3)} %)`).join(" · ")));
}

function epochs(columns) {
  const rows = split(columns).slice(-200);
  const highest = Math.max(1e-9, ...rows.map((row) => PARTS.reduce((sum, [name]) => sum + row[name], 0)));
  const bars = rows.map((row, index) => h("div", { title: `epoch ${columns.epoch?.[columns.seconds.length - rows.length + index] ?? index + 1}: ${PARTS.map(([name]) => `${name} ${duration(row[name])}`).join(", ")}`, style: { flex: "1 1 0", minWidth: "3px", maxWidth: "46px", display: "flex", flexDirection: "column-reverse", height: "100%" } },
    PARTS.map(([name, paint]) => h("div", { style: { background: paint, height: `${(100 * row[name]) / highest}%` } }))));
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, "Time of every epoch"), h("span", { class: "hint" }, `at most ${short(highest)} s`)), h("div", { style: { display: "flex", gap: "2px", height: "180px", alignItems: "flex-end" } }, bars), key());
}
