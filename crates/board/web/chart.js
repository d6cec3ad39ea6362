// A line chart on two canvases: curves below, cursor above. Drawing costs what the pixels cost: the server sends at most four
// points per pixel column and curve.

import { h, download } from "./dom.js";
import { ticks, number, axisText, short } from "./scale.js";

const LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 24;
const tip = h("div", { class: "tip", hidden: true });
document.body.append(tip);

// Charts are painted a few milliseconds' worth per frame, so that scrolling stays smooth while many come into view.
const waiting = new Set();
let frame = null;

function schedule(chart) {
  waiting.add(chart);
  frame ??= requestAnimationFrame(paintSome);
}

function paintSome() {
  const end = performance.now() + 8;
  for (const chart of waiting) {
    waiting.delete(chart);
    chart.paint();
    if (performance.now() > end) break;
  }
  frame = waiting.size ? requestAnimationFrame(paintSome) : null;
}

export class Chart {
  // options: label, axis, logX, logY, onView(view|null), onHover(x|null), onPick(curve)
  constructor(options) {
    this.options = options;
    this.curves = [];
    this.view = options.view ?? null;
    this.bounds = null;
    this.base = h("canvas", { class: "base", ariaHidden: "true" });
    this.over = h("canvas", { class: "over", tabIndex: 0, role: "img", ariaLabel: options.label });
    this.plot = h("div", { class: "plot" }, this.base, this.over);
    // Where the chart of a canvas can be found, for tests and for the browser's developer tools.
    this.over.chart = this;
    this.cursor = null;
    this.listen();
    this.resizer = new ResizeObserver(() => this.draw());
    this.resizer.observe(this.plot);
  }

  close() { this.resizer.disconnect(); tip.hidden = true; }

  set(curves) {
    this.curves = curves;
    this.draw();
  }

  get width() { return Math.max(50, this.plot.clientWidth - LEFT - RIGHT); }
  get height() { return Math.max(30, this.plot.clientHeight - TOP - BOTTOM); }

  full() {
    let min = Infinity, max = -Infinity;
    for (const curve of this.curves) {
      if (curve.first < min) min = curve.first;
      if (curve.last > max) max = curve.last;
    }
    if (!(max >= min)) return [0, 1];
    if (max === min) return this.options.logX && min > 0 ? [min / 2, max * 2] : [min - 0.5, max + 0.5];
    return [min, max];
  }

  range() {
    let [from, to] = this.view ?? this.full();
    if (this.options.logX && from <= 0) from = Math.max(1e-9, Math.min(1, to / 1e4));
    return [from, to];
  }

  vertical(from, to) {
    if (this.options.fixedY) return this.options.fixedY;
    let min = Infinity, max = -Infinity;
    const log = this.options.logY;
    for (const curve of this.curves) {
      for (const { x, y } of curve.smooth ? [curve.raw, curve.smooth] : [curve.raw]) {
        for (let index = lower(x, from); index < x.length && x[index] <= to; index += 1) {
          const value = y[index];
          if (!Number.isFinite(value) || (log && value <= 0)) continue;
          if (value < min) min = value;
          if (value > max) max = value;
        }
      }
    }
    if (!(max >= min)) return [0, 1];
    if (max === min) return log ? [min / 2, max * 2] : [min - (Math.abs(min) / 2 || 0.5), max + (Math.abs(max) / 2 || 0.5)];
    const margin = (max - min) * 0.05;
    return log ? [min / 1.1, max * 1.1] : [min - margin, max + margin];
  }

  scales() {
    const [from, to] = this.range();
    const [bottom, top] = this.vertical(from, to);
    const along = (log, a, b, size) => {
      const f = log ? Math.log : (v) => v;
      const start = f(a), scale = size / (f(b) - f(a));
      return (v) => (f(log ? Math.max(v, 1e-300) : v) - start) * scale;
    };
    const x = along(this.options.logX, from, to, this.width), y = along(this.options.logY, bottom, top, this.height);
    return { from, to, bottom, top, x: (v) => LEFT + x(v), y: (v) => TOP + this.height - y(v) };
  }

  back(px) {
    const [from, to] = this.range();
    const share = (px - LEFT) / this.width;
    return this.options.logX ? from * (to / from) ** share : from + (to - from) * share;
  }

  draw() { schedule(this); }

  context(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(this.plot.clientWidth * ratio), height = Math.round(this.plot.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.plot.clientWidth, this.plot.clientHeight);
    return context;
  }

