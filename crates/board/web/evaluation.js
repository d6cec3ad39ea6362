// How good a network is: confusion, per-class figures, precision and recall, calibration.

import { h, empty, choice, throttled } from "./dom.js";
import { state, on, json, color, shownRuns, setParam } from "./state.js";
import { number } from "./scale.js";
import { fixed, legend } from "./chart.js";
import { boxClasses, classes, confusion } from "./confusion.js";

const isEvaluated = (run) => run.octant || run.tags.some((index) => state.tags[index].plugin === "pr_curves");

// The run of the address, or the first that has something for the page.
export function chosenRun(suits = (run) => run.octant) {
  const runs = shownRuns();
  return runs.find((run) => run.name === state.params.get("run")) ?? runs.find(suits) ?? runs[0];
}

export function runChoice(change, suits) {
  const runs = shownRuns();
  return choice("Run", runs.map((run) => [run.name, run.name]), chosenRun(suits)?.name, (name) => { setParam("run", name, false); change(); });
}

export function evaluation(main) {
  let charts = [], generation = 0;
  const bar = h("div", { class: "bar" }), body = h("div", { class: "stack" });
  main.append(bar, body);

  async function load() {
    const mine = (generation += 1);
    const run = chosenRun(isEvaluated);
    if (!run) { body.replaceChildren(empty("No runs", "Nothing is shown; choose runs at the side.")); return; }
    const data = await json("evaluation", { run: run.id }).catch(() => ({ curves: [] }));
    if (mine !== generation) return;
    charts.forEach((chart) => chart.close());
    charts = [];
    bar.replaceChildren(runChoice(load, isEvaluated));
    const { findings, curves } = data;
    const parts = [];
    if (findings?.confusion) parts.push(confusion(run, findings.confusion, findings.mistakes), findings.boxes ? boxClasses(findings.boxes) : classes(findings.confusion));
    const figures = [];
    if (findings?.roc) figures.push(figure("Receiver operating characteristic", "false positive rate", `area ${number(findings.roc.area)}`, [
      { name: run.name, color: color(run), points: findings.roc.curve }, { name: "chance", color: "#999", dash: [4, 4], points: [[0, 0], [1, 1]] }]));
    if (findings?.roc?.precision_recall) figures.push(figure("Precision over recall", "recall", "", [{ name: run.name, color: color(run), points: findings.roc.precision_recall }]));
    if (findings?.roc?.f1?.length) figures.push(f1Figure(run, findings.roc.f1));
    if (findings?.calibration?.bins.length) figures.push(reliability(run, findings.calibration));
    if (findings?.boxes?.curves) figures.push(...boxFigures(findings.boxes));
    for (const { tag, steps } of curves) if (steps.length) figures.push(...prCurves(tag, steps));
    if (figures.length) parts.push(h("div", { class: "two" }, figures));
    body.replaceChildren(...(parts.length ? parts : [empty("No evaluation yet", "Classification, segmentation and detection write it at the end of training, other programs as precision-recall curves.")]));
  }

  function figure(title, axisName, hint, curves) {
    const chart = fixed(curves, { label: title, axisName, fixedY: [0, 1.02] });
    charts.push(chart);
    return h("figure", { class: "card", style: { margin: 0 } }, h("header", {}, h("h3", {}, title), h("span", { class: "hint" }, hint), h("button", { class: "button", type: "button", onclick: () => chart.save(title) }, "SVG")), chart.plot, h("div", { class: "axis-name" }, axisName), h("div", { class: "key" }, legend(chart.curves)));
  }

  function f1Figure(run, points) {
    const best = points.reduce((a, b) => (b[1] > a[1] ? b : a));
    return figure("F1 over confidence", "confidence", `best ${number(best[1])} at ${number(best[0], 3)}`, [{ name: run.name, color: color(run), points: [...points].sort((a, b) => a[0] - b[0]) }]);
  }

  // Below the diagonal the network is overconfident.
  function reliability(run, { error, bins }) {
    const all = bins.reduce((sum, bin) => sum + bin[3], 0);
    return figure("Calibration: accuracy over confidence", "confidence", `expected calibration error ${number(error, 3)}`, [
      { name: "accuracy", color: color(run), points: bins.map((bin) => [bin[1], bin[2]]) }, { name: "calibrated", color: "#999", dash: [4, 4], points: [[0, 0], [1, 1]] },
      { name: "share of samples", color: "#c9952f", points: bins.map((bin) => [bin[1], bin[3] / all]) }]);
  }

  function boxFigures({ curves, coco, best_threshold: best }) {
    const over = (xs, ys) => xs.map((x, index) => [x, ys[index]]);
    const recalls = curves.precision_by_recall.map((_, index) => index / Math.max(1, curves.precision_by_recall.length - 1));
    return [figure("Precision over recall at IoU 0.50", "recall", `mAP50 ${number(coco.mAP50)}`, [{ name: "mean over classes", color: "#2f6fed", points: over(recalls, curves.precision_by_recall) }]),
      figure("Precision, recall and F1 over confidence", "confidence", best ? `best F1 ${number(best.f1)} at ${number(best.score, 3)}` : "", [["precision", "#2f6fed"], ["recall", "#14a06a"], ["f1", "#d0605a"]].map(([name, paint]) => ({ name, color: paint, points: over(curves.scores, curves[name]) })))];
  }

  function prCurves(tag, steps) {
    const shade = (index) => `hsl(215 70% ${75 - (40 * (index + 1)) / steps.length}%)`;
    const over = (name) => steps.map(({ step, rows }, index) => ({ name: `step ${step}`, color: shade(index), points: prPoints(rows)[name] }));
    return [figure(`${tag}: precision over recall`, "recall", `${steps.length} steps`, over("precision")),
      figure(`${tag}: receiver operating characteristic`, "false positive rate", "", over("receiver")),
      figure(`${tag}: F1 over confidence`, "confidence", "", over("f1"))];
  }

  const stops = [on("runs", ({ structure }) => structure && load()), on("news", throttled(2000, load)), on("selection", load), on("theme", load)];
  load();
  return () => { generation += 1; charts.forEach((chart) => chart.close()); stops.forEach((stop) => stop()); };
}

// The curves of a TensorBoard precision-recall curve, as x, y and threshold. Its six rows are true positives, false positives,
// true negatives, false negatives, precision and recall; its columns are thresholds from 0 to 1. From the strictest to the
// loosest, recall and the false positive rate only grow: that order is the curve's own, and sorting by one axis would turn its
// vertical parts around.
export function prPoints([hits, alarms, rejections, , precision, recall]) {
  const thresholds = recall.map((_, column) => column / Math.max(1, recall.length - 1));
  const curve = (point) => thresholds.map((threshold, column) => point(column, threshold)).filter(Boolean).reverse();
  return {
    // Precision is undefined where nothing is predicted.
    precision: curve((column, threshold) => (hits[column] + alarms[column] > 0 ? [recall[column], precision[column], threshold] : null)),
    receiver: curve((column, threshold) => [alarms[column] / Math.max(1, alarms[column] + rejections[column]), recall[column], threshold]),
    f1: curve((column, threshold) => [threshold, (2 * precision[column] * recall[column]) / Math.max(1e-12, precision[column] + recall[column])]).reverse(),
  };
}
