// Pages, the live connection, light and dark.

import { h, throttled } from "./dom.js";
import { state, on, emit, loadRuns, readAddress, setParam } from "./state.js";
import { picker } from "./picker.js";
import { curves } from "./curves.js";
import { runs } from "./runs.js";
import { images } from "./images.js";
import { evaluation } from "./evaluation.js";
import { machine } from "./machine.js";
import { network } from "./network.js";
import { histograms } from "./histograms.js";
import { log } from "./log.js";

const pages = { curves, runs, images, evaluation, machine, network, histograms, log };
const titles = { curves: "Curves", runs: "Runs", images: "Images", evaluation: "Evaluation", machine: "Machine", network: "Network", histograms: "Histograms", log: "Log" };
const main = document.getElementById("main"), live = document.getElementById("live"), tabs = document.getElementById("tabs");
let close = null, shown = null;

function show() {
  const page = pages[state.page] ? state.page : "curves";
  state.page = page;
  close?.();
  main.replaceChildren();
  main.scrollTop = 0;
  document.title = `${titles[page]} · Octant board`;
  tabs.replaceChildren(...Object.keys(pages).map((name) => h("a", {
    href: `#/${name}${keepSelection()}`, ariaCurrent: name === page ? "page" : undefined,
  }, titles[name])));
  // On a phone the tab may be out of sight.
  tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  close = pages[page](main) ?? null;
  shown = page;
}

// Which runs are chosen goes along from page to page; everything else belongs to its page.
function keepSelection() {
  const kept = new URLSearchParams([...state.params].filter(([name]) => name === "hide" || name === "runs" || name === "run"));
  return kept.size ? `?${kept}` : "";
}

function theme(value) {
  document.documentElement.dataset.theme = value;
  emit("theme");
}

const reload = throttled(1000, () => loadRuns().catch(() => {}));

function connect() {
  const source = new EventSource("/api/live");
  const status = (kind, text) => { live.className = kind; live.textContent = text; };
  source.addEventListener("hello", async (event) => {
    const { session } = JSON.parse(event.data);
    status("on", "live");
    // Another process: its numbers of runs are other ones.
    if (session !== state.session) { await loadRuns().catch(() => {}); emit("news", { runs: [] }); }
  });
  source.addEventListener("news", (event) => {
    const news = JSON.parse(event.data);
    state.ready = news.ready;
    emit("news", news);
    reload();
  });
  source.onerror = () => {
    status("off", "reconnecting");
    // Browsers give up after some responses; this page does not.
    if (source.readyState === EventSource.CLOSED) { source.close(); setTimeout(connect, 1000); }
  };
}

document.getElementById("theme").addEventListener("click", () => {
  const value = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", value); } catch { /* a private window keeps nothing */ }
  theme(value);
});
document.getElementById("menu").addEventListener("click", (event) => {
  const hidden = document.body.classList.toggle("narrow");
  event.currentTarget.setAttribute("aria-expanded", String(!hidden));
});
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea, canvas") || event.ctrlKey || event.metaKey || event.altKey) return;
  const names = Object.keys(pages), number = Number(event.key);
  if (number >= 1 && number <= names.length) location.hash = `#/${names[number - 1]}${keepSelection()}`;
  if (event.key === "/") { event.preventDefault(); document.querySelector("#main input[type=search], #side input[type=search]")?.focus(); }
});
window.addEventListener("hashchange", () => { readAddress(); show(); emit("selection"); });

let stored = null;
try { stored = localStorage.getItem("theme"); } catch { /* as above */ }
const dark = matchMedia("(prefers-color-scheme: dark)");
theme(stored ?? (dark.matches ? "dark" : "light"));
if (!stored) dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
if (innerWidth <= 760) { document.body.classList.add("narrow"); document.getElementById("menu").setAttribute("aria-expanded", "false"); }

readAddress();
await loadRuns().catch(() => {});
if (!location.hash) setParam("x", null, false);
picker(document.getElementById("side"));
show();
on("runs", () => { if (shown !== state.page) show(); });
connect();
