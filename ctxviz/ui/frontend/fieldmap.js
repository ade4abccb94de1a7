// One map of layers x tokens: a canvas of cells, and an SVG above it with axes, colour bar and outlines.

import { label } from "./axes.js";
import { axes, colourBar, foot, mark, MARGIN, outline } from "./fieldaxes.js";
import { exact, SPECIAL } from "./fieldscale.js";
import { el, svg } from "./look.js";

const MOST_MARKS = 600;
const ROOM = { mark: 8, dash: 11, letter: 11 };

export class FieldMap {
  constructor() {
    this.canvas = el("canvas");
    this.node = svg("svg", { role: "img" });
    this.frame = el("div", { class: "field", tabindex: "0", role: "application" }, this.canvas, this.node);
  }

  get plot() {
    const { left, right, top } = MARGIN;
    return { left, top, width: this.width - left - right, height: this.cells };
  }

  // `frame` holds table, scale, box, texts, theme and width; only what changed is painted again.
  draw(frame) {
    const { table, scale, box, theme, width } = frame;
    const now = [table, table.n, scale, theme, width, Object.values(box).join()];
    if (this.last && now.every((value, i) => value === this.last[i])) return;
    this.last = now;
    Object.assign(this, frame);
    this.cells = Math.min(560, Math.max(240, table.layers * 17));
    this.height = MARGIN.top + this.cells + foot(box);
    this.resize();
    this.paint();
    this.cursor = svg("g", { visibility: "hidden" });
    this.chosen = svg("g", { visibility: "hidden" });
    const parts = { plot: this.plot, box, texts: frame.texts, theme, scale, width };
    this.node.replaceChildren(axes({ ...parts, place: (step, layer) => this.place(step, layer) }));
    if (!scale.empty && scale.about.kind !== "category") this.node.append(colourBar(parts));
    this.node.append(this.chosen, this.cursor);
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

  paint() {
    const { canvas, box, table } = this;
    const context = canvas.getContext("2d");
    const share = Math.min(1, Math.max(0, (table.n - box.from) / (box.to - box.from)));
    context.fillStyle = context.createPattern(this.hatch(), "repeat");
    context.fillRect(0, 0, canvas.width * share, canvas.height);
    context.imageSmoothingEnabled = false;
    const picture = this.picture(canvas.width, box.high - box.low);
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    this.marks = this.visibleMarks();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.translate(-this.plot.left, -this.plot.top);
    for (const { x, y, r, special, letter } of this.marks) {
      if (letter) write(context, letter, x, y, this.theme.font);
      else stroke(context, special, x, y, r);
    }
  }

  // Quiet stripes under cells without a value.
  hatch() {
    const tile = el("canvas", { width: 8, height: 8 });
    const context = tile.getContext("2d");
    context.fillStyle = this.theme.background;
    context.fillRect(0, 0, 8, 8);
    context.strokeStyle = this.theme.faint;
    context.lineWidth = 1;
    for (const shift of [-8, 0, 8]) {
      context.moveTo(shift, 8);
      context.lineTo(shift + 8, 0);
    }
    context.stroke();
    return tile;
  }

  // One row of pixels per layer; where tokens share a pixel, the one with the largest rank.
  picture(width, rows) {
    const { table, scale, box } = this;
    const picture = el("canvas", { width, height: rows });
    const image = new ImageData(width, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const span = box.to - box.from;
    for (let x = 0; x < width; x += 1) {
      const first = box.from + Math.floor((x * span) / width);
      const last = Math.max(first + 1, box.from + Math.floor(((x + 1) * span) / width));
      for (let row = 0; row < rows; row += 1) {
        const layer = box.high - 1 - row;
        let value = table.value(first, layer);
        for (let step = first + 1; step < last; step += 1) {
          const other = table.value(step, layer);
          if (scale.rank(other) > scale.rank(value)) value = other;
        }
        pixels[row * width + x] = scale.pixel(value);
      }
    }
    picture.getContext("2d").putImageData(image, 0, 0);
    return picture;
  }

  // The marks for which there is room: all in large cells, in small ones only as long as they are few.
  visibleMarks() {
    const { table, scale, box } = this;
    const { w, h } = this.place(box.from, box.low);
    const room = Math.min(w, h);
    const found = [];
    this.unmarked = 0;
    for (let step = box.from; step < Math.min(box.to, table.n); step += 1) {
      for (let layer = box.low; layer < box.high; layer += 1) {
        const value = table.value(step, layer);
        const special = scale.special(value);
        const letter = room >= ROOM.letter ? scale.letter(value) : "";
        if (!letter && (!special || (special === "missing" && room < ROOM.dash))) continue;
        const cell = this.place(step, layer);
        const [x, y] = [cell.x + w / 2, cell.y + h / 2];
        const r = Math.max(2.6, Math.min(5, 0.3 * room));
        found.push({ x, y, r, letter, special });
      }
    }
    if (room >= ROOM.mark || found.length <= MOST_MARKS) return found;
    this.unmarked = found.length;
    return [];
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
    const small = Math.min(place.w, place.h) < ROOM.dash;
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

function stroke(context, special, x, y, r) {
  const [, outlined, filled] = SPECIAL[special];
  const path = new Path2D(outlined(x, y, r));
  for (const [colour, width] of [
    ["#000", 4],
    ["#fff", 1.6],
  ]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke(path);
  }
  context.fillStyle = "#fff";
  if (filled) context.fill(path);
}

function write(context, letter, x, y, font) {
  context.font = `700 11px ${font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineWidth = 3;
  context.strokeStyle = "#000";
  context.strokeText(letter, x, y + 0.5);
  context.fillStyle = "#fff";
  context.fillText(letter, x, y + 0.5);
}
