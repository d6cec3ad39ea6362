// Which classes are taken for which, the samples behind a cell, and what it comes to for every class.

import { h } from "./dom.js";
import { state, setParam } from "./state.js";
import { number } from "./scale.js";

export function confusion(run, { names, counts }, mistakes) {
  const size = names.length, note = h("p", { class: "hint", role: "status" }, "Rows are what it is, columns what it was taken for. Click a cell."), samples = h("div");
  const rows = names.map((_, row) => counts.slice(row * size, (row + 1) * size));
  const cells = new Map();
  const choose = (actual, predicted) => {
    const count = rows[actual][predicted], total = Math.max(1, rows[actual].reduce((sum, other) => sum + other, 0));
    note.textContent = `${names[actual]} taken for ${names[predicted]}: ${count} of ${total} (${(100 * count / total).toFixed(1)} %)`;
    cells.forEach((cell, key) => cell.classList.toggle("chosen", key === `${actual}-${predicted}`));
    samples.replaceChildren(...examples(run, names, mistakes, count, (sample) => sample.actual === actual && sample.predicted === predicted, actual === predicted));
    setParam("cell", `${actual}-${predicted}`, false);
  };
  const table = h("table", {}, h("thead", {}, h("tr", {}, h("th"), names.map((name) => h("th", { title: name }, name)))), h("tbody", {}, rows.map((row, actual) => {
    const total = Math.max(1, row.reduce((sum, count) => sum + count, 0));
    return h("tr", {}, h("th", { title: names[actual] }, names[actual]), row.map((count, predicted) => {
      const share = count / total, paint = actual === predicted ? "20 128 74" : "192 57 43";
      const cell = h("td", { tabIndex: 0, style: { background: count ? `rgb(${paint} / ${(0.08 + 0.82 * Math.sqrt(share)).toFixed(3)})` : "var(--grid)", color: share > 0.35 ? "#fff" : "inherit" },
        title: `${names[actual]} taken for ${names[predicted]}: ${count} (${(100 * share).toFixed(1)} %)`,
        onclick: () => choose(actual, predicted), onkeydown: (event) => event.key === "Enter" && choose(actual, predicted) }, count || "");
      cells.set(`${actual}-${predicted}`, cell);
      return cell;
    }));
  })));
  const kept = (state.params.get("cell") ?? "").split("-").map(Number);
  if (kept.length === 2 && kept.every((index) => index < size)) choose(...kept);
  else if (mistakes?.samples.length) samples.replaceChildren(h("h3", {}, "The mistakes it was most sure of"), tiles(run, names, mistakes, mistakes.samples.slice(0, 24)));
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, "Confusion matrix")), h("div", { class: "matrix" }, table), note, samples);
}

function examples(run, names, mistakes, count, wanted, isRight) {
  if (!mistakes || !count) return [];
  if (isRight) return [h("p", { class: "hint" }, "Samples are kept of mistakes alone.")];
  const found = mistakes.samples.filter(wanted);
  if (!found.length) return [h("p", { class: "hint" }, "No sample of this cell is among those that were kept, which the network was most sure of.")];
  return [h("p", { class: "hint" }, found.length < count ? `The ${found.length} of them that it was most sure of:` : "All of them, the highest confidence first:"), tiles(run, names, mistakes, found)];
}

// One image holds a tile of every sample, in the order of the list.
function tiles(run, names, mistakes, samples) {
  const { tile, columns, drawn } = mistakes, source = `/api/plot?${new URLSearchParams({ run: run.id, name: "mistakes.png" })}`;
  return h("div", { class: "tiles" }, samples.map((sample) => {
    const index = mistakes.samples.indexOf(sample), text = `${sample.name}: ${names[sample.actual]} taken for ${names[sample.predicted]}, ${(100 * sample.confidence).toFixed(1)} % sure`;
    const image = h("div", { class: "tile", role: "img", ariaLabel: text, style: { width: `${tile}px`, height: `${tile}px` } });
    if (index < drawn) Object.assign(image.style, { backgroundImage: `url("${source}")`, backgroundPosition: `-${(index % columns) * tile}px -${Math.floor(index / columns) * tile}px` });
    const short = sample.name.split("/").at(-1);
    return h("figure", { title: text, style: { width: `${tile}px` } }, image, h("figcaption", {}, h("b", {}, names[sample.predicted]), ` ${(100 * sample.confidence).toFixed(0)} %`, h("br"), `is ${names[sample.actual]}`, h("br"), h("span", { class: "hint" }, short)));
  }));
}

export function classes({ names, counts }) {
  const size = names.length;
  const at = (row, column) => counts[row * size + column];
  const sum = (work) => names.reduce((total, _, index) => total + work(index), 0);
  const rows = names.map((name, index) => {
    const right = at(index, index), actual = sum((other) => at(index, other)), taken = sum((other) => at(other, index));
    const precision = taken ? right / taken : 0, recall = actual ? right / actual : 0;
    return { name, actual, precision, recall, f1: precision + recall ? (2 * precision * recall) / (precision + recall) : 0 };
  }).sort((a, b) => a.f1 - b.f1);
  return table("Classes, the weakest first", ["class", "samples", "precision", "recall", "F1"], rows.map((row) => [row.name, number(row.actual), percent(row.precision), percent(row.recall), percent(row.f1)]));
}

export function boxClasses({ classes }) {
  const rows = [...classes].sort((a, b) => (a["AP50-95"] ?? 2) - (b["AP50-95"] ?? 2));
  return table("Classes, the weakest first", ["class", "objects", "AP50-95", "AP50"], rows.map((row) => [row.name, number(row.objects), percent(row["AP50-95"]), percent(row.AP50)]));
}

function percent(value) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`;
}

function table(title, columns, rows) {
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, title)), h("div", { class: "scroll" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, columns.map((text, column) => h("th", { class: column ? "num" : "" }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text, column) => h("td", { class: column ? "num" : "" }, text))))))));
}
