// The cells of one map on its canvas: painted whole once, and then only the columns that are new.

import { SPECIAL } from "./fieldscale.js";
import { el } from "./look.js";

const MOST_MARKS = 600;
const ROOM = { mark: 8, dash: 11, letter: 11 };
// How far a mark can reach out of its place, in px.
const REACH = 12;

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
  }

  // `view` holds table, scale, box, theme, plot, ratio, and place(step, layer); the canvas is empty.
  paint(view) {
    this.view = view;
    this.context = this.canvas.getContext("2d");
    this.hatching = this.context.createPattern(hatch(view.theme), "repeat");
    const { w, h } = view.place(view.box.from, view.box.low);
    this.room = Math.min(w, h);
    this.marks = [];
    this.found = 0;
    this.step = view.box.from;
    this.collect();
    this.fill(0, this.canvas.width);
  }

  // Paint what the table gained since.
  extend() {
    const { table, box } = this.view;
    const fresh = this.step;
    if (fresh >= Math.min(box.to, table.n)) return;
    const marked = this.marked;
    this.collect();
    const gone = marked && !this.marked;
    const reach = Math.ceil(REACH * this.view.ratio);
    const { width } = this.canvas;
    const [left, right] = [this.edge(fresh) - reach, this.edge(this.step) + reach];
    this.fill(gone ? 0 : Math.max(0, Math.floor(left)), gone ? width : Math.min(width, Math.ceil(right)));
  }

  // Marks are drawn in large cells, in small ones only as long as they are few.
  get marked() {
    return this.room >= ROOM.mark || this.found <= MOST_MARKS;
  }

  // How many marks there is no room for.
  get unmarked() {
    return this.marked ? 0 : this.found;
  }

  // Where the column of a step begins on the canvas.
  edge(step) {
    const { from, to } = this.view.box;
    return ((step - from) / (to - from)) * this.canvas.width;
  }

  // Find the marks of the columns that were not read before.
  collect() {
    const { table, scale, box } = this.view;
    const end = Math.max(this.step, Math.min(box.to, table.n));
    for (; this.step < end; this.step += 1) {
      for (let layer = box.low; layer < box.high; layer += 1) {
        const value = table.value(this.step, layer);
        const special = scale.special(value);
        const letter = this.room >= ROOM.letter ? scale.letter(value) : "";
        if (!letter && (!special || (special === "missing" && this.room < ROOM.dash))) continue;
        this.found += 1;
        if (this.marked) this.marks.push(this.mark(layer, special, letter));
      }
    }
    if (!this.marked) this.marks = [];
  }

  mark(layer, special, letter) {
    const { x, y, w, h } = this.view.place(this.step, layer);
    const r = Math.max(2.6, Math.min(5, 0.3 * this.room));
    return { x: x + w / 2, y: y + h / 2, r, letter, special };
  }

  // Paint the pixels from `left` to `right`, as they would be in a whole painting.
  fill(left, right) {
    const { context, canvas, view } = this;
    const { box, plot, ratio, theme } = view;
    context.save();
    context.beginPath();
    context.rect(left, 0, right - left, canvas.height);
    context.clip();
    context.clearRect(left, 0, right - left, canvas.height);
    context.fillStyle = this.hatching;
    context.fillRect(0, 0, this.edge(this.step), canvas.height);
    context.imageSmoothingEnabled = false;
    const rows = box.high - box.low;
    context.drawImage(this.picture(left, right, rows), left, 0, right - left, canvas.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.translate(-plot.left, -plot.top);
    const reached = ({ x }) => (x - plot.left) * ratio >= left - REACH * ratio;
    for (const { x, y, r, special, letter } of this.marks.slice(this.firstMark(reached))) {
      if (letter) write(context, letter, x, y, theme.font);
      else stroke(context, special, x, y, r);
    }
    context.restore();
  }

  // Marks lie in the order of their steps; those at the end are the nearest to what is new.
  firstMark(reached) {
    let first = this.marks.length;
    while (first > 0 && reached(this.marks[first - 1])) first -= 1;
    return first;
  }

  // One row of pixels per layer; where tokens share a pixel, the one with the largest rank.
  picture(left, right, rows) {
    const { table, scale, box } = this.view;
    const { width } = this.canvas;
    const picture = el("canvas", { width: right - left, height: rows });
    const image = new ImageData(right - left, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const span = box.to - box.from;
    for (let x = left; x < right; x += 1) {
      const first = box.from + Math.floor((x * span) / width);
      const last = Math.max(first + 1, box.from + Math.floor(((x + 1) * span) / width));
      for (let row = 0; row < rows; row += 1) {
        const layer = box.high - 1 - row;
        let value = table.value(first, layer);
        for (let step = first + 1; step < last; step += 1) {
          const other = table.value(step, layer);
          if (scale.rank(other) > scale.rank(value)) value = other;
        }
        pixels[row * (right - left) + x - left] = scale.pixel(value);
      }
    }
    picture.getContext("2d").putImageData(image, 0, 0);
    return picture;
  }
}

// Quiet stripes under cells without a value.
function hatch(theme) {
  const tile = el("canvas", { width: 8, height: 8 });
  const context = tile.getContext("2d");
  context.fillStyle = theme.background;
  context.fillRect(0, 0, 8, 8);
  context.strokeStyle = theme.faint;
  context.lineWidth = 1;
  for (const shift of [-8, 0, 8]) {
    context.moveTo(shift, 8);
    context.lineTo(shift + 8, 0);
  }
  context.stroke();
  return tile;
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
