// What a line chart shows, as shapes and labels, made whole from the data at every call.

import { crossPath } from "./look.js";
import { dashList, markShape, tenth, widthOf, wrapped } from "./pen.js";
import { extentOf, isLost, isNumber, rangeOf, Scale, stepTicks, valueTicks } from "./linescale.js";
import { counted } from "./words.js";

const MARKERS = 16;
const LEAST_GAP = 26;
const RIGHT = 16;

// Lines and references as curves: { label, values, mark, said, reference, look }. Where the data do not say,
// references that share a dash differ in its gaps, and every other one is thinner and as dark as the text.
export function curvesOf({ lines, references }, theme) {
  const drawn = lines.map(({ label, color, dash, symbol, values, mark, said }) => {
    const look = { stroke: color, width: 2.2, dash: dashList(dash), symbol, background: theme.background };
    return { label, values, mark: mark ?? (() => ""), said: said ?? (() => ""), reference: false, look };
  });
  const floors = references.map(({ label, color, dash, width, values }, i) => {
    const alike = references.slice(0, i).filter((other) => other.dash === dash).length;
    const lengths = dashList(dash).map((length, k) => (k % 2 ? length * (1 + alike) : length));
    const stroke = color ?? (i % 2 ? theme.ink : theme.soft);
    const look = { stroke, width: width ?? (i % 2 ? 1.6 : 2.4), dash: lengths };
    return { label, values, mark: () => "", said: () => "", reference: true, look };
  });
  return [...drawn, ...floors];
}

// The part of the axes that is shown, as a Scale takes it; `ends` are the values zoomed to, null for all.
export function viewOf(data, curves, log, zoom) {
  const extent = extentOf(curves, data.n, log);
  const [least, most] = rangeOf(extent, log);
  const view = { log, low: least, high: most, from: 0, to: Math.max(2, data.domain, data.n), whole: !zoom };
  view.ends = [null, null];
  const { zero, negative, lost } = extent;
  Object.assign(view, { zero, negative, lost });
  if (!zoom) return view;
  if (zoom.from < view.to) [view.from, view.to] = [zoom.from, Math.min(zoom.to, view.to)];
  const { low, high } = zoom;
  if (zoom.of !== data.about.key || zoom.log !== log || (low === null && high === null)) return view;
  // null: up to the end of the axis, with the row beside it.
  return Object.assign(view, {
    ends: [low, high],
    low: low ?? Math.min(least, high / 2),
    high: high ?? Math.max(most, low * 2),
    zero: zero && low === null,
    lost: lost && high === null,
  });
}

// `state`: { hidden, log, zoom }; `at`: { cursor, drag }, the token pointed at and a dragged rectangle.
export function pictureOf(data, frame, state, at = {}) {
  const { width, height, theme } = frame;
  const text = { size: frame.compact ? 12.5 : 14, font: theme.font, theme };
  const curves = curvesOf(data, theme);
  const shown = curves.filter(({ label }) => !state.hidden.has(label));
  const view = viewOf(data, shown, state.log ?? data.scale !== "linear", state.zoom);
  // Where room is little, "token" stands beside the numbers of the tokens.
  const beside = frame.compact && view.whole;
  const title = wrapped(data.about.axis, width - 12, text.size, theme.font);
  const { scale, ticks } = layout(view, title, beside, text, frame);
  const { left, right, top, bottom } = scale.box;
  // A line on the edge of the plot keeps its width.
  const clip = { left: left - 2, right: right + 2, top: top - 2, bottom: bottom + 2 };
  const picture = { width, height, inside: scale.box, clip, scale, curves, shown, shapes: [], labels: [] };
  addTitle(picture, title, text);
  addValueTicks(picture, ticks, text);
  picture.marks = addCurves(picture, data.n, theme);
  addStepAxis(picture, frame.selected < data.n ? frame.selected : null, text);
  addStepTitle(picture, stepWords(data, picture), beside, text);
  if (!shown.length) addNotice(picture, text);
  addPointer(picture, data.n, at, theme);
  return picture;
}

// The axes on their place: as much room beside the plot as the words there need.
function layout(view, title, beside, { size, font }, { width, height }) {
  const [top, below] = [title.length * (size + 5) + 8, size * (beside ? 1.6 : 3) + 2];
  const box = { left: 0, right: width - RIGHT, top, bottom: height - below };
  const scale = new Scale(view, box);
  const ticks = rows(scale);
  const words = [...ticks.map(([, text]) => text), ...(beside ? ["token"] : [])];
  box.left = Math.ceil(Math.max(...words.map((word) => widthOf(word, size, font)))) + 14;
  return { scale, ticks };
}

function addTitle({ labels }, title, { size, theme }) {
  const about = { x: 4, anchor: "start", fill: theme.soft, size, role: "axis-title" };
  title.forEach((text, i) => labels.push({ ...about, text, y: size + 2 + i * (size + 5) }));
}

