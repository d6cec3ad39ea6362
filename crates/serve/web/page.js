// Sends an image to /predict and shows the result. No image leaves this server.
"use strict";

const element = (id) => document.getElementById(id);
const status = (text, failed = false) => {
  element("status").textContent = text;
  element("status").classList.toggle("failed", failed);
};

async function loadModels() {
  const { models } = await (await fetch("/v2/models")).json();
  for (const name of models) element("model").append(new Option(name, name));
}

const address = (format) =>
  `/predict?model=${element("model").value}&top=5&format=${format}`;

async function failure(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error;
  } catch {
    return text;
  }
}

function table(rows) {
  const shown = rows.map((cells) => {
    const row = document.createElement("tr");
    for (const text of cells) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    return row;
  });
  element("table").replaceChildren(...shown);
  element("table").hidden = rows.length === 0;
}

function rows(prediction) {
  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  if (prediction.top) return prediction.top.map((one) => [one.name, percent(one.probability)]);
  if (prediction.boxes) return prediction.boxes.map((one) => [one.name, percent(one.score)]);
  if (prediction.columns) return Object.entries(prediction.columns).map(([name, value]) => [name, value.toPrecision(6)]);
  if (prediction.marked_pixels !== undefined) return [["marked pixels", prediction.marked_pixels]];
  return [];
}

let shownAddress;
function show(blob) {
  if (shownAddress) URL.revokeObjectURL(shownAddress);
  shownAddress = URL.createObjectURL(blob);
  element("shown").src = shownAddress;
  element("shown").hidden = false;
}

async function predict(file) {
  status("predicting…");
  const begun = performance.now();
  const response = await fetch(address("json"), { method: "POST", body: file });
  if (!response.ok) return status(await failure(response), true);
  const prediction = await response.json();
  status(`${Math.round(performance.now() - begun)} ms`);
  table(rows(prediction));
  element("json").textContent = JSON.stringify(prediction, null, 2);
  element("details").hidden = false;
  // Classes and numbers cannot be drawn; the image itself is shown then.
  const drawn = prediction.top || prediction.columns ? null : await fetch(address("png"), { method: "POST", body: file });
  show(drawn && drawn.ok ? await drawn.blob() : file);
}

const attempt = (file) => file && predict(file).catch((error) => status(String(error), true));
element("file").addEventListener("change", (event) => attempt(event.target.files[0]));
element("model").addEventListener("change", () => attempt(element("file").files[0]));
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("over");
});
document.addEventListener("dragleave", () => document.body.classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("over");
  attempt(event.dataTransfer.files[0]);
});
document.addEventListener("paste", (event) => attempt(event.clipboardData.files[0]));
loadModels().catch((error) => status(String(error), true));
