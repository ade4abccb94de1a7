// One map of layers x tokens: a canvas of cells, and an SVG above it with axes, colour bar and outlines.

import { label } from "./axes.js";
import { axes, colourBar, foot, mark, MARGIN, outline, spelled } from "./fieldaxes.js";
import { Painter } from "./fieldpaint.js";
import { exact } from "./fieldscale.js";
import { el, svg } from "./look.js";

// Below this cells are too small for a mark of their own.
const ROOM = 11;
// What growth alone changes is not drawn anew more often than this, in ms, while a run is at work.
const PATIENCE = 500;

export class FieldMap {
  constructor() {
    this.canvas = el("canvas");
    this.cellsOn = new Painter(this.canvas);
    this.node = svg("svg", { role: "img" });
    this.frame = el("div", { class: "field", tabindex: "0", role: "application" }, this.canvas, this.node);
  }

  get plot() {
    const { left, right, top } = MARGIN;
    return { left, top, width: this.width - left - right, height: this.cells };
  }

  // `frame` holds table, scale, box, whole, texts, theme and width. New columns are added to what is there;
  // all of it is painted again where something else changed, but for a run at work (`busy`) that only grew not
  // too often: until then `late` is true. True if anything was drawn.
  draw(frame, busy = false) {
    const { table, scale, box, whole, theme, width } = frame;
    const now = [table, scale, theme, width, box.from, whole || box.to, box.low, box.high];
    const grew = this.last && now.every((value, i) => value === this.last[i]);
    this.late = false;
    if (grew && this.box.to === box.to && this.look === this.lookOf(scale)) return this.extend(frame);
    this.late = grew && busy && performance.now() - this.paintedAt < PATIENCE;
    if (this.late) return false;
    this.last = now;
    [this.painted, this.paintedAt] = [table.n, performance.now()];
    Object.assign(this, frame);
    this.cells = Math.min(560, Math.max(240, table.layers * 17));
    this.height = MARGIN.top + this.cells + foot(box);
    this.resize();
    this.look = this.lookOf(scale);
    this.cellsOn.paint(this);
    this.cursor = svg("g", { visibility: "hidden" });
    this.chosen = svg("g", { visibility: "hidden" });
    this.axes = this.drawAxes();
    this.node.replaceChildren(this.axes);
    if (!scale.empty && scale.about.kind !== "category") {
      this.node.append(colourBar({ plot: this.plot, scale, theme, width }));
    }
    this.node.append(this.chosen, this.cursor);
    return true;
  }

  // Whatever of a scale decides how the same values are painted.
  lookOf({ look, order }) {
    return this.crowded ? `${look} ${order}` : look;
  }

  extend(frame) {
    if (this.painted === frame.table.n) return false;
    this.painted = frame.table.n;
    Object.assign(this, frame);
    this.cellsOn.extend();
    if (spelled(this.box)) {
      const axes = this.drawAxes();
      this.axes.replaceWith(axes);
      this.axes = axes;
    }
    return true;
  }

  drawAxes() {
    const { plot, box, texts, theme } = this;
    return axes({ plot, box, texts, theme, place: (step, layer) => this.place(step, layer) });
  }

  get marks() {
    return this.cellsOn.marks;
  }

  get unmarked() {
    return this.cellsOn.unmarked;
  }

  resize() {
    const { plot, canvas, node, width, height } = this;
    this.ratio = Math.max(1, window.devicePixelRatio || 1);
    canvas.width = Math.round(plot.width * this.ratio);
    canvas.height = Math.round(plot.height * this.ratio);
    const style = { left: plot.left, top: plot.top, width: plot.width, height: plot.height };
    for (const [name, value] of Object.entries(style)) canvas.style[name] = `${value}px`;
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) {
      node.setAttribute(name, value);
    }
    node.setAttribute("font-family", this.theme.font);
  }

  // The box of a cell in the SVG.
  place(step, layer) {
    const { left, top, width, height } = this.plot;
    const { from, to, low, high } = this.box;
    const [w, h] = [width / (to - from), height / (high - low)];
    return { x: left + (step - from) * w, y: top + (high - 1 - layer) * h, w, h };
  }

  holds({ step, layer }) {
    const { from, to, low, high } = this.box;
    return step >= from && step < Math.min(to, this.table.n) && layer >= low && layer < high;
  }

  cellAt(x, y) {
    if (!this.box) return null;
    const { left, top, width, height } = this.plot;
    const { from, to, low, high } = this.box;
    const step = from + Math.floor(((x - left) / width) * (to - from));
    const layer = high - 1 - Math.floor(((y - top) / height) * (high - low));
    const cell = { step, layer };
    return this.holds(cell) ? cell : null;
  }

  // True where several tokens have to share a pixel.
  get crowded() {
    return this.canvas.width < this.box.to - this.box.from;
  }

  point(cell) {
    this.show(this.cursor, cell, true);
  }

  choose(cell) {
    this.show(this.chosen, cell, false);
  }

  show(group, cell, dashed) {
    if (!group) return;
    const shown = Boolean(cell) && this.holds(cell);
    group.setAttribute("visibility", shown ? "visible" : "hidden");
    if (!shown) return;
    const place = this.place(cell.step, cell.layer);
    const special = this.scale.special(this.table.value(cell.step, cell.layer));
    const small = Math.min(place.w, place.h) < ROOM;
    const parts = { cell: place, plot: this.plot, theme: this.theme, dashed };
    group.replaceChildren(...outline({ ...parts, special: small && special }));
  }

  describe(variant) {
    const { scale, table } = this;
    const { title, symbol } = scale.about;
    const size = `${table.layers} layers by ${table.n} tokens`;
    const what = `Heat map: ${title}, ${symbol}, of ${variant}; ${size}.`;
    if (scale.empty) return `${what} No value.`;
    const counts = scale.legend().map(({ words, count }) => `${count} ${words}`);
    const range = scale.extremes && `From ${scale.extremes.map(exact).join(" to ")}.`;
    return [what, range, counts.length ? `Cells: ${counts.join(", ")}.` : ""].filter(Boolean).join(" ");
  }

  // Everything as vectors, for a file.
  drawing() {
    const { box, table, scale } = this;
    const paths = new Map();
    for (let step = box.from; step < Math.min(box.to, table.n); step += 1) {
      for (let layer = box.low; layer < box.high; layer += 1) {
        const fill = scale.colour(table.value(step, layer));
        const { x, y, w, h } = this.place(step, layer);
        const cell = `M${x.toFixed(2)},${y.toFixed(2)}h${w.toFixed(2)}v${h.toFixed(2)}h${(-w).toFixed(2)}z`;
        if (fill !== "none") paths.set(fill, (paths.get(fill) ?? "") + cell);
      }
    }
    const cells = svg("g", { "shape-rendering": "crispEdges" });
    for (const [fill, d] of paths) cells.append(svg("path", { fill, d }));
    const marks = svg("g");
    for (const { x, y, r, special, letter } of this.marks) {
      if (letter) marks.append(label(x, y + 4, letter, { fill: "#fff", size: 11, weight: 700 }));
      else marks.append(...mark(special, x, y, r));
    }
    const drawing = this.node.cloneNode(true);
    drawing.prepend(cells, marks);
    return drawing;
  }
}
