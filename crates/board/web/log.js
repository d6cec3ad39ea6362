// The log of a run, with search; its settings and its texts.

import { h, empty, throttled } from "./dom.js";
import { state, on, json, setParam } from "./state.js";
import { chosenRun, runChoice } from "./evaluation.js";
import { bytes } from "./scale.js";

export function log(main) {
  const bar = h("div", { class: "bar" }), body = h("div", { class: "stack" }), lines = h("pre", { class: "log" }), count = h("span", { class: "hint", role: "status" });
  const search = h("input", { type: "search", placeholder: "Search the log", ariaLabel: "Search the log", value: state.params.get("find") ?? "" });
  let generation = 0;
  main.append(bar, body);

  async function find() {
    const run = chosenRun();
    if (!run) return;
    const wanted = search.value;
    const data = await json("log", { run: run.id, search: wanted || undefined }).catch(() => ({ lines: [], there: false }));
    if (wanted !== search.value) return;
    count.textContent = data.there ? (wanted ? `${data.found} of ${data.all} lines` : `${data.all} lines`) : "";
    lines.replaceChildren(...(data.lines.length ? data.lines.map(([number, text]) => h("div", {}, h("span", { class: "no" }, `${number}`), ...marked(text, wanted)))
      : [h("span", { class: "hint" }, data.there ? "Nothing like this." : "This run has no log.txt; programs other than Octant do not write one.")]));
  }

  async function load() {
    const mine = (generation += 1);
    const run = chosenRun();
    if (!run) { body.replaceChildren(empty("No runs", "Nothing is shown; choose runs at the side.")); return; }
    const [detail] = await Promise.all([json("run", { run: run.id }).catch(() => null), find()]);
    const tags = run.tags.map((index) => state.tags[index]).filter((tag) => tag.kind === "text");
    const texts = await Promise.all(tags.slice(0, 40).map((tag) => json("texts", { run: run.id, tag: tag.name }).then((data) => ({ tag: tag.name, ...data })).catch(() => null)));
    if (mine !== generation) return;
    bar.replaceChildren(runChoice(load), search, count);
    const section = (title, content, open = true) => h("details", { class: "card group", open }, h("summary", {}, title), content);
    const damage = detail?.files.flatMap((file) => file.damage.map((text) => `${file.name}: ${text}`)) ?? [];
    body.replaceChildren(section("Log", lines),
      detail?.notes ? section("Notes", h("pre", { class: "log" }, detail.notes)) : "",
      detail?.config ? section("config.toml", h("pre", { class: "log" }, detail.config), false) : "",
      ...texts.filter((item) => item?.texts.length).map((item) => section(item.tag, h("pre", { class: "log" }, item.texts.at(-1).text), false)),
      detail ? section("Event files", h("pre", { class: "log" }, detail.files.map((file) => `${file.name}  ${bytes(file.bytes)}${file.damaged ? `  ${file.damaged} damaged records were skipped` : ""}\n`), damage.join("\n")), false) : "");
  }

  search.addEventListener("input", throttled(200, () => { setParam("find", search.value, false); find(); }));
  const stops = [on("news", throttled(1000, find)), on("selection", load), on("runs", ({ structure }) => structure && load())];
  load();
  return () => { generation += 1; stops.forEach((stop) => stop()); };
}

function marked(text, wanted) {
  if (!wanted) return [text];
  const parts = [], lower = text.toLowerCase(), key = wanted.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(key); at >= 0; at = lower.indexOf(key, from)) {
    parts.push(text.slice(from, at), h("mark", {}, text.slice(at, at + key.length)));
    from = at + key.length;
  }
  return [...parts, text.slice(from)];
}
