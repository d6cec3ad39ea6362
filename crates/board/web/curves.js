// All metrics of all runs. Charts load when they are seen, and again when their runs grow.

import { h, toggle, choice, empty, throttled } from "./dom.js";
import { state, on, api, color, isSchedule, shownRuns, runList, setParam, setHidden, tagsOf } from "./state.js";
import { Chart, legend } from "./chart.js";

export function curves(main) {
  const cards = new Map();
  const body = h("div");
  const params = () => ({
    axis: state.params.get("axis") ?? "step", smooth: Number(state.params.get("smooth") ?? 0.6),
    logX: state.params.has("logx"), logY: state.params.has("logy"), find: state.params.get("find") ?? "",
    pins: state.params.getAll("pin"), view: state.params.get("view")?.split("~").map(Number) ?? null,
  });
  let settings = params();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const card = cards.get(entry.target.dataset.tag);
      if (!card) continue;
      card.seen = entry.isIntersecting;
      if (card.seen && card.stale) card.load();
    }
  }, { root: main, rootMargin: "250px" });

  main.append(controls(settings, () => { settings = params(); refresh(true); }, () => { settings = params(); layout(); }), body);

  function refresh(redraw) {
    for (const card of cards.values()) {
      if (redraw) card.configure(settings);
      card.stale = true;
      if (card.seen) card.load();
    }
  }

  function layout() {
    settings = params();
    let find = null;
    try { find = settings.find ? new RegExp(settings.find, "i") : null; } catch { /* an unfinished expression finds all */ }
    const tags = tagsOf("scalar").map((tag) => tag.name).filter((tag) => !find || find.test(tag));
    const groups = new Map();
    for (const tag of settings.pins.filter((pin) => tags.includes(pin))) add(groups, "Pinned", tag);
    for (const tag of tags) if (!settings.pins.includes(tag)) add(groups, tag.includes("/") ? tag.slice(0, tag.indexOf("/")) : "metrics", tag);
    for (const [tag, card] of cards) if (!tags.includes(tag)) { card.close(); cards.delete(tag); }
    if (!tags.length) {
      body.replaceChildren(state.runs.length
        ? empty("No metrics", "None of the runs that are shown has scalars like this.")
        : empty(state.ready ? "No runs yet" : "Reading the runs …", "Below ", h("code", {}, state.roots.join(", ")), " nothing has been written yet. Try ", h("code", {}, "octant train"), "."));
      return;
    }
    const closed = new Set([...body.querySelectorAll("details:not([open])")].map((group) => group.dataset.name));
    body.replaceChildren(...[...groups].map(([name, members]) => h("details", { class: "group", open: !closed.has(name), "data-name": name },
      h("summary", {}, name, h("span", { class: "hint" }, `${members.length}`)),
      h("div", { class: "grid" }, members.map((tag) => {
        if (!cards.has(tag)) cards.set(tag, new Card(tag, settings, cards, layout));
        const card = cards.get(tag);
        observer.observe(card.element);
        return card.element;
      })))));
  }

  const grown = new Set();
  const update = throttled(250, () => {
    for (const card of cards.values()) {
      if (!card.runs.some((run) => grown.has(run.id)) && grown.size) continue;
      card.stale = true;
      if (card.seen) card.load();
    }
    grown.clear();
  });
  const stops = [
    on("runs", ({ structure }) => { if (structure) { layout(); refresh(false); } }),
    on("news", ({ runs }) => { runs.forEach((id) => grown.add(id)); update(); }),
    on("selection", () => { layout(); refresh(false); }),
    on("theme", () => refresh(true)),
  ];
  layout();
  return () => { stops.forEach((stop) => stop()); observer.disconnect(); cards.forEach((card) => card.close()); };
}

function add(groups, name, tag) {
  if (!groups.has(name)) groups.set(name, []);
  groups.get(name).push(tag);
}

function controls(settings, change, layout) {
  const value = h("output", {}, settings.smooth.toFixed(2));
  const slider = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: settings.smooth, ariaLabel: "Smoothing" });
  const changed = throttled(120, change);
  slider.addEventListener("input", () => { value.textContent = Number(slider.value).toFixed(2); setParam("smooth", slider.value); changed(); });
  const find = h("input", { type: "search", placeholder: "Find metrics", ariaLabel: "Find metrics", value: settings.find });
  find.addEventListener("input", () => { setParam("find", find.value); layout(); });
  return h("div", { class: "bar" }, find,
    choice("Axis", [["step", "step"], ["epoch", "epoch"], ["relative", "relative time"], ["wall", "wall time"]], settings.axis, (axis) => {
      setParam("axis", axis); setParam("view", null); change();
    }),
    h("label", {}, "Smoothing", slider, value),
    toggle("log x", settings.logX, (on) => { setParam("logx", on ? 1 : null); change(); }),
    toggle("log y", settings.logY, (on) => { setParam("logy", on ? 1 : null); change(); }),
    h("span", { class: "hint for-mouse" }, "drag: zoom · shift-drag: pan · ctrl-wheel: scale · double-click: all · click: only that run"),
    h("span", { class: "hint for-touch" }, "swipe along a chart: zoom · tap: only that run · double-tap: all · ☰: choose runs"));
}

