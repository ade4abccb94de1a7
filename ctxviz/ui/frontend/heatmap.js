// Layers x tokens on a canvas, with axes, colour bar and outlines in an SVG above it.
//
// A column is painted once. Everything is painted again when the range of colours, an axis, the size, the theme
// or what is shown changes.

import { decades, domainFor, label, tokenTicks } from "./axes.js";
import { colourScale, crossPath, el, svg, symbolPath } from "./look.js";
import { power, roundSteps, sci } from "./words.js";

const MARGIN = { left: 52, right: 92, top: 12, bottom: 46 };
const BAR = { gap: 22, width: 16 };
const MOST_MARKS = 600;
const SPECIAL = { missing: ["no value", ""], zero: ["exactly 0", "○"], infinite: ["past the range", "✕"] };

export class HeatMap {
  constructor() {
    this.canvas = el("canvas");
    this.node = svg("svg", { role: "img" });
    this.frame = el("div", { class: "field" }, this.canvas, this.node);
    this.field = null;
  }

  get plot() {
    const { left, right, top, bottom } = MARGIN;
    return { left, top, width: this.width - left - right, height: this.height - top - bottom };
  }

  draw(source, frame) {
    this.source = source;
    const { layers } = source.run;
    const height = Math.round(Math.min(620, Math.max(260, layers * 17)) + MARGIN.top + MARGIN.bottom);
    const domain = domainFor(source);
    if (this.field !== source.field) this.forget(source);
    const stretched = this.stretch();
    const same = domain === this.domain && frame.width === this.width && frame.theme === this.theme;
    Object.assign(this, { domain, height, layers, width: frame.width, theme: frame.theme });
    if (stretched || !same) this.redraw();
    this.append();
    this.outline(this.chosen, frame.selected, frame.layer);
  }

  forget(source) {
    const { codes } = source.run;
    Object.assign(this, { field: source.field, read: 0, low: null, high: null, seen: new Set() });
    this.special = new Map(Object.keys(SPECIAL).map((name) => [codes[name], name]));
    this.decade = codes.decade;
    this.colours ??= colourScale(source.run.look.cividis);
    this.least = this.most = null;
    this.domain = null;
  }

  code(step, layer) {
    return this.field.codes[step * this.source.run.layers + layer];
  }

  // The number in a cell; null where there is none.
  value(step, layer) {
    const code = this.code(step, layer);
    const special = this.special.get(code);
    return special ? { missing: null, zero: 0, infinite: Infinity }[special] : this.number(code);
  }

  number(code) {
    return 10 ** (code / this.decade);
  }

  // Read new columns; true if the range of colours or the special values grew.
  stretch() {
    const before = `${this.low} ${this.high} ${this.seen.size}`;
    const { layers } = this.source.run;
    for (; this.read < this.field.n; this.read += 1) {
      for (let layer = 0; layer < layers; layer += 1) this.fit(this.code(this.read, layer), this.read, layer);
    }
    if (this.least) {
      const half = this.decade / 2;
      this.low = Math.floor(this.least.code / half) / 2;
      this.high = Math.max(Math.ceil(this.most.code / half) / 2, this.low + 0.5);
    }
    return before !== `${this.low} ${this.high} ${this.seen.size}`;
  }

  fit(code, step, layer) {
    const special = this.special.get(code);
    if (special) {
      this.seen.add(special);
      return;
    }
    if (!this.least || code < this.least.code) this.least = { code, step, layer };
    if (!this.most || code > this.most.code) this.most = { code, step, layer };
  }

  colour(code) {
    const span = (this.high - this.low) * this.decade;
    const place = Math.round((255 * (code - this.low * this.decade)) / span);
    return this.colours[Math.max(0, Math.min(255, place))];
  }

