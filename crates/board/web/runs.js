// The table of runs; the same selection as points and as lines over all settings; differences of settings.

import { h, empty, throttled, choice, download } from "./dom.js";
import { state, on, byImportance, color, shownRuns, setParam } from "./state.js";
import { number, duration } from "./scale.js";
import { compare, parallel, scatter } from "./compare.js";
import { chips, editButton } from "./notes.js";

const OWN = ["run", "tags", "status", "epoch", "left"];
// How runs are grouped: by a setting, or by their tags.
const BY_TAGS = "own:tags";
const groupOf = (run, name) => (name === BY_TAGS ? run.labels.join(", ") || null : run.settings[name] ?? null);

export function runs(main) {
  const box = h("div", { class: "scroll" }), lower = h("div", { class: "stack" }), bar = h("div", { class: "bar" });
  const chosen = new Set(state.params.getAll("pick"));
  main.append(bar, box, lower);

  const sort = () => (state.params.get("sort") ?? "run").split("~");
  const columns = () => {
    const list = shownRuns();
    const results = byImportance(list, [...new Set(list.flatMap((run) => Object.keys(run.results)))]);
    const settings = [...new Set(list.flatMap((run) => Object.keys(run.settings)))];
    const differs = (name) => new Set(list.filter((run) => name in run.settings).map((run) => JSON.stringify(run.settings[name]))).size > 1;
    const all = state.params.has("all");
    return { results, settings: settings.filter((name) => all || list.length < 2 || differs(name)).slice(0, all ? 400 : 24) };
  };
  const value = (run, column) => {
    const [kind, name] = column;
    if (kind === "result") return run.results[name]?.[{ last: 0, min: 1, max: 2 }[state.params.get("show") ?? "last"]] ?? null;
    if (kind === "setting") return run.settings[name] ?? null;
    return { run: run.name, tags: run.labels.join(", ") || null, status: run.status, epoch: run.epoch, left: run.left }[name];
  };

  function draw() {
    const list = shownRuns();
    if (!list.length) { box.replaceChildren(empty("No runs", "Nothing is shown; choose runs at the side.")); lower.replaceChildren(); return; }
    const { results, settings } = columns();
    const own = OWN.filter((name) => name !== "tags" || state.editable || list.some((run) => run.labels.length));
    const all = [...own.map((name) => ["own", name]), ...results.map((name) => ["result", name]), ...settings.map((name) => ["setting", name])];
    const [sorted, down] = sort();
    const by = all.find((column) => column.join(":") === sorted || column[1] === sorted) ?? all[0];
    const rows = [...list].sort((a, b) => order(value(a, by), value(b, by), down ? -1 : 1));
    const groups = state.params.get("group");
    if (groups) rows.sort((a, b) => order(groupOf(a, groups), groupOf(b, groups)));
    // Only the first rows exist until somebody scrolls: thousands of runs open at once.
    const most = Number(box.dataset.most ?? 200);
    const head = h("tr", {}, h("th", {}, h("span", { class: "hint" }, "pick")), all.map((column) => {
      const active = column === by;
      return h("th", { ariaSort: active ? (down ? "descending" : "ascending") : "none", title: column[0] === "own" ? "" : `${column[0]}: ${column[1]}` },
        h("button", { type: "button", onclick: () => { setParam("sort", active && !down ? `${column.join(":")}~down` : column.join(":")); draw(); } },
          column[1], active ? (down ? " ↓" : " ↑") : ""));
    }));
    let group = null;
    const body = rows.slice(0, most).flatMap((run) => {
      const line = h("tr", {}, h("td", {}, h("input", { type: "checkbox", checked: chosen.has(run.name), ariaLabel: `Pick ${run.name}`, onchange: (event) => {
        if (event.target.checked) chosen.add(run.name); else chosen.delete(run.name);
        setParam("pick", [...chosen], false);
        below();
      } })), all.map((column) => cell(run, column, value(run, column))));
      if (!groups) return [line];
      const key = String(groupOf(run, groups) ?? "–");
      if (key === group) return [line];
      group = key;
      return [h("tr", {}, h("td", { colSpan: all.length + 1, class: "hint" }, `${groups === BY_TAGS ? "tags" : groups} = ${key}`)), line];
    });
    const top = box.scrollTop, left = box.scrollLeft;
    box.replaceChildren(h("table", { class: "data" }, h("thead", {}, head), h("tbody", {}, body)));
    box.scrollTop = top; box.scrollLeft = left;
    tools(rows, all);
    below();
  }

  function tools(rows, all) {
    const settings = [...new Set(shownRuns().flatMap((run) => Object.keys(run.settings)))].sort();
    bar.replaceChildren(
      choice("Results", [["last", "last"], ["min", "min"], ["max", "max"]], state.params.get("show") ?? "last", (show) => { setParam("show", show); draw(); }),
      choice("Group by", [["", "nothing"], [BY_TAGS, "tags"], ...settings.map((name) => [name, name])], state.params.get("group") ?? "", (name) => { setParam("group", name); draw(); }),
      h("label", {}, h("input", { type: "checkbox", checked: state.params.has("all"), onchange: (event) => { setParam("all", event.target.checked ? 1 : null); draw(); } }), "all settings"),
      h("button", { class: "button", type: "button", onclick: () => download("runs.csv", "text/csv", csv(rows, all)) }, "CSV"),
      h("span", { class: "hint" }, `${rows.length === 1 ? "1 run" : `${rows.length} runs`}; pick two or more to compare their settings`));
  }

  const csv = (rows, all) => {
    const quoted = (text) => `"${String(text ?? "").replaceAll('"', '""')}"`;
    return [all.map((column) => quoted(column[1])).join(","), ...rows.map((run) => all.map((column) => quoted(value(run, column))).join(","))].join("\n") + "\n";
  };

  function below() {
    const list = shownRuns();
    const picked = list.filter((run) => chosen.has(run.name));
    const { results, settings } = columns();
    lower.replaceChildren(
      picked.length > 1 ? compare(picked) : "",
      results.length ? scatter(list, results, settings) : "",
      results.length ? parallel(list, results, settings) : "");
  }

  box.addEventListener("scroll", () => {
    const most = Number(box.dataset.most ?? 200);
    if (box.scrollTop + box.clientHeight > box.scrollHeight - 400 && most < shownRuns().length) { box.dataset.most = most + 200; draw(); }
  });
  const stops = [on("runs", throttled(500, draw)), on("selection", draw), on("theme", draw)];
  draw();
  return () => stops.forEach((stop) => stop());
}