class Card {
  constructor(tag, settings, cards, layout) {
    Object.assign(this, { tag, cards, stale: true, seen: false, runs: [], fetched: null });
    const pinned = settings.pins.includes(tag);
    const icon = (label, text, work) => h("button", { class: "icon", type: "button", title: label, ariaLabel: `${label}: ${tag}`, onclick: work }, text);
    const pin = icon("Pin", pinned ? "★" : "☆", () => {
      const pins = state.params.getAll("pin");
      const isPinned = pins.includes(tag);
      setParam("pin", isPinned ? pins.filter((other) => other !== tag) : [...pins, tag]);
      pin.textContent = isPinned ? "☆" : "★";
      pin.setAttribute("aria-pressed", String(!isPinned));
      layout();
    });
    const file = (format) => h("a", { class: "icon", title: `Every point as ${format.toUpperCase()}`, ariaLabel: `Download ${tag} as ${format}`,
      style: { fontSize: "10.5px", width: "auto", padding: "6px 4px", textDecoration: "none" }, href: "#",
      onclick: (event) => {
        event.preventDefault();
        const query = new URLSearchParams({ tag, format, runs: runList(shownRuns()) });
        h("a", { href: `/api/export?${query}`, download: "" }).click();
      } }, format.toUpperCase());
    const wide = icon("Large or small", "⤢", () => { this.element.classList.toggle("wide"); this.stale = true; this.load(); });
    this.box = h("div");
    this.element = h("figure", { class: "card", "data-tag": tag, style: { margin: 0 } },
      h("header", {}, h("h3", { title: tag }, tag), file("csv"), file("json"),
        h("a", { class: "icon", title: "SVG", ariaLabel: `Download ${tag} as svg`, href: "#", style: { fontSize: "10.5px", width: "auto", padding: "6px 4px", textDecoration: "none" },
          onclick: (event) => { event.preventDefault(); this.chart.save(tag); } }, "SVG"), pin, wide), this.box);
    if (pinned) pin.setAttribute("aria-pressed", "true");
    this.configure(settings);
  }

  configure(settings) {
    this.settings = settings;
    const curves = this.chart?.curves ?? [];
    this.chart?.close();
    this.chart = new Chart({
      label: `${this.tag} over ${settings.axis}; arrow keys move the cursor, + and - zoom`, axis: settings.axis, logX: settings.logX, logY: settings.logY,
      view: settings.view,
      onView: (view) => {
        setParam("view", view ? view.join("~") : null, false);
        for (const card of this.cards.values()) {
          card.settings.view = view;
          if (card !== this) card.chart.setView(view);
          card.stale = true;
          if (card.seen) card.load();
        }
      },
      onPan: (view) => { for (const card of this.cards.values()) if (card !== this && card.seen) card.chart.setView(view); },
      onHover: (x) => { for (const card of this.cards.values()) if (card !== this && card.seen) card.chart.setCursor(x); },
      onPick: (curve) => setHidden(state.hidden.size && shownRuns().length === 1 ? new Set()
        : new Set(state.runs.map((run) => run.name).filter((name) => name !== curve.key))),
    });
    if (settings.axis === this.axis) this.chart.set(curves);
    this.key ??= h("div", { class: "key" });
    this.box.replaceChildren(this.chart.plot, this.key);
  }

  async load() {
    if (this.loading) { this.again = true; return; }
    this.stale = false;
    this.loading = true;
    const index = state.tags.findIndex((tag) => tag.name === this.tag);
    const runs = shownRuns().filter((run) => run.tags.includes(index));
    this.runs = runs;
    const { axis, smooth, logX } = this.settings;
    const query = { tag: this.tag, runs: runList(runs), axis, width: Math.ceil(this.chart.width), smooth: (!isSchedule(this.tag) && smooth) || undefined, log: logX || undefined };
    if (this.chart.view) {
      // A view's width on either side, so that panning has something to show.
      const [from, to] = this.chart.view;
      Object.assign(query, { from: logX ? from / 4 : from - (to - from), to: logX ? to * 4 : to + (to - from), width: query.width * 3 });
    }
    try {
      const buffer = await (await api("points", query)).arrayBuffer();
      this.axis = axis;
      this.chart.set(unpack(buffer));
      this.key.replaceChildren(...legend(this.chart.curves));
    } catch { this.stale = true; }
    this.loading = false;
    if (this.again) { this.again = false; this.load(); }
  }

  close() { this.chart.close(); }
}

export function unpack(buffer) {
  const size = Number(new DataView(buffer).getBigUint64(0, true));
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  let offset = 8 + size;
  return head.curves.map((curve) => {
    const [raw, smooth] = curve.counts.map((count) => {
      const x = new Float64Array(buffer, offset, count);
      const y = new Float32Array(buffer, offset + 8 * count, count);
      offset += 8 * count + Math.ceil((4 * count) / 8) * 8;
      return { x, y };
    });
    const run = state.byId.get(curve.run);
    return run && { key: run.name, name: run.name, color: color(run), raw, smooth, first: curve.first, last: curve.last, all: curve.all };
  }).filter(Boolean);
}