  redraw() {
    const { plot, canvas, node, width, height } = this;
    this.ratio = Math.max(1, window.devicePixelRatio || 1);
    canvas.width = Math.round(plot.width * this.ratio);
    canvas.height = Math.round(plot.height * this.ratio);
    Object.assign(canvas.style, {
      left: `${plot.left}px`,
      top: `${plot.top}px`,
      width: `${plot.width}px`,
      height: `${plot.height}px`,
    });
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) {
      node.setAttribute(name, value);
    }
    node.setAttribute("font-family", this.theme.font);
    node.replaceChildren(this.axes(), ...(this.least ? [this.bar()] : []));
    const outline = { fill: "none", visibility: "hidden", "stroke-width": 2 };
    this.cursor = svg("g", outline);
    this.chosen = svg("g", outline);
    this.marks = svg("g", { fill: "none", "stroke-width": 1.6 });
    node.append(this.marks, this.cursor, this.chosen);
    this.drawn = 0;
  }

  axes() {
    const { left, top, width, height } = this.plot;
    const { theme, layers, domain } = this;
    const bottom = top + height;
    const group = svg("g", { fill: "none" });
    group.append(
      svg("rect", { x: left - 0.5, y: top - 0.5, width: width + 1, height: height + 1, stroke: theme.line }),
      tokenTicks({
        left,
        width,
        bottom,
        domain,
        theme,
        at: (step) => left + ((step + 0.5) / domain) * width,
      }),
    );
    for (const layer of roundSteps(layers, height / 30)) {
      const y = bottom - ((layer + 0.5) / layers) * height;
      group.append(svg("line", { x1: left - 4, x2: left, y1: y, y2: y, stroke: theme.faint }));
      group.append(label(left - 8, y + 5, String(layer), { anchor: "end", fill: theme.soft }));
    }
    const title = label(0, 0, "layer", { fill: theme.soft });
    title.setAttribute("transform", `translate(14 ${top + height / 2}) rotate(-90)`);
    group.append(title);
    return group;
  }

  bar() {
    const { top, height } = this.plot;
    const { low, high, theme } = this;
    const x = this.width - MARGIN.right + BAR.gap;
    const group = svg("g");
    for (let i = 0; i < 64; i += 1) {
      const y = top + (height * (63 - i)) / 64;
      const fill = this.colours[Math.round((i / 63) * 255)];
      group.append(
        svg("rect", { x, y: y.toFixed(2), width: BAR.width, height: (height / 64 + 0.6).toFixed(2), fill }),
      );
    }
    const whole = decades(low, high, 7);
    for (const exponent of whole.length > 1 ? whole : [low, high]) {
      const y = top + height * (1 - (exponent - low) / (high - low));
      const text = Number.isInteger(exponent) ? power(exponent) : sci(10 ** exponent);
      group.append(
        svg("line", { x1: x + BAR.width, x2: x + BAR.width + 4, y1: y, y2: y, stroke: theme.faint }),
      );
      group.append(label(x + BAR.width + 8, y + 5, text, { anchor: "start", fill: theme.soft }));
    }
    return group;
  }

  append() {
    const context = this.canvas.getContext("2d");
    const pitch = this.canvas.width / this.domain;
    const row = this.canvas.height / this.layers;
    for (let step = this.drawn; step < this.field.n; step += 1) {
      const [left, right] = [Math.round(step * pitch), Math.round((step + 1) * pitch)];
      for (let layer = 0; layer < this.layers; layer += 1) {
        const top = Math.round((this.layers - layer - 1) * row);
        const bottom = Math.round((this.layers - layer) * row);
        context.fillStyle = this.paint(this.code(step, layer));
        context.fillRect(left, top, right - left, bottom - top);
        this.mark(step, layer);
      }
    }
    this.drawn = this.field.n;
  }

  paint(code) {
    const special = this.special.get(code);
    return special ? this.specialColour(special) : this.colour(code);
  }

  specialColour(special) {
    return special === "missing" ? this.theme.line : "#000000";
  }

  // A sign on a cell whose value has no colour; small cells are no reason to leave it out.
  mark(step, layer) {
    const special = this.special.get(this.code(step, layer));
    if (!special || special === "missing" || this.marks.childElementCount >= MOST_MARKS) return;
    const { left, top, width, height } = this.plot;
    const [w, h] = [width / this.domain, height / this.layers];
    const [x, y] = [left + (step + 0.5) * w, top + height - (layer + 0.5) * h];
    const r = Math.max(2.6, Math.min(5, 0.3 * Math.min(w, h)));
    const d = special === "zero" ? symbolPath("circle", x, y, r) : crossPath(x, y, r);
    this.marks.append(
      svg("path", { d, stroke: "#000", "stroke-width": 4 }),
      svg("path", { d, stroke: "#fff" }),
    );
  }

  // [words, glyph, colour] of the special values that occur.
  get legend() {
    return Object.keys(SPECIAL)
      .filter((name) => this.seen.has(name))
      .map((name) => [...SPECIAL[name], this.specialColour(name)]);
  }

  // The cell under a point of the SVG, or null.
  cellAt(x, y) {
    const { left, top, width, height } = this.plot;
    const step = Math.floor(((x - left) / width) * this.domain);
    const layer = Math.floor((1 - (y - top) / height) * this.layers);
    return step >= 0 && step < this.drawn && layer >= 0 && layer < this.layers ? { step, layer } : null;
  }

  point(step, layer) {
    this.outline(this.cursor, step, layer);
  }

  // Outline a cell, or a whole column where `layer` is null.
  outline(group, step, layer) {
    if (!group) return;
    const shown = step !== null && step < this.drawn;
    group.setAttribute("visibility", shown ? "visible" : "hidden");
    if (!shown) return;
    const { left, top, width, height } = this.plot;
    const [w, h] = [width / this.domain, layer === null ? height : height / this.layers];
    const box = { x: left + step * w, y: layer === null ? top : top + height - (layer + 1) * h };
    const grown = { x: box.x - 1.5, y: box.y - 1.5, width: w + 3, height: h + 3 };
    const inner = group === this.cursor ? { "stroke-dasharray": "3 2" } : {};
    group.replaceChildren(
      svg("rect", { ...grown, stroke: "#000", "stroke-width": 4 }),
      svg("rect", { ...grown, stroke: "#fff", ...inner }),
    );
  }

  describe(metric, variant) {
    const { source, least, most } = this;
    const size = `${source.run.layers} layers by ${this.field.n} tokens`;
    const what = `Heat map: ${metric.title}, ${metric.symbol}, of ${variant}; ${size}.`;
    if (!least) return `${what} No value yet.`;
    const place = ({ code, step, layer }) => `${sci(this.number(code))} in layer ${layer} at token ${step}`;
    const zeros = this.seen.has("zero") ? " Some values are exactly 0." : "";
    return `${what} From ${place(least)} to ${place(most)}.${zeros}`;
  }

  // The cells as vector paths, one per colour, for a file.
  vector() {
    const { left, top, width, height } = this.plot;
    const [w, h] = [width / this.domain, height / this.layers];
    const paths = new Map();
    for (let step = 0; step < this.field.n; step += 1) {
      for (let layer = 0; layer < this.layers; layer += 1) {
        const fill = this.paint(this.code(step, layer));
        const [x, y] = [(left + step * w).toFixed(2), (top + height - (layer + 1) * h).toFixed(2)];
        const box = `M${x},${y}h${w.toFixed(2)}v${h.toFixed(2)}h${(-w).toFixed(2)}z`;
        paths.set(fill, (paths.get(fill) ?? "") + box);
      }
    }
    const group = svg("g", { "shape-rendering": "crispEdges" });
    for (const [fill, d] of paths) group.append(svg("path", { fill, d }));
    return group;
  }
}