  paint() {
    if (!this.plot.clientWidth) return;
    const begun = performance.now();
    const context = this.context(this.base);
    const scales = (this.bounds = this.scales());
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(name).trim();
    this.frame(context, scales, ink);
    context.save();
    context.beginPath();
    context.rect(LEFT, TOP, this.width, this.height);
    context.clip();
    context.lineJoin = this.curves.length > 100 ? "bevel" : "round";
    const dim = this.marked !== undefined && this.marked !== null;
    for (const curve of this.curves) {
      const fades = dim && this.marked !== curve.key;
      if (curve.smooth) this.line(context, scales, curve.raw, curve.color, 1, fades ? 0.06 : 0.22);
      this.line(context, scales, curve.smooth ?? curve.raw, curve.color, fades ? 1 : curve.width ?? 1.6, fades ? 0.25 : 1, curve.dash);
    }
    context.restore();
    this.drawn = performance.now() - begun;
    this.paintOver();
  }

  frame(context, { from, to, bottom, top, x, y }, ink) {
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = ink("--soft");
    context.strokeStyle = ink("--grid");
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const tick of ticks(bottom, top, Math.max(2, this.height / 45), this.options.logY)) {
      const place = Math.round(y(tick)) + 0.5;
      if (place < TOP - 1 || place > TOP + this.height + 1) continue;
      context.beginPath(); context.moveTo(LEFT, place); context.lineTo(LEFT + this.width, place); context.stroke();
      context.fillText(short(tick), LEFT - 7, place);
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const tick of ticks(from, to, Math.max(2, this.width / 90), this.options.logX)) {
      const place = Math.round(x(tick)) + 0.5;
      context.beginPath(); context.moveTo(place, TOP); context.lineTo(place, TOP + this.height); context.stroke();
      const text = axisText(this.options.axis, tick, to - from);
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(Math.max(place, LEFT + half - 20), LEFT + this.width - half + 6), TOP + this.height + 7);
    }
  }

  line(context, { from, to, x, y }, points, color, width, alpha, dash) {
    if (!points?.x?.length) return;
    const { x: xs, y: ys } = points;
    context.globalAlpha = alpha;
    context.strokeStyle = context.fillStyle = color;
    context.lineWidth = width;
    context.setLineDash(dash ?? []);
    const log = this.options.logY;
    const start = Math.max(0, lower(xs, from) - 1);
    let open = false, length = 0, last = 0;
    context.beginPath();
    for (let index = start; index < xs.length; index += 1) {
      const value = ys[index];
      if (!Number.isFinite(value) || (log && value <= 0)) { open = false; continue; }
      if (open) context.lineTo(x(xs[index]), y(value));
      else context.moveTo(x(xs[index]), y(value));
      open = true; length += 1; last = index;
      if (xs[index] > to) break;
    }
    context.stroke();
    if (length === 1) { context.beginPath(); context.arc(x(xs[last]), y(ys[last]), 3, 0, 7); context.fill(); }
    context.globalAlpha = 1;
  }

  paintOver() {
    const context = this.context(this.over);
    const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    if (this.drag) {
      const [a, b] = [Math.min(this.drag.from, this.drag.to), Math.max(this.drag.from, this.drag.to)];
      context.fillStyle = ink("--accent"); context.globalAlpha = 0.15;
      context.fillRect(a, TOP, b - a, this.height); context.globalAlpha = 1;
    }
    if (this.cursor === null || !this.bounds) return;
    const place = this.bounds.x(this.cursor);
    if (place < LEFT || place > LEFT + this.width) return;
    context.strokeStyle = ink("--faint");
    context.beginPath(); context.moveTo(place, TOP); context.lineTo(place, TOP + this.height); context.stroke();
    for (const { curve, x, y } of this.near(this.cursor).slice(0, 60)) {
      context.fillStyle = curve.color;
      context.beginPath(); context.arc(this.bounds.x(x), this.bounds.y(y), 3.2, 0, 7); context.fill();
    }
  }

  // The nearest point of every curve.
  near(at) {
    const result = [];
    for (const curve of this.curves) {
      const points = curve.smooth ?? curve.raw;
      if (!points.x.length) continue;
      let index = lower(points.x, at);
      if (index > 0 && (index === points.x.length || at - points.x[index - 1] < points.x[index] - at)) index -= 1;
      if (Math.abs(this.bounds.x(points.x[index]) - this.bounds.x(at)) > 60) continue;
      const raw = curve.smooth ? curve.raw.y[Math.min(curve.raw.y.length - 1, nearest(curve.raw.x, points.x[index]))] : points.y[index];
      result.push({ curve, x: points.x[index], y: points.y[index], raw, note: curve.notes?.[index] });
    }
    return result;
  }

  setCursor(x) { this.cursor = x; this.paintOver(); }

  setView(view) { this.view = view; this.draw(); }

  zoom(view) {
    const [min, max] = this.full();
    if (view && view[0] <= min && view[1] >= max) view = null;
    this.setView(view);
    this.options.onView?.(view);
  }

  listen() {
    const place = (event) => event.clientX - this.over.getBoundingClientRect().left;
    const inside = (px) => Math.min(Math.max(px, LEFT), LEFT + this.width);
    this.over.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      const pans = event.shiftKey || event.button === 1;
      this.over.setPointerCapture(event.pointerId);
      if (pans) this.pan = { at: place(event), view: this.range() };
      else this.drag = { from: inside(place(event)), to: inside(place(event)) };
      if (event.button === 1) event.preventDefault();
    });
    this.over.addEventListener("pointermove", (event) => {
      if (this.pan) return this.panTo(place(event));
      if (this.drag) { this.drag.to = inside(place(event)); this.paintOver(); return; }
      this.hover(event.clientX, event.clientY);
    });
    this.over.addEventListener("pointerup", (event) => {
      const drag = this.drag;
      this.drag = null;
      if (this.pan) { this.pan = null; this.options.onView?.(this.view); return; }
      if (!drag) return;
      if (Math.abs(drag.to - drag.from) < 4) this.pick(event);
      else this.zoom([this.back(Math.min(drag.from, drag.to)), this.back(Math.max(drag.from, drag.to))]);
      this.paintOver();
    });
    this.over.addEventListener("pointerleave", () => this.leave());
    this.over.addEventListener("dblclick", () => this.zoom(null));
    this.over.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
      event.preventDefault();
      this.scaleAt(this.back(place(event)), Math.exp(event.deltaY * 0.002));
    }, { passive: false });
    this.over.addEventListener("keydown", (event) => this.key(event));
    this.over.addEventListener("blur", () => this.leave());
  }

  panTo(px) {
    const { at, view: [from, to] } = this.pan;
    const share = (at - px) / this.width;
    if (this.options.logX) { const factor = (to / from) ** share; this.setView([from * factor, to * factor]); }
    else this.setView([from + share * (to - from), to + share * (to - from)]);
    this.options.onPan?.(this.view);
  }

  scaleAt(x, factor) {
    const [from, to] = this.range();
    if (this.options.logX) this.zoom([x * (from / x) ** factor, x * (to / x) ** factor]);
    else this.zoom([x - (x - from) * factor, x + (to - x) * factor]);
  }

  key(event) {
    const [from, to] = this.range();
    const at = this.cursor ?? (from + to) / 2;
    const step = (to - from) / 50;
    const moves = { ArrowLeft: -step, ArrowRight: step };
    if (event.key in moves && event.shiftKey) this.zoom([from + moves[event.key] * 5, to + moves[event.key] * 5]);
    else if (event.key in moves) this.hoverAt(Math.min(Math.max(at + moves[event.key], from), to));
    else if (event.key === "+" || event.key === "=") this.scaleAt(at, 0.7);
    else if (event.key === "-") this.scaleAt(at, 1.4);
    else if (event.key === "0" || event.key === "Escape") this.zoom(null);
    else return;
    event.preventDefault();
  }

  hoverAt(x) {
    if (!this.bounds) return;
    const box = this.over.getBoundingClientRect();
    this.hover(box.left + this.bounds.x(x), box.top + TOP + this.height / 2);
  }

  hover(clientX, clientY) {
    if (!this.bounds || !this.curves.length) return;
    const box = this.over.getBoundingClientRect();
    const px = clientX - box.left;
    if (px < LEFT || px > LEFT + this.width) return this.leave();
    const near = this.near(this.back(px));
    this.options.onHover?.(this.back(px));
    this.setCursor(this.back(px));
    if (!near.length) { tip.hidden = true; return; }
    const height = clientY - box.top;
    for (const item of near) item.distance = Math.abs(this.bounds.y(item.y) - height);
    const closest = near.reduce((a, b) => (a.distance <= b.distance ? a : b));
    this.closest = closest.curve;
    near.sort((a, b) => b.y - a.y);
    const around = near.indexOf(closest);
    const start = Math.max(0, Math.min(around - 5, near.length - 10));
    this.showTip(near.slice(start, start + 10), closest, near.length, clientX, clientY);
  }

  showTip(rows, closest, all, clientX, clientY) {
    const smooth = rows.some((row) => row.curve.smooth);
    const [from, to] = this.range();
    tip.replaceChildren(
      h("div", { class: "hint" }, `${this.options.axisName ?? this.options.axis ?? ""} ${axisText(this.options.axis, closest.x, to - from)}`),
      h("table", {}, rows.map((row) => h("tr", { class: row === closest ? "near" : "" },
        h("td", {}, h("span", { class: "swatch", style: { background: row.curve.color, borderColor: row.curve.color, display: "block" } })),
        h("td", {}, h("span", { class: "name" }, row.curve.name)),
        h("td", { class: "num" }, number(row.y, 5)),
        row.note === undefined || row.note === null ? null : h("td", { class: "num hint" }, `threshold ${number(row.note, 3)}`),
        smooth ? h("td", { class: "num hint" }, number(row.raw, 5)) : null))),
      all > rows.length ? h("div", { class: "hint" }, `and ${all - rows.length} more`) : "");
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, clientX + 18 + box.width > innerWidth ? clientX - box.width - 14 : clientX + 18)}px`;
    tip.style.top = `${Math.max(4, Math.min(clientY + 14, innerHeight - box.height - 6))}px`;
  }

  pick(event) {
    this.hover(event.clientX, event.clientY);
    if (!this.closest) return;
    this.options.onPick?.(this.closest);
  }

  mark(key) { this.marked = key; this.draw(); }

  leave() {
    tip.hidden = true;
    this.closest = null;
    this.options.onHover?.(null);
    this.setCursor(null);
  }

  svg(title) {
    const scales = this.scales();
    const [width, height] = [this.plot.clientWidth, this.plot.clientHeight + 24];
    const safe = (text) => String(text).replace(/[<>&"]/g, (c) => `&#${c.charCodeAt(0)};`);
    const parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="12">`,
      `<rect width="100%" height="100%" fill="#fff"/><text x="${LEFT}" y="16" font-size="13">${safe(title)}</text><g transform="translate(0 24)">`];
    for (const tick of ticks(scales.bottom, scales.top, this.height / 45, this.options.logY)) {
      const y = scales.y(tick).toFixed(1);
      parts.push(`<path d="M${LEFT} ${y}H${LEFT + this.width}" stroke="#e5e7eb"/><text x="${LEFT - 6}" y="${y}" dy="4" text-anchor="end">${safe(short(tick))}</text>`);
    }
    for (const tick of ticks(scales.from, scales.to, this.width / 90, this.options.logX)) {
      const x = scales.x(tick).toFixed(1);
      parts.push(`<path d="M${x} ${TOP}V${TOP + this.height}" stroke="#e5e7eb"/><text x="${x}" y="${TOP + this.height + 16}" text-anchor="middle">${safe(axisText(this.options.axis, tick, scales.to - scales.from))}</text>`);
    }
    for (const curve of this.curves) {
      const points = curve.smooth ?? curve.raw;
      let path = "", open = false;
      points.x.forEach((x, index) => {
        const y = points.y[index];
        if (!Number.isFinite(y) || x < scales.from || x > scales.to) { open = false; return; }
        path += `${open ? "L" : "M"}${scales.x(x).toFixed(1)} ${scales.y(y).toFixed(1)}`;
        open = true;
      });
      parts.push(`<path d="${path}" fill="none" stroke="${safe(curve.color)}" stroke-width="1.5"><title>${safe(curve.name)}</title></path>`);
    }
    return `${parts.join("\n")}</g></svg>\n`;
  }

  save(title) { download(`${title.replace(/[^\w.-]+/g, "_")}.svg`, "image/svg+xml", this.svg(title)); }
}

export function lower(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (sorted[middle] < value) low = middle + 1; else high = middle; }
  return low;
}

function nearest(sorted, value) {
  const index = lower(sorted, value);
  if (index > 0 && (index === sorted.length || value - sorted[index - 1] < sorted[index] - value)) return index - 1;
  return index;
}

// Curves that a legend names; the list at the side names all runs.
const NAMED = 6;

export function legend(curves) {
  const shown = curves.slice(0, NAMED).map((curve) => h("span", { title: curve.name },
    h("i", { class: curve.dash ? "dashed" : "", style: { background: curve.dash ? "transparent" : curve.color, borderColor: curve.color } }), curve.name));
  return curves.length > NAMED ? [...shown, h("span", {}, `and ${curves.length - NAMED} more`)] : shown;
}

// A chart of fixed points, such as a precision-recall curve.
export function fixed(curves, options) {
  const chart = new Chart({ axis: "value", ...options });
  chart.set(curves.map((curve) => {
    const xs = Float64Array.from(curve.points, (point) => point[0]), ys = Float64Array.from(curve.points, (point) => point[1]);
    return { key: curve.name, name: curve.name, color: curve.color, dash: curve.dash, raw: { x: xs, y: ys }, notes: curve.points[0]?.length > 2 ? curve.points.map((point) => point[2]) : null, first: Math.min(...xs), last: Math.max(...xs) };
  }));
  return chart;
}
