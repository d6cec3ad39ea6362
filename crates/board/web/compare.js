// Settings side by side; results over settings; all of both as parallel axes.

import { h, choice } from "./dom.js";
import { state, color, setParam } from "./state.js";
import { number, ticks, short } from "./scale.js";

export function compare(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].sort();
  const text = (run, name) => { const value = run.settings[name]; return value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value); };
  const differs = (name) => new Set(runs.map((run) => text(run, name))).size > 1;
  const different = names.filter(differs), same = names.filter((name) => !differs(name));
  const line = (name, mark) => h("tr", { class: mark ? "differs" : "" }, h("td", {}, name), runs.map((run) => h("td", { title: text(run, name) }, text(run, name))));
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, "Difference of settings"), h("span", { class: "hint" }, `${different.length} differ, ${same.length} are the same`)),
    h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, h("th", {}, "setting"), runs.map((run) => h("th", {}, run.name)))),
      h("tbody", {}, different.map((name) => line(name, true)), same.map((name) => line(name, false))))));
}

const axes = (results, settings) => [...settings.map((name) => [`s:${name}`, name]), ...results.map((name) => [`r:${name}`, name])];
// A result that is no number (NaN, inf) has no position.
const result = (run, name) => { const value = run.results[name]?.[0]; return typeof value === "number" ? value : null; };
const valueOf = (run, key) => (key.startsWith("s:") ? run.settings[key.slice(2)] ?? null : result(run, key.slice(2)));

// Positions of numbers, or of words one after the other.
function scale(runs, key) {
  const values = runs.map((run) => valueOf(run, key)).filter((value) => value !== null && typeof value !== "object");
  if (values.length && values.every((value) => typeof value === "number")) {
    let [min, max] = [Math.min(...values), Math.max(...values)];
    if (min === max) { min -= 0.5; max += 0.5; }
    const log = min > 0 && max / min >= 100;
    const f = log ? Math.log : (value) => value;
    return { place: (value) => (typeof value === "number" ? (f(value) - f(min)) / (f(max) - f(min)) : null), ticks: ticks(min, max, 5, log).map((tick) => [short(tick), (f(tick) - f(min)) / (f(max) - f(min))]) };
  }
  const words = [...new Set(values.map(String))].sort();
  const at = (word) => (words.length < 2 ? 0.5 : words.indexOf(word) / (words.length - 1));
  return { place: (value) => (value === null ? null : at(String(value))), ticks: words.slice(0, 12).map((word) => [word.slice(0, 14), at(word)]) };
}

const SVG = "http://www.w3.org/2000/svg";
function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const titled = (element, text) => { element.append(s("title", {}, text)); return element; };

export function scatter(runs, results, settings) {
  const options = axes(results, settings);
  const keys = options.map(([key]) => key);
  const valid = (key, otherwise) => (keys.includes(key) ? key : otherwise);
  const numbers = (key) => runs.map((run) => valueOf(run, key)).filter((value) => typeof value === "number");
  const isNumeric = (key) => numbers(key).length > 0;
  const varies = (key) => new Set(numbers(key)).size > 1;
  const section = h("section", { class: "card" });
  const draw = () => {
    // Up: the most important result that most runs have. Across: a number that differs between runs, settings first.
    const having = (key) => numbers(key).length;
    const up_key = results.map((name) => `r:${name}`).sort((a, b) => having(b) - having(a))[0];
    const others = keys.filter((key) => key !== up_key && isNumeric(key));
    const across_key = others.find(varies) ?? others[0] ?? up_key;
    const x = valid(state.params.get("sx"), across_key), y = valid(state.params.get("sy"), up_key);
    const [across, up] = [scale(runs, x), scale(runs, y)];
    const [width, height, left, bottom] = [1000, 300, 64, 30];
    const px = (share) => left + 14 + share * (width - left - 44), py = (share) => 20 + (1 - share) * (height - bottom - 34);
    const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${y.slice(2)} over ${x.slice(2)}`, class: "svg" });
    drawing.style.cssText = "width: 100%; min-width: 520px; display: block";
    for (const [text, share] of across.ticks) drawing.append(s("line", { x1: px(share), x2: px(share), y1: 12, y2: height - bottom, stroke: "var(--grid)" }), s("text", { x: px(share), y: height - bottom + 16, "text-anchor": "middle", "font-size": 11, fill: "var(--soft)" }, text));
    for (const [text, share] of up.ticks) drawing.append(s("line", { x1: left, x2: width - 20, y1: py(share), y2: py(share), stroke: "var(--grid)" }), s("text", { x: left - 8, y: py(share) + 4, "text-anchor": "end", "font-size": 11, fill: "var(--soft)" }, text));
    for (const run of runs) {
      const [a, b] = [across.place(valueOf(run, x)), up.place(valueOf(run, y))];
      if (a === null || b === null || Number.isNaN(a) || Number.isNaN(b)) continue;
      drawing.append(titled(s("circle", { cx: px(a), cy: py(b), r: 5, fill: color(run), "fill-opacity": 0.85 }), `${run.name}: ${number(valueOf(run, x))}, ${number(valueOf(run, y))}`));
    }
    section.replaceChildren(h("header", {}, h("h3", {}, "Scatter"), choice("across", options, x, (key) => { setParam("sx", key, false); draw(); }), choice("up", options, y, (key) => { setParam("sy", key, false); draw(); })), h("div", { style: { overflowX: "auto" } }, drawing));
  };
  draw();
  return section;
}

export function parallel(runs, results, settings) {
  const varied = (key) => new Set(runs.map((run) => valueOf(run, key)).filter((value) => value !== null).map((value) => JSON.stringify(value))).size > 1;
  const keys = [...settings.map((name) => `s:${name}`).filter(varied).slice(0, 8), ...results.map((name) => `r:${name}`).filter(varied).slice(0, 4)];
  if (keys.length < 2) return "";
  const [width, height] = [Math.max(1000, keys.length * 120), 300];
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Settings and results of every run as lines" });
  drawing.style.cssText = "width: 100%; min-width: 520px; display: block";
  const px = (index) => 60 + (index * (width - 120)) / (keys.length - 1), py = (share) => 40 + (1 - share) * (height - 70);
  const scales = keys.map((key) => scale(runs, key));
  for (const run of runs) {
    const points = keys.map((key, index) => [px(index), scales[index].place(valueOf(run, key))]).filter(([, share]) => share !== null && !Number.isNaN(share));
    const line = titled(s("path", { d: points.map(([x, share], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${py(share).toFixed(1)}`).join(""), fill: "none", stroke: color(run), "stroke-width": 1.8, "stroke-opacity": 0.75 }), run.name);
    line.addEventListener("pointerenter", () => { line.setAttribute("stroke-width", 4); line.setAttribute("stroke-opacity", 1); });
    line.addEventListener("pointerleave", () => { line.setAttribute("stroke-width", 1.8); line.setAttribute("stroke-opacity", 0.75); });
    drawing.append(line);
  }
  keys.forEach((key, index) => {
    drawing.append(s("line", { x1: px(index), x2: px(index), y1: py(1), y2: py(0), stroke: "var(--faint)" }), s("text", { x: px(index), y: 22, "text-anchor": "middle", "font-size": 11, "font-weight": 600, fill: "var(--text)" }, key.slice(2).slice(-20)));
    for (const [text, share] of scales[index].ticks) drawing.append(s("text", { x: px(index) + 5, y: py(share) + 4, "font-size": 10, fill: "var(--soft)" }, text));
  });
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, "Parallel coordinates")), h("div", { style: { overflowX: "auto" } }, drawing));
}
