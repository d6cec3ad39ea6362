// The list of runs at the side: find, show, hide. Only the rows that are seen exist, so that thousands scroll well.

import { h, throttled } from "./dom.js";
import { state, on, color, isFound, setHidden, setFilter } from "./state.js";
import { duration } from "./scale.js";

const ROW = 30;

export function picker(side) {
  const search = h("input", { type: "search", placeholder: "Filter runs by name or tag", ariaLabel: "Filter runs by name or tag, a regular expression", value: state.params.get("runs") ?? "" });
  const list = h("div", { class: "list", tabIndex: -1 });
  const fill = h("div", { class: "fill", role: "listbox", ariaMultiSelectable: "true", ariaLabel: "Runs" });
  const count = h("span", { class: "hint", style: { flex: "1" } });
  list.append(fill);
  const matching = () => state.runs.filter(isFound);
  const all = h("button", { class: "button", type: "button", onclick: () => {
    const hidden = new Set(state.hidden);
    matching().forEach((run) => hidden.delete(run.name));
    setHidden(hidden);
  } }, "All");
  const none = h("button", { class: "button", type: "button", onclick: () => setHidden(new Set([...state.hidden, ...matching().map((run) => run.name)])) }, "None");
  search.addEventListener("input", () => search.setCustomValidity(setFilter(search.value) ? "" : "not a regular expression"));
  side.append(h("div", { class: "side-top" }, search, h("div", { class: "row" }, count, all, none)), list);

  const draw = () => {
    const runs = matching();
    const shown = runs.filter((run) => !state.hidden.has(run.name)).length;
    count.textContent = `${shown} of ${state.runs.length} shown`;
    fill.style.height = `${runs.length * ROW}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
    const last = Math.min(runs.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 5);
    const focused = document.activeElement?.dataset?.run;
    fill.replaceChildren(...runs.slice(first, last).map((run, index) => row(run, first + index)));
    if (focused) fill.querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };
  list.addEventListener("scroll", throttled(16, draw));
  new ResizeObserver(draw).observe(list);
  on("runs", throttled(200, draw));
  on("selection", draw);
  on("theme", draw);
  draw();
}

function row(run, index) {
  const hidden = state.hidden.has(run.name);
  const flip = () => {
    const names = new Set(state.hidden);
    if (!names.delete(run.name)) names.add(run.name);
    setHidden(names);
  };
  const only = () => setHidden(new Set(state.runs.map((other) => other.name).filter((name) => name !== run.name)));
  const left = run.left ? `, ${duration(run.left)} left` : "";
  return h("div", {
    class: `run${hidden ? " dim" : ""}`, role: "option", ariaSelected: String(!hidden), tabIndex: 0, style: { top: `${index * ROW}px` },
    title: `${run.name}: ${run.status}${left}. Double-click shows it alone.`, "data-run": run.name,
    onclick: flip, ondblclick: only,
    onkeydown: (event) => {
      if (event.key === " " || event.key === "Enter") { event.preventDefault(); flip(); }
      if (event.key === "ArrowDown") { event.preventDefault(); event.currentTarget.nextElementSibling?.focus(); }
      if (event.key === "ArrowUp") { event.preventDefault(); event.currentTarget.previousElementSibling?.focus(); }
    },
  },
  h("span", { class: "swatch", style: { borderColor: color(run), background: hidden ? "transparent" : color(run) } }),
  h("span", { class: "name" }, run.name),
  h("span", { class: `dot ${run.status}`, ariaLabel: run.status }));
}
