// Scales and ticks shared by the line charts and the heat map.

import { svg } from "./look.js";
import { power, roundSteps } from "./words.js";

export const TEXT = 14;

// How many tokens the horizontal axis holds: it doubles while tokens come, so that it is seldom drawn anew.
export function domainFor(source) {
  if (source.ended) return Math.max(source.n, 2);
  let domain = 16;
  while (domain < source.n) domain *= 2;
  return Math.max(2, source.n, Math.min(domain, source.run.asked));
}

// Whole exponents from `low` to `high`, at most about `most`.
export function decades(low, high, most) {
  const [first, last] = [Math.ceil(low - 1e-9), Math.floor(high + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const ticks = [];
  for (let k = Math.ceil(first / step) * step; k <= last; k += step) ticks.push(k);
  return ticks;
}

export function label(x, y, text, { anchor = "middle", fill, size = TEXT, weight = 400 }) {
  const style = { x, y, "text-anchor": anchor, fill, "font-size": size, "font-weight": weight };
  return svg("text", style, text);
}

// Token ticks under a plot whose cells are `pitch` wide and begin at `left`.
export function tokenTicks({ left, width, bottom, domain, at, theme }) {
  const group = svg("g");
  for (const step of roundSteps(domain, Math.max(2, width / 55))) {
    const x = at(step).toFixed(1);
    group.append(svg("line", { x1: x, x2: x, y1: bottom, y2: bottom + 4, stroke: theme.faint }));
    group.append(label(x, bottom + 19, String(step), { fill: theme.soft }));
  }
  group.append(label(left + width / 2, bottom + 38, "token", { fill: theme.soft }));
  return group;
}

// Lines across a plot at powers of ten, with their labels at the left.
export function decadeLines({ low, high, left, width, most, at, theme }) {
  const group = svg("g");
  for (const exponent of decades(low, high, most)) {
    const y = at(10 ** exponent).toFixed(1);
    group.append(svg("line", { x1: left, x2: left + width, y1: y, y2: y, stroke: theme.line }));
    group.append(label(left - 8, Number(y) + 5, power(exponent), { anchor: "end", fill: theme.soft }));
  }
  return group;
}
