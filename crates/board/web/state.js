// Runs, tags, what is chosen, and the address that says so.

const listeners = new Map();

export const state = {
  page: "curves", params: new URLSearchParams(), session: null, ready: false,
  runs: [], byId: new Map(), tags: [], roots: [], hidden: new Set(), only: null, editable: false,
};

export function on(name, work) {
  if (!listeners.has(name)) listeners.set(name, new Set());
  listeners.get(name).add(work);
  return () => listeners.get(name).delete(work);
}

export function emit(name, detail) {
  for (const work of [...(listeners.get(name) ?? [])]) work(detail);
}

// Colors belong to runs, not to their order: a run keeps its color when others appear or go, and on the next day. The name
// chooses one of twelve hues; where an older run has it, the younger one takes the next that is free, and after twelve runs
// another lightness.
const HUES = 12, TIERS = 3;

function hueOf(name) {
  let hash = 2166136261;
  for (let index = 0; index < name.length; index += 1) hash = Math.imul(hash ^ name.charCodeAt(index), 16777619);
  // The last letters reach the low bits alone.
  hash ^= hash >>> 15;
  return (hash >>> 0) % HUES;
}

export function assignSlots(runs, known) {
  const slots = new Map(runs.filter((run) => known.has(run.name)).map((run) => [run.name, known.get(run.name)]));
  const taken = new Set(slots.values());
  const began = (run) => run.began ?? Infinity;
  const unknown = runs.filter((run) => !slots.has(run.name)).sort((a, b) => began(a) - began(b) || (a.name < b.name ? -1 : 1));
  for (const run of unknown) {
    const first = hueOf(run.name);
    // Five steps of a twelfth lead to the other side of the circle, and over all hues.
    const order = Array.from({ length: HUES * TIERS }, (_, index) => ((first + 5 * index) % HUES) + HUES * Math.floor(index / HUES));
    // With more runs than slots colors repeat.
    const slot = order.find((slot) => !taken.has(slot)) ?? first;
    taken.add(slot);
    slots.set(run.name, slot);
  }
  return slots;
}

export function color(run) {
  const hue = (215 + (run.slot % HUES) * (360 / HUES)) % 360, tier = Math.floor(run.slot / HUES);
  const dark = document.documentElement.dataset.theme === "dark";
  // Yellow and green are lighter than blue of the same lightness.
  const isBright = hue > 40 && hue < 200;
  const lightness = dark ? [62, 78, 50][tier] : [isBright ? 36 : 48, isBright ? 26 : 34, isBright ? 46 : 62][tier];
  return `hsl(${hue} ${dark ? 72 : 68}% ${lightness}%)`;
}

// Whether the filter finds a run: by its name or by one of its tags.
export function isFound(run) {
  return state.only === null || state.only.test(run.name) || run.labels.some((label) => state.only.test(label));
}

export function isShown(run) {
  return !state.hidden.has(run.name) && isFound(run);
}

export function shownRuns() {
  return state.runs.filter(isShown);
}

export function runList(runs) {
  const ids = runs.map((run) => run.id).sort((a, b) => a - b);
  const parts = [];
  for (const id of ids) {
    const last = parts[parts.length - 1];
    if (last && last[1] === id - 1) last[1] = id;
    else parts.push([id, id]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

export async function api(path, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined && value !== null));
  const response = await fetch(`/api/${path}?${query}`);
  if (!response.ok) throw new Error(await response.text());
  return response;
}

// The only kind of request that changes something, where the board allows it.
export async function send(path, params, body) {
  const response = await fetch(`/api/${path}?${new URLSearchParams(params)}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

export async function json(path, params) {
  return (await api(path, params)).json();
}

export async function loadRuns() {
  const data = await json("runs");
  const changed = data.session !== state.session;
  const before = JSON.stringify([state.tags.map((tag) => tag.name), state.runs.map((run) => run.name)]);
  Object.assign(state, { session: data.session, ready: data.ready, editable: data.editable, tags: data.tags, roots: data.roots });
  const slots = assignSlots(data.runs, new Map(state.runs.map((run) => [run.name, run.slot])));
  state.runs = data.runs;
  for (const run of state.runs) run.slot = slots.get(run.name);
  state.byId = new Map(state.runs.map((run) => [run.id, run]));
  const after = JSON.stringify([state.tags.map((tag) => tag.name), state.runs.map((run) => run.name)]);
  emit("runs", { structure: changed || before !== after });
}

// Metrics by how much they say about a run: those it names as deciding, those of validation, the others, schedules last.
export function byImportance(runs, tags) {
  const named = new Set(runs.flatMap((run) => run.metrics));
  const last = (tag) => tag.split("/").at(-1);
  const kind = (tag) => {
    if (named.has(tag)) return 0;
    if (isSchedule(tag) || tag.startsWith("step/")) return 4;
    const isValidation = /^(val|test)/i.test(tag) || /^(val|test)/i.test(last(tag));
    if (isValidation) return /loss/i.test(last(tag)) ? 2 : 1;
    return 3;
  };
  return tags.map((tag, index) => [kind(tag), index, tag]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , tag]) => tag);
}

// What a schedule sets rather than training measures: smoothing would show values that never were.
export function isSchedule(tag) {
  return /(^|[/_.])(lr|learning_rate|momentum|weight_decay|epoch|ema_decay)(_\w+)?(\/|$)/i.test(tag);
}

export function tagsOf(kind) {
  const shown = new Set(shownRuns().flatMap((run) => run.tags));
  return state.tags.filter((tag, index) => tag.kind === kind && shown.has(index));
}

// The address after # holds everything that a shared link should show.
export function readAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  state.page = path || "curves";
  state.params = new URLSearchParams(query ?? "");
  state.hidden = new Set(state.params.getAll("hide"));
  const filter = state.params.get("runs");
  try { state.only = filter ? new RegExp(filter, "i") : null; } catch { state.only = null; }
}

export function setParam(name, value, announce = true) {
  if (value === null || value === undefined || value === "" || value === false) state.params.delete(name);
  else if (Array.isArray(value)) { state.params.delete(name); value.forEach((item) => state.params.append(name, item)); }
  else state.params.set(name, value);
  const query = state.params.toString();
  history.replaceState(null, "", `#/${state.page}${query ? `?${query}` : ""}`);
  if (announce) emit("params", name);
}

export function setHidden(names) {
  state.hidden = names;
  setParam("hide", [...names], false);
  emit("selection");
}

export function setFilter(text) {
  try { state.only = text ? new RegExp(text, "i") : null; } catch { return false; }
  setParam("runs", text, false);
  emit("selection");
  return true;
}