// What is missing comes last in either direction.
function order(a, b, sign = 1) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? -1 : 1;
  return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
}

function cell(run, [kind, name], value) {
  if (kind === "own" && name === "run") return h("td", { title: run.notes ?? run.name }, h("span", { class: "badge" }, h("span", { class: "swatch", style: { background: color(run), borderColor: color(run) } }), run.name, run.notes ? h("span", { class: "hint" }, run.notes) : "", editButton(run)));
  if (kind === "own" && name === "tags") return h("td", {}, h("span", { class: "badge" }, chips(run)));
  if (kind === "own" && name === "status") return h("td", {}, h("span", { class: "badge" }, h("span", { class: `dot ${run.status}` }), run.status, run.damaged ? h("span", { class: "hint", title: "Damaged records were skipped" }, `${run.damaged} damaged`) : ""));
  if (kind === "own" && name === "epoch") return h("td", { class: "num" }, run.epoch === null ? "" : `${number(run.epoch)}${run.epochs ? ` / ${number(run.epochs)}` : ""}`);
  if (kind === "own") return h("td", { class: "num" }, duration(value));
  const text = typeof value === "object" && value !== null ? JSON.stringify(value) : number(value, 5);
  return h("td", { class: typeof value === "number" ? "num" : "", title: text }, text);
}
