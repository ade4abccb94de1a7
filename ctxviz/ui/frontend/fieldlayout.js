// The parts of the two linked maps, empty, and their legends.

import { FieldMap } from "./fieldmap.js";
import { mark } from "./fieldaxes.js";
import { el, svg } from "./look.js";

const SIDES = ["Left", "Right"];
const KEYS =
  "the arrow keys move over the cells, with Shift by ten; Home and End go to the first and last token; " +
  "plus and minus zoom, 0 shows the whole run; Enter picks a cell";

export function build() {
  const button = (words, mark) => {
    const about = { type: "button", class: "tool", title: words, "aria-label": words };
    return el("button", about, el("b", { "aria-hidden": "true" }, mark));
  };
  const parts = {
    message: el("p", { class: "message", hidden: "" }),
    zoomIn: button("Zoom in", "+"),
    zoomOut: button("Zoom out", "−"),
    whole: button("Whole run", "⤢"),
    where: el("span", { class: "where" }),
    readout: el("p", { class: "readout" }),
    spoken: el("div", { class: "spoken", role: "status", "aria-live": "polite" }),
  };
  parts.sides = SIDES.map(side);
  const tools = el("div", { class: "tools" }, parts.zoomIn, parts.zoomOut, parts.whole, parts.where);
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", "Zoom of both maps");
  const maps = el("div", { class: "maps" }, ...parts.sides.map(({ section }) => section));
  parts.shown = el("div", {}, tools, maps, parts.readout);
  parts.view = el("div", { class: "view" }, parts.message, parts.shown, parts.spoken);
  return parts;
}

function side(name) {
  const map = new FieldMap();
  map.frame.setAttribute("aria-label", `${name} heat map; ${KEYS}`);
  const number = (what) => {
    const about = { type: "number", step: "any", placeholder: "automatic", class: "end" };
    return el("input", { ...about, "aria-label": `${name} map: ${what} end of the colours` });
  };
  const parts = {
    name,
    map,
    metric: el("select", { "aria-label": `The ${name.toLowerCase()} map shows` }),
    head: el("div", { class: "head" }),
    caption: el("p", { class: "caption" }),
    least: number("lower"),
    most: number("upper"),
    wrong: el("span", { class: "wrong", role: "alert" }),
    legend: el("div", { class: "legend" }),
  };
  const row = el("div", { class: "row" }, "from", parts.least, "to", parts.most, parts.wrong);
  parts.ends = el("details", { class: "ends" }, el("summary", {}, "Colours"), row);
  parts.head.append(el("div", { class: "shows" }, parts.metric));
  const words = el("div", { class: "under" }, parts.caption, parts.ends);
  parts.section = el("section", { class: "map", "aria-label": `${name} map` }, parts.head, map.frame);
  parts.section.append(parts.legend, words);
  return parts;
}

// Legend entries with a swatch as SVG, for the page and for files.
export function legendEntries(map) {
  const { scale, table, theme } = map;
  const total = table.n * table.layers;
  return scale.legend().map((entry) => ({
    text: `${entry.words}: ${entry.count} of ${total}`,
    swatch: () => swatch(entry, theme),
  }));
}

function swatch({ name, letter, fill }, theme) {
  const box = { x: 9, y: -7, width: 18, height: 14, fill: fill || theme.background, stroke: theme.faint };
  const group = svg("g", {}, svg("rect", box));
  if (!letter) {
    group.append(...mark(name, 18, 0, 4));
    return group;
  }
  const style = { x: 18, y: 4, "text-anchor": "middle", "font-size": 11, "font-weight": 700 };
  const halo = { fill: "#fff", stroke: "#000", "stroke-width": 2.5, "paint-order": "stroke" };
  group.append(svg("text", { ...style, ...halo }, letter));
  return group;
}

// The two ends of a side's colours, and what is wrong with them.
export function drawEnds(side, about, range) {
  side.ends.classList.toggle("unused", about.kind === "category");
  // A range that is in force is seen.
  if (range.some((end) => end !== null)) side.ends.open = true;
  const wrong = usable(about, range) ? "" : wrongWords(about);
  [side.least, side.most].forEach((input, k) => {
    if (input !== input.getRootNode().activeElement) input.value = range[k] ?? "";
    input.setAttribute("aria-invalid", String(Boolean(wrong)));
  });
  if (side.wrong.textContent !== wrong) side.wrong.textContent = wrong;
}

// What a metric is called in a list.
export function naming({ kind, title, symbol }) {
  return kind === "category" ? title : `${title}, ${symbol}`;
}

// Whether a range can be drawn: its ends in order, and logarithms above 0.
export function usable(about, [least, most]) {
  const floor = about.kind === "log" ? Number.MIN_VALUE : 0;
  const fine = (end) => end === null || (Number.isFinite(end) && end >= floor);
  return fine(least) && fine(most) && (least === null || most === null || least < most);
}

function wrongWords({ kind }) {
  const above = kind === "log" ? "above 0" : "from 0 up";
  return `Use numbers ${above}, the first below the second; automatic until then.`;
}
