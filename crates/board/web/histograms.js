// Distributions over steps, one behind the other.

import { h, empty, choice, throttled } from "./dom.js";
import { state, on, json, color, setParam } from "./state.js";
import { chosenRun, runChoice } from "./evaluation.js";
import { number, short, ticks } from "./scale.js";

const BINS = 60;
const hasHistograms = (run) => run.tags.some((index) => state.tags[index].kind === "histogram");

export function histograms(main) {
  const bar = h("div", { class: "bar" }), grid = h("div", { class: "grid" });
  let generation = 0;
  main.append(bar, grid);

  async function load() {
    const mine = (generation += 1);
    const run = chosenRun(hasHistograms);
    const tags = run ? run.tags.map((index) => state.tags[index]).filter((tag) => tag.kind === "histogram").map((tag) => tag.name) : [];
    const find = h("input", { type: "search", placeholder: "Find layers", ariaLabel: "Find layers", value: state.params.get("find") ?? "" });
    find.addEventListener("input", throttled(250, () => { setParam("find", find.value, false); fill(); }));
    bar.replaceChildren(run ? runChoice(load, hasHistograms) : "", find, choice("View", [["offset", "offset"], ["overlay", "overlay"]], state.params.get("mode") ?? "offset", (mode) => { setParam("mode", mode, false); fill(); }));
    if (!tags.length) { grid.replaceChildren(empty("No histograms", "Train with ", h("code", {}, "--histograms 1"), " to see weights and gradients over time.")); return; }
    async function fill() {
      const wanted = (state.params.get("find") ?? "").toLowerCase();
      const shown = tags.filter((tag) => tag.toLowerCase().includes(wanted)).slice(0, 60);
      const found = await Promise.all(shown.map((tag) => json("histograms", { run: run.id, tag }).then((data) => ({ tag, ...data })).catch(() => null)));
      if (mine !== generation) return;
      grid.replaceChildren(...found.filter((item) => item?.histograms.length).map((item) => card(item, run)));
    }
    await fill();
  }

  const stops = [on("runs", ({ structure }) => structure && load()), on("news", throttled(3000, load)), on("selection", load), on("theme", load)];
  load();
  return () => { generation += 1; stops.forEach((stop) => stop()); };
}

// Counts in equal intervals, so that steps can be compared.
function rebin(buckets, min, max) {
  const bins = new Float64Array(BINS), width = (max - min) / BINS || 1;
  for (const [left, right, count] of buckets) {
    if (!count) continue;
    const size = right - left;
    if (!(size > 0)) { bins[Math.min(BINS - 1, Math.max(0, Math.floor((left - min) / width)))] += count; continue; }
    const first = Math.max(0, Math.floor((left - min) / width)), last = Math.min(BINS - 1, Math.floor((right - min) / width));
    for (let bin = first; bin <= last; bin += 1) bins[bin] += count * Math.max(0, Math.min(right, min + (bin + 1) * width) - Math.max(left, min + bin * width)) / size;
  }
  return bins;
}

function card({ tag, histograms, all }, run) {
  const canvas = h("canvas", { role: "img", ariaLabel: `${tag}: distributions at ${histograms.length} steps`, tabIndex: 0 });
  const note = h("span", { class: "hint" }, `${all} steps`);
  const flat = histograms.flatMap((item) => item.buckets);
  const min = Math.min(...flat.map((bucket) => bucket[0])), max = Math.max(...flat.map((bucket) => bucket[1]));
  const binned = histograms.map((item) => rebin(item.buckets, min, max));
  const highest = Math.max(...binned.map((bins) => Math.max(...bins)), 1e-9);
  const overlay = (state.params.get("mode") ?? "offset") === "overlay";
  const plot = h("div", { class: "plot" }, canvas);
  const draw = () => {
    const ratio = devicePixelRatio || 1, width = plot.clientWidth, height = plot.clientHeight;
    if (!width) return;
    canvas.width = width * ratio; canvas.height = height * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const [left, right, bottom] = [10, 46, height - 22];
    const depth = overlay ? 0 : (bottom - 10) * 0.6, tall = overlay ? bottom - 10 : (bottom - 10) * 0.4;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = style.getPropertyValue("--soft");
    context.textAlign = "center";
    for (const tick of ticks(min, max, 5)) context.fillText(short(tick), left + ((tick - min) / (max - min || 1)) * (width - left - right), height - 6);
    binned.forEach((bins, index) => {
      const back = histograms.length > 1 ? 1 - index / (histograms.length - 1) : 0;
      const base = bottom - back * depth;
      context.beginPath();
      context.moveTo(left, base);
      bins.forEach((count, bin) => context.lineTo(left + ((bin + 0.5) / BINS) * (width - left - right), base - (count / highest) * tall));
      context.lineTo(width - right, base);
      context.fillStyle = color(run);
      context.globalAlpha = overlay ? 0 : 0.28 + 0.6 * (1 - back);
      context.fill();
      context.globalAlpha = overlay ? 0.2 + 0.8 * (1 - back) : 0.9;
      context.strokeStyle = overlay ? color(run) : style.getPropertyValue("--panel");
      context.stroke();
      context.globalAlpha = 1;
      if (!overlay && (index === 0 || index === histograms.length - 1)) {
        context.fillStyle = style.getPropertyValue("--soft");
        context.textAlign = "left";
        context.fillText(short(histograms[index].step), width - right + 5, base + 3);
      }
    });
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const share = 1 - Math.min(1, Math.max(0, (event.clientY - box.top - 10) / (box.height - 32)));
    const index = overlay ? histograms.length - 1 : Math.min(histograms.length - 1, Math.max(0, Math.round((1 - share / 0.6) * (histograms.length - 1))));
    const item = histograms[index];
    const count = item.buckets.reduce((sum, bucket) => sum + bucket[2], 0);
    note.textContent = `step ${item.step}: ${short(count)} values from ${number(item.buckets[0]?.[0])} to ${number(item.buckets.at(-1)?.[1])}`;
  });
  new ResizeObserver(draw).observe(plot);
  return h("figure", { class: "card", style: { margin: 0 } }, h("header", {}, h("h3", { title: tag }, tag), note), plot);
}
