// The network of a run by blocks: shapes, parameters and cost, folded like the scopes they are.

import { h, empty } from "./dom.js";
import { on, json } from "./state.js";
import { chosenRun, runChoice } from "./evaluation.js";
import { number, short } from "./scale.js";

export function network(main) {
  const bar = h("div", { class: "bar" }), body = h("div", { class: "stack" });
  let generation = 0;
  main.append(bar, body);

  async function load() {
    const mine = (generation += 1);
    const run = chosenRun();
    if (!run) { body.replaceChildren(empty("No runs", "Nothing is shown; choose runs at the side.")); return; }
    const data = await json("network", { run: run.id }).catch(() => ({ network: null }));
    if (mine !== generation) return;
    bar.replaceChildren(runChoice(load));
    body.replaceChildren(data.network?.blocks?.length ? tree(data.network) : empty("No network", "Only runs of Octant keep ", h("code", {}, "network.json"), "."));
  }

  const stops = [on("selection", load)];
  load();
  return () => { generation += 1; stops.forEach((stop) => stop()); };
}

// Rows in the order of computation; a block can be folded, and only the outermost ones are open at first.
function tree({ model, blocks }) {
  const depth = (path) => path.split(".").length - 1;
  const top = blocks.filter((block) => !depth(block.path));
  const all = { parameters: sum(top, "parameters"), flops: Math.max(1, sum(top, "flops")) };
  const open = new Set();
  const body = h("tbody");
  const isInside = (block, path) => block.path.startsWith(`${path}.`);

  function draw() {
    const shown = blocks.filter((block) => {
      const parts = block.path.split(".");
      return parts.slice(0, -1).every((_, index) => open.has(parts.slice(0, index + 1).join(".")));
    });
    body.replaceChildren(...shown.map((block) => {
      const hasMore = blocks.some((other) => isInside(other, block.path));
      const name = block.path.split(".").at(-1), indent = { paddingLeft: `${10 + 18 * depth(block.path)}px` };
      const label = hasMore ? h("button", { ariaExpanded: `${open.has(block.path)}`, onclick: () => { open.has(block.path) ? open.delete(block.path) : open.add(block.path); draw(); body.querySelector(`[data-path="${CSS.escape(block.path)}"]`)?.focus(); }, "data-path": block.path }, `${open.has(block.path) ? "▾" : "▸"} ${name}`) : name;
      const share = (100 * block.flops) / all.flops;
      return h("tr", {}, h("td", { style: indent, title: block.path }, label), h("td", {}, block.output), h("td", { class: "num" }, number(block.parameters)),
        h("td", { class: "num" }, short(block.flops)), h("td", { style: { minWidth: "120px" } }, h("div", { style: { background: "var(--accent)", height: "10px", borderRadius: "3px", width: `${share}%` }, title: `${share.toFixed(1)} % of the work` })));
    }));
  }

  draw();
  return h("section", { class: "card" }, h("header", {}, h("h3", {}, `${model}: ${number(all.parameters)} parameters, ${short(all.flops)} FLOP per image`)),
    h("div", { class: "scroll" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, ["block", "output", "parameters", "FLOP per image", "share of the work"].map((text, column) => h("th", { class: column === 2 || column === 3 ? "num" : "" }, text)))), body)));
}

function sum(blocks, key) {
  return blocks.reduce((total, block) => total + block[key], 0);
}