// Where lines run across: [height, words], the rows beside the axis included.
function rows(scale) {
  const most = Math.max(2, Math.floor((scale.bottom - scale.top) / LEAST_GAP));
  const ticks = valueTicks(scale, most).map(([value, words]) => [scale.y(value), words, ""]);
  if (scale.zero) ticks.push([scale.y(0), scale.negative ? "≤ 0" : "0", "beside"]);
  if (scale.lost) ticks.push([scale.y(Infinity), "no number", "beside"]);
  return ticks;
}

function addValueTicks({ shapes, labels, inside }, ticks, { size, theme }) {
  for (const [y, text, beside] of ticks) {
    const line = { d: `M${inside.left},${Math.round(y) + 0.5}H${inside.right}`, stroke: theme.line };
    shapes.push(beside ? { ...line, dash: [2, 3] } : line);
    const at = { x: inside.left - 8, y: y + size * 0.35, anchor: "end", fill: theme.soft };
    labels.push({ ...at, text, size, role: `value-tick ${beside}`.trim() });
  }
}

// The words under the horizontal axis: what part is shown, and how much of that part lies outside.
function stepWords({ n }, { scale, shown }) {
  if (scale.whole) return "token";
  let outside = 0;
  for (const { values } of shown)
    for (let step = scale.from; step < Math.min(n, scale.to); step += 1) {
      const value = values(step);
      if ((isNumber(value) || isLost(value)) && !scale.shows(value)) outside += 1;
    }
  const part = `token ${scale.from} to ${scale.to - 1}`;
  return outside ? `${part}, ${counted(outside, "value")} outside` : part;
}

// Ticks of tokens; the selected token's own number stands bold over a mark, and numbers beside it give way.
function addStepAxis({ shapes, labels, inside, scale }, selected, { size, font, theme }) {
  const y = inside.bottom + size + 4;
  const seen = selected !== null && selected >= scale.from && selected < scale.to;
  const taken = seen ? widthOf(String(selected), size, font, 700) : 0;
  for (const step of stepTicks(scale.from, scale.to, Math.max(2, (inside.right - inside.left) / 50))) {
    const [x, text] = [scale.x(step), String(step)];
    const room = (taken + widthOf(text, size, font)) / 2 + 6;
    if (seen && Math.abs(x - scale.x(selected)) < room) continue;
    shapes.push({ d: `M${tenth(x)},${inside.bottom}v4`, stroke: theme.faint });
    labels.push({ x, y, text, anchor: "middle", fill: theme.soft, size, role: "step-tick" });
  }
  if (seen) {
    const x = Math.round(scale.x(selected));
    shapes.push({ d: `M${x},${inside.top}V${inside.bottom}`, stroke: theme.ink, width: 2 });
    shapes.push({ d: `M${x},${inside.bottom - 1}l5,6h-10Z`, fill: theme.ink });
    labels.push({
      x,
      y,
      text: String(selected),
      anchor: "middle",
      fill: theme.ink,
      size,
      weight: 700,
      role: "step-tick chosen",
    });
  }
}

function addStepTitle({ labels, inside }, text, beside, { size, font, theme }) {
  const about = { text, fill: theme.soft, size, role: "step-title" };
  const y = inside.bottom + size + 4;
  if (beside) {
    labels.push({ ...about, x: inside.left - 10, y, anchor: "end" });
    return;
  }
  const half = widthOf(text, size, font) / 2 + 2;
  const middle = Math.max(half, Math.min(inside.right + RIGHT - half, (inside.left + inside.right) / 2));
  labels.push({ ...about, x: middle, y: y + size + 5, anchor: "middle" });
}

function addNotice({ labels, inside }, { size, font, theme }) {
  const words = "Every line is hidden; press a name to show it.";
  const [x, y] = [(inside.left + inside.right) / 2, (inside.top + inside.bottom) / 2];
  wrapped(words, inside.right - inside.left - 10, size, font).forEach((text, i) =>
    labels.push({ x, y: y + i * (size + 5), text, anchor: "middle", fill: theme.ink, size, role: "notice" }),
  );
}

// Add the curves, references first and marks last; tells which kinds of marks there are.
function addCurves(picture, n, theme) {
  const { shapes, scale, shown } = picture;
  const steps = [scale.from, Math.min(n, scale.to)];
  // Lines go on to the tokens just outside.
  const reach = [Math.max(0, scale.from - 1), Math.min(n, scale.to + 1)];
  const over = { differs: "", tie: "" };
  // Tokens that lie this close need thin lines; those of one px are also by far the fastest to paint.
  const most = scale.cell < 1.6 ? 1 : scale.cell < 3 ? 1.6 : Infinity;
  const lines = shown.filter(({ reference }) => !reference);
  for (const curve of [...shown.filter(({ reference }) => reference), ...lines]) {
    const { path, dots, lost } = trace(curve, scale, reach);
    const { stroke, width, dash } = curve.look;
    shapes.push({ d: path, stroke, width: Math.min(width, most), dash, clip: true });
    if (dots) shapes.push({ d: dots, fill: stroke, clip: true });
    if (lost) shapes.push({ d: lost, stroke: theme.background, width: 5 }, { d: lost, stroke, width: 2.2 });
  }
  lines.forEach((curve, k) => shapes.push(markers(curve, scale, steps, k)));
  for (const curve of lines) addMarks(over, curve, scale, steps);
  for (const d of [over.differs, over.tie].filter(Boolean))
    shapes.push({ d, stroke: theme.background, width: 5.5 }, { d, stroke: theme.ink, width: 2.2 });
  return { differs: Boolean(over.differs), tie: Boolean(over.tie), lost: scale.lost };
}

