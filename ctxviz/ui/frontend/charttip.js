// The values at one token, beside the token and inside the chart.

import { el } from "./look.js";
import { swatch } from "./pen.js";
import { counted, sci } from "./words.js";

const GAP = 14;

export class ChartTip {
  constructor() {
    this.node = el("div", { class: "chart-tip", hidden: "" });
  }

  // Show the values at the token `cursor`; nothing while a rectangle is dragged or where no token is meant.
  draw({ shown, scale, width, height, inside }, data, { cursor, drag }) {
    const seen = cursor !== null && !drag && cursor >= scale.from && cursor < scale.to;
    this.node.hidden = !seen;
    if (!seen) return;
    const title = `token ${cursor} “${data.texts(cursor)}”`;
    const rows = shown.map((curve) => [curve, sci(curve.values(cursor)), curve.said(cursor) ?? ""]);
    this.told = [
      title,
      ...rows.map(([{ label }, ...words]) => [label, ...words].filter(Boolean).join(" ")),
    ].join("; ");
    this.fill(title, rows, 0);
    this.node.style.maxWidth = `${width - 4}px`;
    // Where not all fit, those without a number here go first, and how many went is said.
    for (let fewer = 1; this.node.offsetHeight > height && fewer < rows.length; fewer += 1)
      this.fill(title, rows, fewer);
    const x = scale.x(cursor);
    const wide = this.node.offsetWidth;
    const right = x + GAP + wide <= width - 2;
    const left = right ? x + GAP : x - GAP - wide;
    this.node.style.left = `${Math.max(2, Math.min(width - wide - 2, left))}px`;
    this.node.style.top = `${Math.max(0, Math.min(inside.top, height - this.node.offsetHeight))}px`;
  }

  fill(title, rows, fewer) {
    const order = rows.map((_, i) => i).sort((a, b) => this.rank(rows[a]) - this.rank(rows[b]) || a - b);
    const kept = new Set(order.slice(0, rows.length - fewer));
    const table = el("div", { class: "chart-tip-rows" });
    rows.forEach(([{ label, look }, value, said], i) => {
      if (!kept.has(i)) return;
      const about = el("bdi", { class: "chart-tip-said" }, said);
      table.append(el("span", {}, swatch(look, 22)), el("span", {}, label), el("b", {}, value), about);
    });
    this.node.replaceChildren(el("bdi", { class: "chart-tip-title" }, title), table);
    if (fewer) this.node.append(el("span", {}, `and ${counted(fewer, "line")} for which there is no room`));
  }

  // Lines before references, what was measured before what was not.
  rank([{ reference }, value]) {
    return (value === "not measured" ? 2 : 0) + (reference ? 1 : 0);
  }
}
