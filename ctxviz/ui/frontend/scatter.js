// The coordinates of one cell: |h| against |Δm| on logarithmic axes, drawn whole each time.

import { decades, label } from "./axes.js";
import { el, svg, symbolPath } from "./look.js";
import { counted, power, sci } from "./words.js";

const MARGIN = { left: 58, right: 14, top: 10, bottom: 36 };
const NEAR = 14;
const DOT = 2.1;

export class Scatter {
  constructor() {
    this.canvas = el("canvas");
    this.over = svg("svg", { role: "img" });
    this.tip = el("div", { class: "tip", hidden: "" });
    this.node = el("div", { class: "scatter" }, this.canvas, this.over, this.tip);
    this.node.addEventListener("pointermove", (event) => this.point(event));
    this.node.addEventListener("pointerleave", () => (this.tip.hidden = true));
  }

  // `cell` holds h and delta_m as numbers, dead, worst, title and product; null where there is nothing.
  show(cell) {
    this.cell = cell;
    this.tip.hidden = true;
    this.drawn = null;
    if (!cell) return;
    const dead = new Set(cell.dead);
    this.dots = [];
    this.left = { zero: 0, lost: 0 };
    cell.h.forEach((h, j) => {
      const [x, y] = [Math.abs(h), Math.abs(cell.delta_m[j])];
      if (!Number.isFinite(x) || !Number.isFinite(y)) this.left.lost += 1;
      else if (!x || !y) this.left.zero += 1;
      else this.dots.push({ j, x: Math.log10(x), y: Math.log10(y), h, dm: cell.delta_m[j], dead: dead.has(j) });
    });
    this.worst = cell.worst[0]?.j ?? -1;
  }

  // `frame` holds width, height, theme and the variant's colour.
  draw(frame) {
    const now = JSON.stringify(frame);
    if (!this.cell || now === this.drawn) return;
    this.drawn = now;
    Object.assign(this, frame);
    const [xs, ys] = [this.dots.map(({ x }) => x), this.dots.map(({ y }) => y)];
    [this.xRange, this.yRange] = [range(xs), range(ys)];
    this.size();
    this.axes();
    this.paint();
    this.over.setAttribute("aria-label", this.describe());
  }

  size() {
    const { canvas, over, width, height } = this;
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    for (const node of [canvas, over]) Object.assign(node.style, { width: `${width}px`, height: `${height}px` });
    over.setAttribute("viewBox", `0 0 ${width} ${height}`);
    over.setAttribute("font-family", this.theme.font);
    this.context = canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
  }

  at(x, y) {
    const [width, height] = [this.width - MARGIN.left - MARGIN.right, this.height - MARGIN.top - MARGIN.bottom];
    const [[x0, x1], [y0, y1]] = [this.xRange, this.yRange];
    return [MARGIN.left + ((x - x0) / (x1 - x0)) * width, MARGIN.top + ((y1 - y) / (y1 - y0)) * height];
  }

  axes() {
    const { theme, over } = this;
    const bottom = this.height - MARGIN.bottom;
    const right = this.width - MARGIN.right;
    const nodes = [];
    for (const k of decades(...this.xRange, Math.max(2, (right - MARGIN.left) / 70))) {
      const [x] = this.at(k, 0);
      nodes.push(svg("line", { x1: x, x2: x, y1: MARGIN.top, y2: bottom, stroke: theme.line }));
      nodes.push(label(x, bottom + 16, power(k), { fill: theme.soft, size: 13 }));
    }
    for (const k of decades(...this.yRange, Math.max(2, (bottom - MARGIN.top) / 26))) {
      const [, y] = this.at(0, k);
      nodes.push(svg("line", { x1: MARGIN.left, x2: right, y1: y, y2: y, stroke: theme.line }));
      nodes.push(label(MARGIN.left - 6, y + 4, power(k), { anchor: "end", fill: theme.soft, size: 13 }));
    }
    nodes.push(label((MARGIN.left + right) / 2, bottom + 32, "|h|, the denominator", { fill: theme.soft, size: 13 }));
    const up = label(0, 0, "|Δm|", { fill: theme.soft, size: 13 });
    up.setAttribute("transform", `translate(13 ${(MARGIN.top + bottom) / 2}) rotate(-90)`);
    over.replaceChildren(...nodes, up, ...this.named(), ...this.undrawn());
  }