// A curve's path, dots where a value has no neighbours, and crosses where there is no number. What was not
// measured leaves a gap in a line; a reference is measured at few tokens and joined between them.
function trace({ values, reference }, scale, [from, to]) {
  let [path, dots, lost, joined, point] = ["", "", "", 0, null];
  const end = () => {
    if (joined === 1) dots += `M${point[0] - 2},${point[1]}a2,2 0 1 0 4,0a2,2 0 1 0 -4,0`;
    joined = 0;
  };
  for (let step = from; step < to; step += 1) {
    const value = values(step);
    const seen = step >= scale.from && step < scale.to;
    if (isLost(value) && seen && scale.lost) lost += crossPath(scale.x(step), scale.y(value), 4.5);
    if (!isNumber(value) || (scale.log && value <= 0 && !scale.zero)) {
      if (!reference || isLost(value)) end();
      continue;
    }
    point = [tenth(scale.x(step)), tenth(scale.y(value))];
    path += `${joined ? "L" : "M"}${point[0]},${point[1]}`;
    joined += 1;
  }
  end();
  return { path, dots, lost };
}

// A curve's own mark at about MARKERS tokens, so that lines are told apart without colour.
function markers({ values, look }, scale, [from, to], k) {
  const spacing = Math.ceil((scale.to - scale.from) / MARKERS);
  let [d, slot] = ["", -1];
  for (let step = from; step < to; step += 1) {
    const value = values(step);
    const own = Math.floor((step + spacing - ((k * 3) % spacing)) / spacing);
    if (own === slot || !isNumber(value) || !scale.shows(value)) continue;
    slot = own;
    d += markShape(look, scale.x(step), scale.y(value)).d;
  }
  return { ...markShape(look, 0, 0), d };
}

// Crosses where another token was said, waves where that was a tie, on the line itself.
function addMarks(over, { values, mark }, scale, [from, to]) {
  const radius = Math.min(5, Math.max(3, scale.cell * 0.6));
  for (let step = from; step < to; step += 1) {
    const kind = mark(step);
    const value = values(step);
    if (!kind || !isNumber(value) || !scale.shows(value)) continue;
    const [x, y] = [scale.x(step), scale.y(value)];
    over[kind] += kind === "tie" ? tiePath(x, y - 8) : crossPath(x, y, radius);
  }
}

// Which kinds of marks the shown curves have at all, in view or not.
export function marksOf(shown, n) {
  const kinds = { differs: false, tie: false, lost: false };
  for (const { values, mark } of shown)
    for (let step = 0; step < n; step += 1) {
      const value = values(step);
      if (isLost(value)) kinds.lost = true;
      else if (isNumber(value) && mark(step)) kinds[mark(step)] = true;
    }
  return kinds;
}

// The sign ≈, 11 px wide.
export function tiePath(x, y) {
  const wave = "c1.8,-3 3.6,-3 5.5,0s3.6,3 5.5,0";
  return `M${tenth(x - 5.5)},${tenth(y - 2)}${wave}M${tenth(x - 5.5)},${tenth(y + 3)}${wave}`;
}

// A thin line and dots at the token under the pointer, and the rectangle that is being dragged.
function addPointer({ shapes, inside, scale, shown }, n, { cursor, drag }, theme) {
  if (cursor !== null && cursor < n && cursor >= scale.from && cursor < scale.to) {
    const x = tenth(scale.x(cursor));
    shapes.push({ d: `M${x},${inside.top}V${inside.bottom}`, stroke: theme.faint });
    for (const { values, look } of shown) {
      const value = values(cursor);
      if (!isNumber(value) || !scale.shows(value)) continue;
      const d = `M${x - 4},${tenth(scale.y(value))}a4,4 0 1 0 8,0a4,4 0 1 0 -8,0`;
      shapes.push({ d, fill: look.stroke, stroke: theme.background, width: 1.5 });
    }
  }
  if (!drag) return;
  const d = `M${drag.left},${drag.top}H${drag.right}V${drag.bottom}H${drag.left}Z`;
  shapes.push({ d, fill: theme.ink, opacity: 0.12 }, { d, stroke: theme.ink, opacity: 0.7 });
}
