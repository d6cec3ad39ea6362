// Elements without markup: texts from runs are never parsed as HTML.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") Object.assign(element.style, value);
    else if (name in element && name !== "list" && name !== "form") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function empty(title, ...text) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, ...text));
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function toggle(text, pressed, change, props = {}) {
  const button = h("button", { class: "button", type: "button", ...props }, text);
  const show = (value) => button.setAttribute("aria-pressed", String(value));
  show(pressed);
  button.addEventListener("click", () => {
    const value = button.getAttribute("aria-pressed") !== "true";
    show(value);
    change(value);
  });
  return button;
}

export function choice(label, options, value, change) {
  const select = h("select", { onchange: () => change(select.value), ariaLabel: label },
    options.map(([key, text]) => h("option", { value: key, selected: key === String(value) }, text)));
  return h("label", {}, label, select);
}

// Calls at most once per interval, and always once after the last call.
export function throttled(interval, work) {
  let timer = null, last = 0;
  return () => {
    if (timer) return;
    timer = setTimeout(() => { timer = null; last = performance.now(); work(); }, Math.max(0, last + interval - performance.now()));
  };
}
