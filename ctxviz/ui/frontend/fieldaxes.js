// The axes, the colour bar and the outlines around a map of layers x tokens, as SVG.

import { label } from "./axes.js";
import { SPECIAL } from "./fieldscale.js";
import { svg } from "./look.js";
import { roundSteps } from "./words.js";

export const MARGIN = { left: 50, top: 14 };
const BAR = { gap: 14, width: 15, tick: 4, text: 7, size: 13, end: 4 };
const FEW = 64;
const ROOM = { text: 17, number: 50, spelled: 78, numbered: 50, compact: 36 };
// Of a token's text along the axis, in px.
const LONGEST = 74;
const ruler = document.createElement("canvas").getContext("2d");

// Few tokens are spelled along the axis, of many their numbers are written, as where there is little room.
export function spelled({ from, to }, compact) {
  return !compact && to - from <= FEW;
}

// The height under the cells.
export function foot(box, compact) {
  if (compact) return ROOM.compact;
  return spelled(box) ? ROOM.spelled : ROOM.numbered;
}

// The width beside the cells: as much as the colour bar and its longest label take.
export function barRoom(scale, height, font) {
  if (!hasBar(scale)) return BAR.end;
  ruler.font = `${BAR.size}px ${font}`;
  const widths = scale.ticks(17 / height).map(([, text]) => ruler.measureText(text).width);
  return BAR.gap + BAR.width + BAR.text + Math.ceil(Math.max(...widths)) + BAR.end;
}

export function hasBar(scale) {
  return !scale.empty && scale.about.kind !== "category";
}

// A token's text short enough for an axis; what isolates its direction stays closed.
function brief(text, font) {
  ruler.font = `14px ${font}`;
  if (ruler.measureText(text).width <= LONGEST) return text;
  const pieces = [...text];
  const isolated = pieces[0] === "\u2068" ? "\u2069" : "";
  const cut = (n) => pieces.slice(0, n).join("") + "…";
  let n = pieces.length;
  while (n > 1 && ruler.measureText(cut(n)).width > LONGEST) n -= 1;
  return cut(n) + isolated;
}

// Whole numbers of a range at round distances, about `most` of them.
function within(from, to, most) {
  const every = roundSteps(to - from, Math.max(2, most))[1] ?? 1;
  const ticks = [];
  for (let k = Math.ceil(from / every) * every; k < to; k += every) ticks.push(k);
  return ticks;
}

// `place(step, layer)` is the box of a cell, { x, y, w, h }; `texts(step)` a token's text or nothing.
export function axes({ plot, box, texts, theme, place, compact }) {
  const { left, top, width, height } = plot;
  const bottom = top + height;
  const group = svg("g", { fill: "none" });
  const frame = { x: left - 0.5, y: top - 0.5, width: width + 1, height: height + 1, stroke: theme.line };
  group.append(svg("rect", frame));
  const words = spelled(box, compact);
  for (const step of within(box.from, box.to, width / (words ? ROOM.text : ROOM.number))) {
    const { x, w } = place(step, box.low);
    const at = (x + w / 2).toFixed(1);
    group.append(svg("line", { x1: at, x2: at, y1: bottom, y2: bottom + 4, stroke: theme.faint }));
    if (!words) group.append(label(at, bottom + 19, String(step), { fill: theme.soft }));
    else group.append(turned(at, bottom + 12, brief(texts(step), theme.font), -50, theme, "end"));
  }
  if (compact) group.append(label(left, bottom + 33, "token →", { fill: theme.soft, anchor: "start" }));
  else if (!words) group.append(label(left + width / 2, bottom + 40, "token", { fill: theme.soft }));
  for (const layer of within(box.low, box.high, height / 28)) {
    const { y, h } = place(box.from, layer);
    const at = y + h / 2;
    group.append(svg("line", { x1: left - 4, x2: left, y1: at, y2: at, stroke: theme.faint }));
    group.append(label(left - 8, at + 5, String(layer), { anchor: "end", fill: theme.soft }));
  }
  group.append(turned(14, top + height / 2, "layer", -90, theme, "middle"));
  return group;
}

function turned(x, y, text, angle, theme, anchor) {
  const node = label(0, 0, text, { anchor, fill: theme.soft });
  node.setAttribute("transform", `translate(${x} ${y}) rotate(${angle})`);
  return node;
}

export function colourBar({ plot, scale, theme }) {
  const { left, top, width, height } = plot;
  const x = left + width + BAR.gap;
  const group = svg("g");
  for (let i = 0; i < 64; i += 1) {
    const y = (top + (height * (63 - i)) / 64).toFixed(2);
    const fill = scale.colours[Math.round((i / 63) * 255)];
    group.append(svg("rect", { x, y, width: BAR.width, height: (height / 64 + 0.6).toFixed(2), fill }));
  }
  for (const [share, text] of scale.ticks(17 / height)) {
    const y = top + height * (1 - share);
    group.append(
      svg("line", { x1: x + BAR.width, x2: x + BAR.width + BAR.tick, y1: y, y2: y, stroke: theme.faint }),
    );
    const style = { anchor: "start", fill: theme.soft, size: BAR.size };
    group.append(label(x + BAR.width + BAR.text, y + 5, text, style));
  }
  return group;
}

// A cell's outline, its places on both axes, and its mark where the map itself has none.
export function outline({ cell, plot, theme, dashed, special }) {
  const { x, y, w, h } = cell;
  const bottom = plot.top + plot.height;
  const grown = { x: x - 1.5, y: y - 1.5, width: w + 3, height: h + 3, fill: "none" };
  const [cx, cy] = [x + w / 2, y + h / 2];
  const at = `M${cx},${bottom + 1}l4,7h-8zM${plot.left - 1},${cy}l-7,-4v8z`;
  const inner = dashed ? { "stroke-dasharray": "3 2" } : {};
  const nodes = [
    svg("rect", { ...grown, stroke: "#000", "stroke-width": 4 }),
    svg("rect", { ...grown, stroke: "#fff", "stroke-width": 2, ...inner }),
    svg("path", { d: at, fill: dashed ? theme.faint : theme.ink }),
  ];
  return special ? [...nodes, ...mark(special, cx, cy, 4)] : nodes;
}

// The mark of a special value, fit to show on every colour.
export function mark(special, x, y, r) {
  const [, path, filled] = SPECIAL[special];
  const shape = { d: path(x, y, r), fill: filled ? "#fff" : "none" };
  return [
    svg("path", { ...shape, stroke: "#000", "stroke-width": 4 }),
    svg("path", { ...shape, stroke: "#fff", "stroke-width": 1.6 }),
  ];
}
