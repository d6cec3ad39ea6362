// Images by tag and step, runs side by side; and the plots of finished runs.

import { h, empty, choice, throttled } from "./dom.js";
import { state, on, json, color, shownRuns, setParam, tagsOf } from "./state.js";
import { clock } from "./scale.js";

const PLAIN = "/plain";

export function images(main) {
  const bar = h("div", { class: "bar" }), grid = h("div", { class: "images" }), plots = h("div");
  const zoom = h("dialog", { onclick: () => zoom.close() });
  main.append(bar, grid, plots, zoom);
  let items = [], generation = 0;

  async function load() {
    const mine = (generation += 1);
    const every = tagsOf("image").map((tag) => tag.name);
    // `X/plain` is what `X` was drawn on: shown below it, as far as the slider says.
    const tags = every.filter((name) => !(name.endsWith(PLAIN) && every.includes(name.slice(0, -PLAIN.length))));
    const tag = tags.includes(state.params.get("tag")) ? state.params.get("tag") : tags[0];
    items = [];
    if (tag) {
      const index = state.tags.findIndex((other) => other.name === tag && other.kind === "image");
      const runs = shownRuns().filter((run) => run.tags.includes(index)).slice(0, 24);
      const list = (run, tag) => json("images", { run: run.id, tag }).catch(() => null);
      const found = await Promise.all(runs.map(async (run) => {
        const [marked, plain] = await Promise.all([list(run, tag), every.includes(tag + PLAIN) ? list(run, tag + PLAIN) : null]);
        return marked && { run, tag, plain, ...marked };
      }));
      if (mine !== generation) return;
      items = found.filter((item) => item?.steps.length);
    }
    draw(tags, tag);
    await drawPlots(mine, tags.length > 0);
  }

  function draw(tags, tag) {
    if (!items.length) { bar.replaceChildren(); grid.replaceChildren(); return; }
    const steps = [...new Set(items.flatMap((item) => item.steps.map((step) => step.step)))].sort((a, b) => a - b);
    const samples = Math.max(...items.map((item) => item.samples));
    let at = steps.indexOf(Number(state.params.get("step")));
    if (at < 0) at = steps.length - 1;
    const output = h("output", {}, `${steps[at]}`);
    const slider = h("input", { type: "range", min: 0, max: steps.length - 1, value: at, ariaLabel: "Step" });
    slider.addEventListener("input", () => { at = Number(slider.value); output.textContent = `${steps[at]}`; setParam("step", steps[at], false); fill(); });
    const crisp = h("input", { type: "checkbox", checked: state.params.has("crisp"), onchange: () => { setParam("crisp", crisp.checked ? 1 : null, false); fill(); } });
    const overlay = h("input", { type: "range", min: 0, max: 100, value: state.params.get("overlay") ?? 100, ariaLabel: "How much of masks and boxes is seen" });
    overlay.addEventListener("input", () => { setParam("overlay", overlay.value === "100" ? null : overlay.value, false); fade(); });
    const fade = () => grid.style.setProperty("--overlay", overlay.value / 100);
    fade();
    bar.replaceChildren(choice("Tag", tags.map((name) => [name, name]), tag, (name) => { setParam("tag", name, false); load(); }),
      h("label", {}, "Step", slider, output), h("label", {}, crisp, "pixels"), items.some((item) => item.plain?.steps.length) ? h("label", {}, "Overlay", overlay) : "",
      h("span", { class: "hint" }, `${steps.length} steps, ${items.length} runs`));
    function fill() {
      grid.replaceChildren(...items.flatMap((item) => {
        // The newest image that is not after the chosen step.
        let index = item.steps.findLastIndex((step) => step.step <= steps[at]);
        if (index < 0) index = 0;
        const step = item.steps[index];
        return Array.from({ length: Math.min(samples, item.samples, 64) }, (_, sample) => card(item, index, step, sample));
      }));
    }
    function card(item, index, step, sample) {
      const query = new URLSearchParams({ run: item.run.id, tag: item.tag, index, sample });
      const text = `${item.run.name}, ${item.tag}, step ${step.step}`;
      const image = h("img", { src: `/api/image?${query}`, alt: text, class: crisp.checked ? "crisp" : "", loading: "lazy", tabIndex: 0 });
      // What it was drawn on, of the same step.
      const below = item.plain?.steps.findIndex((other) => other.step === step.step) ?? -1;
      const base = below >= 0 && h("img", { src: `/api/image?${new URLSearchParams({ run: item.run.id, tag: item.tag + PLAIN, index: below, sample })}`, alt: "", class: image.className, loading: "lazy" });
      const open = () => { zoom.replaceChildren(h("img", { src: image.src, alt: text })); zoom.showModal(); };
      image.addEventListener("click", open);
      image.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
      return h("figure", { class: "card", style: { margin: 0 } }, h("header", {}, h("span", { class: "swatch", style: { background: color(item.run), borderColor: color(item.run) } }), h("h3", {}, item.run.name), h("span", { class: "hint" }, `step ${step.step}, ${clock(step.time, 1e6)}`)), base ? h("div", { class: "layers" }, base, image) : image);
    }
    fill();
  }

  async function drawPlots(mine, others) {
    const runs = shownRuns().filter((run) => run.octant).slice(0, 6);
    const found = await Promise.all(runs.map((run) => json("plots", { run: run.id }).then((list) => ({ run, names: list.plots })).catch(() => ({ run, names: [] }))));
    if (mine !== generation) return;
    const cards = found.flatMap(({ run, names }) => names.map((name) => {
      const source = `/api/plot?${new URLSearchParams({ run: run.id, name })}`;
      return h("figure", { class: "card", style: { margin: 0 } }, h("header", {}, h("span", { class: "swatch", style: { background: color(run), borderColor: color(run) } }), h("h3", {}, `${run.name}: ${name.replace(/\.png$/, "")}`)),
        h("img", { src: source, alt: `${name} of ${run.name}`, loading: "lazy", onclick: () => { zoom.replaceChildren(h("img", { src: source, alt: name })); zoom.showModal(); } }));
    }));
    plots.replaceChildren(...(cards.length ? [h("h2", {}, "Plots"), h("div", { class: "images" }, cards)] : []));
    if (!cards.length && !others) grid.replaceChildren(empty("No images", "None of the runs that are shown wrote images. Training writes a gallery of predictions at its end."));
  }

  const stops = [on("runs", ({ structure }) => structure && load()), on("news", throttled(2000, load)), on("selection", load)];
  load();
  return () => { generation += 1; stops.forEach((stop) => stop()); };
}
