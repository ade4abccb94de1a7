// One map of layers x tokens: a canvas of cells, and an SVG above it with axes, colour bar and outlines.

import { label } from "./axes.js";
import { axes, barRoom, colourBar, foot, hasBar, mark, MARGIN, outline, spelled } from "./fieldaxes.js";
import { Painter } from "./fieldpaint.js";
import { exact } from "./fieldscale.js";
import { el, svg } from "./look.js";

// Below this cells are too small for a mark of their own.
const ROOM = 11;
// A window lower than this shows a map and what is behind its cells at once, so the map takes a third of it.
const LOW_WINDOW = 900;
// What growth alone changes is not drawn anew more often than this, in ms, while a run is at work.
const PATIENCE = 500;

// The height of the cells, in px: for each layer 17, in a low window less but at least 6.
function tall(layers) {
  const { innerHeight } = window;
  const most = innerHeight < LOW_WINDOW ? Math.max(6 * layers, innerHeight / 3) : 560;
  return Math.round(Math.min(560, Math.max(200, Math.min(17 * layers, most))));
}

export class FieldMap {
  constructor() {
    this.canvas = el("canvas");
    this.cellsOn = new Painter(this.canvas);
    this.node = svg("svg", { role: "img" });
    this.frame = el("div", { class: "field", tabindex: "0", role: "application" }, this.canvas, this.node);
  }

  get plot() {
    const { left, top } = MARGIN;
    return { left, top, width: Math.max(1, this.width - left - this.right), height: this.cells };
  }

  // `frame` holds table, scale, box, whole, texts, theme, width, and where there is little room the whole map's
  // height: its axis is then short. New columns are added to what is there;
  // all of it is painted again where something else changed, but for a run at work (`busy`) that only grew not
  // too often: until then `late` is true. True if anything was drawn.
  draw(frame, busy = false) {
    const { table, scale, box, whole, theme, width, room } = frame;
    const now = [table, scale, theme, width, room, box.from, whole || box.to, box.low, box.high];
    const grew = this.last && now.every((value, i) => value === this.last[i]);
    this.late = false;
    if (grew && this.box.to === box.to && this.look === this.lookOf(scale)) return this.extend(frame);
    this.late = grew && busy && performance.now() - this.paintedAt < PATIENCE;
    if (this.late) return false;
    this.last = now;
    [this.painted, this.paintedAt] = [table.n, performance.now()];
    Object.assign(this, frame);
    const under = foot(box, room);
    this.cells = room ? room - MARGIN.top - under : tall(table.layers);
    this.height = MARGIN.top + this.cells + under;
    this.right = barRoom(scale, this.cells, theme.font);
    this.resize();
    this.look = this.lookOf(scale);
    this.cellsOn.paint(this);
    this.cursor = svg("g", { visibility: "hidden" });
    this.chosen = svg("g", { visibility: "hidden" });
    this.axes = this.drawAxes();
    this.node.replaceChildren(this.axes);
    if (hasBar(scale)) this.node.append(colourBar({ plot: this.plot, scale, theme }));
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
    if (spelled(this.box, this.room)) {
      const axes = this.drawAxes();
      this.axes.replaceWith(axes);
      this.axes = axes;
    }
    return true;
  }

  drawAxes() {
    const { plot, box, texts, theme, room } = this;
    const place = (step, layer) => this.place(step, layer);
    return axes({ plot, box, texts, theme, place, compact: Boolean(room) });
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

  // The cell under a point of the SVG, or null.
  cellAt(x, y) {
    if (!this.box) return null;
    const { left, top, width, height } = this.plot;
    if (x < left || x >= left + width || y < top || y >= top + height) return null;
    const cell = this.cellNear(x, y);
    return cell.step < this.table.n ? cell : null;
  }

  // The cell under a point of the plot, which may be of a token to come.
  cellNear(x, y) {
    const { left, top, width, height } = this.plot;
    const { from, to, low, high } = this.box;
    const step = from + Math.floor(((x - left) / width) * (to - from));
    return { step, layer: high - 1 - Math.floor(((y - top) / height) * (high - low)) };
  }

  // Show what a drag spans, { xs, ys }; nothing for null.
  band(span) {
    this.banded?.remove();
    this.banded = null;
    if (!span) return;
    const [x, y] = [Math.min(...span.xs), Math.min(...span.ys)];
    const size = { width: Math.abs(span.xs[1] - span.xs[0]), height: Math.abs(span.ys[1] - span.ys[0]) };
    const look = { x, y, ...size, fill: "#fff", "fill-opacity": 0.25, stroke: "#000", "stroke-width": 1 };
    this.banded = svg("rect", look);
    this.node.append(this.banded);
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
    const counts = scale.legend().map(({ words, count }) => `${count} ${words}`);
    if (scale.empty && !counts.length) return `${what} No value.`;
    const range = !scale.empty && scale.extremes && `From ${scale.extremes.map(exact).join(" to ")}.`;
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
