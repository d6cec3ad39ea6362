// What people say about runs: tags and notes. They are changed here only where the board was started for it.

import { h } from "./dom.js";
import { state, json, send, loadRuns } from "./state.js";

export function chips(run) {
  return run.labels.map((label) => h("span", { class: "chip" }, label));
}

export function editButton(run) {
  if (!state.editable) return "";
  return h("button", { class: "icon small", type: "button", ariaLabel: `Tags and notes of ${run.name}`, title: "Tags and notes", onclick: () => edit(run) }, "✎");
}

async function edit(run) {
  const { notes, labels } = await json("run", { run: run.id });
  const known = [...new Set(state.runs.flatMap((other) => other.labels))].sort();
  const tags = h("input", { type: "text", value: labels.join(", "), placeholder: "baseline, augmented", ariaLabel: "Tags, with commas between them" });
  const text = h("textarea", { rows: 8, value: notes, placeholder: "What this run is about", ariaLabel: "Notes" });
  const problem = h("span", { class: "hint", role: "alert", style: { flex: "1" } });
  const add = (label) => { const all = split(tags.value); if (!all.includes(label)) tags.value = [...all, label].join(", "); };
  const dialog = h("dialog", { class: "form", onclose: () => dialog.remove() },
    h("form", { onsubmit: async (event) => {
      event.preventDefault();
      try {
        await send("notes", { run: run.id }, { tags: split(tags.value), text: text.value });
        await loadRuns();
        dialog.close();
      } catch (error) { problem.textContent = error.message; }
    } },
    h("h2", {}, run.name), h("label", {}, "Tags", tags),
    known.length ? h("div", { class: "row" }, known.map((label) => h("button", { class: "button", type: "button", onclick: () => add(label) }, label))) : "",
    h("label", {}, "Notes", text),
    h("div", { class: "row" }, problem, h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Cancel"), h("button", { class: "button primary", type: "submit" }, "Save"))));
  document.body.append(dialog);
  dialog.showModal();
}

function split(text) {
  return text.split(",").map((label) => label.trim()).filter(Boolean);
}
