// Shapes and labels on a canvas or as SVG, from one list, so that a copy shows what the screen shows.
//
// A shape is { d (an SVG path), stroke, width, dash (lengths in px), fill, opacity, clip (to the plot) }.
// A label is { x, y, text, anchor, fill, size, weight, role }.

import { label } from "./axes.js";
import { el, svg, symbolPath } from "./look.js";

const NAMED = { solid: "", dash: "6 4", dot: "1 3", dashdot: "10 3 2 3", longdash: "10 4" };
const ruler = document.createElement("canvas").getContext("2d");

// "solid", "dash", "6px,4px" or "6 4" as lengths in px.
export function dashList(dash = "solid") {
  return ((NAMED[dash] ?? dash).match(/[\d.]+/g) ?? []).map(Number);
}

// A coordinate to a tenth of a px, which keeps paths short.
export const tenth = (x) => Math.round(x * 10) / 10;

// `font` is a family, or several of which the widest counts.
export function widthOf(text, size, font, weight = 400) {
  const widths = [font].flat().map((family) => {
    ruler.font = `${weight} ${size}px ${family}`;
    return ruler.measureText(text).width;
  });
  return Math.max(...widths);
}

// The families with which a file may be drawn: the page's own is not at hand outside of the page.
export function elsewhere(font) {
  return [font, "Verdana", "sans-serif"];
}

// Lines of whole words that are at most `room` wide; a longer word is broken.
export function wrapped(text, room, size, font, weight = 400) {
  const fits = (line) => widthOf(line, size, font, weight) <= room;
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (fits(longer)) lines[lines.length - 1] = longer;
    else {
      const pieces = broken(word, fits);
      if (lines.at(-1)) lines.push(...pieces);
      else lines.splice(-1, 1, ...pieces);
    }
  }
  return lines;
}

function broken(word, fits) {
  const pieces = [""];
  for (const sign of word) {
    if (!pieces.at(-1) || fits(pieces.at(-1) + sign)) pieces[pieces.length - 1] += sign;
    else pieces.push(sign);
  }
  return pieces;
}

// Paint the shapes on a canvas of width x height px, sharp on screens of any density.
export function paint(canvas, { width, height, shapes, clip }) {
  const density = window.devicePixelRatio || 1;
  const size = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  for (const shape of shapes) {
    context.save();
    if (shape.clip) {
      context.beginPath();
      context.rect(clip.left, clip.top, clip.right - clip.left, clip.bottom - clip.top);
      context.clip();
    }
    context.globalAlpha = shape.opacity ?? 1;
    context.lineWidth = shape.width ?? 1;
    context.lineJoin = "round";
    context.setLineDash(shape.dash ?? []);
    const path = new Path2D(shape.d);
    if (shape.fill) {
      context.fillStyle = shape.fill;
      context.fill(path);
    }
    if (shape.stroke) {
      context.strokeStyle = shape.stroke;
      context.stroke(path);
    }
    context.restore();
  }
}

export function labelNode({ x, y, text, anchor, fill, size, weight, role }) {
  const node = label(tenth(x), tenth(y), text, { anchor, fill, size, weight });
  if (role) node.setAttribute("class", role);
  return node;
}

function shapeNode({ d, stroke = "none", width = 1, dash = [], fill = "none", opacity = 1 }) {
  const line = { d, stroke, "stroke-width": width, "stroke-linejoin": "round", fill, opacity };
  return svg("path", dash.length ? { ...line, "stroke-dasharray": dash.join(" ") } : line);
}

// Everything as one SVG group; `name` is unique in its document.
export function drawing({ shapes, labels, clip }, name) {
  const { left, top, right, bottom } = clip;
  const window = svg("rect", { x: left, y: top, width: right - left, height: bottom - top });
  const group = svg("g", {}, svg("clipPath", { id: name }, window));
  for (const shape of shapes) {
    const node = shapeNode(shape);
    if (shape.clip) node.setAttribute("clip-path", `url(#${name})`);
    group.append(node);
  }
  group.append(...labels.map(labelNode));
  return group;
}

// The mark of a curve, filled or hollow, at a point.
export function markShape({ symbol, stroke, background }, x, y, radius = 3.6) {
  const fill = symbol.endsWith("-open") ? background : stroke;
  return { d: symbolPath(symbol, x, y, radius), fill, stroke, width: 1.5 };
}

// A curve's look on its own: a stretch of it with its mark, for legends and tooltips.
export function sample(look, wide = 34) {
  const stretch = shapeNode({ ...look, d: `M1,0H${wide - 1}` });
  return svg("g", {}, stretch, ...(look.symbol ? [shapeNode(markShape(look, wide / 2, 0))] : []));
}

export function swatch(look, wide = 34) {
  const frame = { width: wide, height: 14, viewBox: `0 -7 ${wide} 14`, "aria-hidden": "true" };
  return svg("svg", frame, sample(look, wide));
}

export const quiet = (name, words, text) =>
  el("button", { type: "button", class: name, title: words, "aria-label": words }, text);
