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

export function color(run) {
  // Neighbors differ by the golden angle; lightness alternates.
  const index = run.place;
  const dark = document.documentElement.dataset.theme === "dark";
  const lightness = (dark ? [64, 72, 56] : [44, 36, 54])[index % 3];
  return `hsl(${(215 + index * 137.508) % 360} ${dark ? 72 : 68}% ${lightness}%)`;
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
  const places = new Map(state.runs.map((run) => [run.name, run.place]));
  let next = Math.max(-1, ...places.values()) + 1;
  state.runs = data.runs;
  for (const run of state.runs) run.place = places.get(run.name) ?? next++;
  state.byId = new Map(state.runs.map((run) => [run.id, run]));
  const after = JSON.stringify([state.tags.map((tag) => tag.name), state.runs.map((run) => run.name)]);
  emit("runs", { structure: changed || before !== after });
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
