// Confusion, per-class figures, precision and recall, receiver operating characteristic.

import { h, empty, choice, throttled } from "./dom.js";
import { state, on, json, color, shownRuns, setParam } from "./state.js";
import { number } from "./scale.js";
import { fixed } from "./chart.js";

const isJudged = (run) => run.octant || run.tags.some((index) => state.tags[index].plugin === "pr_curves");

// The run of the address, or the first that has something for the page.
export function chosenRun(suits = (run) => run.octant) {
  const runs = shownRuns();
  return runs.find((run) => run.name === state.params.get("run")) ?? runs.find(suits) ?? runs[0];
}

export function runChoice(change, suits) {
  const runs = shownRuns();
  return choice("Run", runs.map((run) => [run.name, run.name]), chosenRun(suits)?.name, (name) => { setParam("run", name, false); change(); });
}

export function judgement(main) {
  let charts = [], generation = 0;
  const bar = h("div", { class: "bar" }), body = h("div", { class: "stack" });
  main.append(bar, body);

  async function load() {
    const mine = (generation += 1);
    const run = chosenRun(isJudged);
    if (!run) { body.replaceChildren(empty("No runs", "Nothing is shown; choose runs at the side.")); return; }
    const data = await json("judgement", { run: run.id }).catch(() => ({ curves: [] }));
    if (mine !== generation) return;
    charts.forEach((chart) => chart.close());
    charts = [];
    bar.replaceChildren(runChoice(load, isJudged));
    const { findings, curves } = data;
    const parts = [];
    if (findings?.confusion) parts.push(confusion(findings.confusion), classes(findings.confusion));
    const figures = [];
    if (findings?.roc) figures.push(figure("Receiver operating characteristic", "false positive rate", `area ${number(findings.roc.area)}`, [
      { name: run.name, color: color(run), points: findings.roc.curve }, { name: "chance", color: "#999", dash: [4, 4], points: [[0, 0], [1, 1]] }]));
    if (findings?.roc?.precision_recall) figures.push(figure("Precision over recall", "recall", "", [{ name: run.name, color: color(run), points: findings.roc.precision_recall }]));
    for (const { tag, steps } of curves) if (steps.length) figures.push(...prCurves(tag, steps));
    if (figures.length) parts.push(h("div", { class: "two" }, figures));
    body.replaceChildren(...(parts.length ? parts : [empty("No judgement yet", "Classification and segmentation write it at the end of training, other programs as precision-recall curves.")]));
  }

  function figure(title, axisName, hint, curves) {
    const chart = fixed(curves, { label: title, axisName, fixedY: [0, 1.02] });
    charts.push(chart);
    return h("figure", { class: "card", style: { margin: 0 } }, h("header", {}, h("h3", {}, title), h("span", { class: "hint" }, hint), h("button", { class: "button", type: "button", onclick: () => chart.save(title) }, "SVG")), chart.plot, h("div", { class: "hint", style: { textAlign: "center" } }, axisName));
  }

  // Six rows: true positives, false positives, true negatives, false negatives, precision, recall.
  function prCurves(tag, steps) {
    const shade = (index) => `hsl(215 70% ${75 - (40 * (index + 1)) / steps.length}%)`;
    const over = (row) => steps.map(({ step, rows }, index) => ({ name: `step ${step}`, color: shade(index), points: row(rows) }));
    const pairs = (xs, ys) => xs.map((x, index) => [x, ys[index]]).sort((a, b) => a[0] - b[0]);
    const f1 = (rows) => rows[4].map((precision, index) => [index / Math.max(1, rows[4].length - 1), (2 * precision * rows[5][index]) / Math.max(1e-12, precision + rows[5][index])]);
    return [figure(`${tag}: precision over recall`, "recall", `${steps.length} steps`, over((rows) => pairs(rows[5], rows[4]))),
      figure(`${tag}: receiver operating characteristic`, "false positive rate", "", over((rows) => pairs(rows[1].map((count, index) => count / Math.max(1, count + rows[2][index])), rows[5]))),
      figure(`${tag}: F1 over confidence`, "confidence", "", over(f1))];
  }

  const stops = [on("runs", ({ structure }) => structure && load()), on("news", throttled(2000, load)), on("selection", load), on("theme", load)];
  load();
  return () => { generation += 1; charts.forEach((chart) => chart.close()); stops.forEach((stop) => stop()); };
}

function confusion({ names, counts }) {
  const size = names.length, note = h("p", { class: "hint", role: "status" }, "Rows are what it is, columns what it was taken for. Click a cell.");
  const rows = names.map((_, row) => counts.slice(row * size, (row + 1) * size));
  const table = h("table", {}, h("thead", {}, h("tr", {}, h("th"), names.map((name) => h("th", { title: name }, name)))), h("tbody", {}, rows.map((row, actual) => {
    const total = Math.max(1, row.reduce((sum, count) => sum + count, 0));
    return h("tr", {}, h("th", { title: names[actual] }, names[actual]), row.map((count, predicted) => {
      const share = count / total;
      const paint = actual === predicted ? "20 128 74" : "192 57 43";
      return h("td", { tabIndex: 0, style: { background: count ? `rgb(${paint} / ${(0.08 + 0.82 * Math.sqrt(share)).toFixed(3)})` : "var(--grid)", color: share > 0.35 ? "#fff" : "inherit" },
        title: `${names[actual]} taken for ${names[predicted]}: ${count} (${(100 * share).toFixed(1)} %)`,
        onclick: () => { note.textContent = `${names[actual]} taken for ${names[predicted]}: ${count} of ${total} (${(100 * share).toFixed(1)} %)`; },
        onkeydown: (event) => event.key === "Enter" && event.currentTarget.click() }, count || "");
    }));
  })));
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, "Confusion matrix")), h("div", { class: "matrix" }, table), note);
}

function classes({ names, counts }) {
  const size = names.length;
  const at = (row, column) => counts[row * size + column];
  const sum = (work) => names.reduce((total, _, index) => total + work(index), 0);
  const rows = names.map((name, index) => {
    const right = at(index, index), actual = sum((other) => at(index, other)), taken = sum((other) => at(other, index));
    const precision = taken ? right / taken : 0, recall = actual ? right / actual : 0;
    return { name, actual, precision, recall, f1: precision + recall ? (2 * precision * recall) / (precision + recall) : 0 };
  }).sort((a, b) => a.f1 - b.f1);
  const percent = (value) => h("td", { class: "num" }, `${(100 * value).toFixed(1)} %`);
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, "Classes, the weakest first")), h("div", { class: "scroll" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, ["class", "samples", "precision", "recall", "F1"].map((text, column) => h("th", { class: column ? "num" : "" }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("td", {}, row.name), h("td", { class: "num" }, number(row.actual)), percent(row.precision), percent(row.recall), percent(row.f1)))))));
}
