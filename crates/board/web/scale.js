// Ticks, and numbers as people write them.

export function ticks(min, max, count, log) {
  if (!(max > min)) return [min];
  if (log && min > 0 && max / min > 3) {
    const result = [];
    const every = Math.max(1, Math.ceil((Math.log10(max) - Math.log10(min)) / count));
    for (let power = Math.ceil(Math.log10(min)); power <= Math.log10(max); power += every) result.push(10 ** power);
    if (result.length > 1) return result;
  }
  const rough = (max - min) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const result = [];
  for (let tick = Math.ceil(min / step) * step; tick <= max + step * 1e-9; tick += step) result.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
  return result;
}

export function number(value, digits = 4) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e").replace("e+", "e");
  return Number(value.toPrecision(Math.max(digits, size >= 1000 ? Math.ceil(Math.log10(size)) : 0))).toString();
}

export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return number(value, 3);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
  return number(value, 5);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${Number((seconds / 86400).toPrecision(3))} days`;
}

export function clock(seconds, span) {
  const date = new Date(seconds * 1000);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: span < 600 ? "2-digit" : undefined, hour12: false });
  return span > 86400 ? `${date.toLocaleDateString([], { month: "short", day: "numeric" })} ${time}` : time;
}

export function axisText(axis, value, span) {
  if (axis === "wall") return clock(value, span);
  if (axis === "relative") return duration(value) || "0";
  return short(value);
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < 4) { count /= 1024; unit += 1; }
  return `${Number(count.toPrecision(3))} ${units[unit]}`;
}