  // How many coordinates have no dot, and why; above whatever dots lie there.
  undrawn() {
    const words = this.withoutDots();
    if (!words) return [];
    const text = label(MARGIN.left + 6, MARGIN.top + 13, `not drawn: ${words}`, { anchor: "start", fill: this.theme.soft, size: 13 });
    const halo = { stroke: this.theme.background, "stroke-width": 4, "paint-order": "stroke" };
    for (const [name, value] of Object.entries(halo)) text.setAttribute(name, value);
    return [text];
  }

  withoutDots() {
    const { zero, lost } = this.left;
    return [zero && `${zero} with h or Δm exactly 0`, lost && `${lost} with no number`].filter(Boolean).join(", ");
  }

  // The worst coordinate, ringed and named.
  named() {
    const dot = this.dots.find(({ j }) => j === this.worst);
    if (!dot) return [];
    const [x, y] = this.at(dot.x, dot.y);
    const end = x > this.width - 90;
    const style = { anchor: end ? "end" : "start", fill: this.theme.ink, size: 13, weight: 600 };
    const ring = { d: symbolPath("circle", x, y, 6), fill: "none", stroke: this.theme.alarm, "stroke-width": 2 };
    const name = label(x + (end ? -11 : 11), y + 5, `j = ${dot.j}`, style);
    return [svg("path", ring), name];
  }

  paint() {
    const { context, theme, color } = this;
    this.slopes();
    context.fillStyle = color;
    context.strokeStyle = theme.ink;
    context.globalAlpha = 0.65;
    for (const { x, y, dead } of this.dots) {
      const [px, py] = this.at(x, y);
      const path = new Path2D(symbolPath(dead ? "diamond" : "circle", px, py, dead ? 4 : DOT));
      if (dead) context.stroke(path);
      else context.fill(path);
    }
    context.globalAlpha = 1;
  }

  // Along a line of slope -1 the product is the same: the smaller the denominator, the larger the change.
  slopes() {
    const { context, theme } = this;
    const [[x0, x1], [y0, y1]] = [this.xRange, this.yRange];
    context.save();
    context.beginPath();
    const [[left, top], [right, bottom]] = [this.at(x0, y1), this.at(x1, y0)];
    context.rect(left, top, right - left, bottom - top);
    context.clip();
    context.strokeStyle = theme.faint;
    context.lineWidth = 1;
    context.setLineDash([2, 5]);
    const every = Math.max(1, Math.round((x1 + y1 - x0 - y0) / 5));
    for (let k = Math.ceil(x0 + y0); k <= x1 + y1; k += every) {
      context.beginPath();
      context.moveTo(...this.at(x0, k - x0));
      context.lineTo(...this.at(x1, k - x1));
      context.stroke();
    }
    context.restore();
  }

  point(event) {
    if (!this.cell || !this.dots.length) return;
    const box = this.node.getBoundingClientRect();
    const [mx, my] = [event.clientX - box.left, event.clientY - box.top];
    let [best, least] = [null, NEAR];
    for (const dot of this.dots) {
      const [x, y] = this.at(dot.x, dot.y);
      const far = Math.hypot(x - mx, y - my);
      if (far < least) [best, least] = [{ dot, x, y }, far];
    }
    this.tip.hidden = !best;
    if (!best) return;
    const { j, h, dm, dead } = best.dot;
    this.tip.textContent = `j = ${j}: h = ${sci(h)}, Δm = ${sci(dm)}${dead ? ", dead" : ""}`;
    const right = best.x + 12 + this.tip.offsetWidth < this.width;
    this.tip.style.left = `${Math.max(0, right ? best.x + 12 : best.x - 12 - this.tip.offsetWidth)}px`;
    this.tip.style.top = `${Math.max(0, Math.min(this.height - 30, best.y - 14))}px`;
  }

  describe() {
    const words = this.withoutDots();
    const parts = [`Scatter, logarithmic: ${counted(this.dots.length, "coordinate")}, |h| against |Δm|; along a dotted line ${this.cell.product} is the same`];
    if (words) parts.push(`not drawn: ${words}`);
    return `${parts.join("; ")}.`;
  }
}

function range(values) {
  if (!values.length) return [-1, 1];
  let [low, high] = [values[0], values[0]];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [Math.floor(2 * low - 0.2) / 2, Math.max(Math.ceil(2 * high + 0.2) / 2, Math.floor(2 * low) / 2 + 1)];
}
