// The page's parts, empty, and its legends.

import { referenceStyle } from "./chart.js";
import { SHADES } from "./strip.js";
import { dashes, el, svg, symbolPath } from "./look.js";

export function build(charts, heat, strip) {
  const parts = {
    headline: el("h2", { class: "headline" }),
    detail: el("p", { class: "detail" }),
    status: el("span", { class: "status-words" }),
    bar: el("progress", { class: "bar", max: 1, "aria-label": "Progress" }),
    message: el("p", { class: "message" }),
    notes: el("div", { class: "notes", hidden: "" }),
    alarms: el("section", { class: "alarms", "aria-label": "What deserves a look", hidden: "" }),
    spoken: el("div", { class: "spoken", role: "status", "aria-live": "polite" }),
    prompt: el("div", { class: "prompt-chips" }),
    promptSummary: el("summary"),
    legend: el("div", { class: "legend" }),
    metric: el("select", { "aria-label": "The heat map shows" }),
    variant: el("select", { "aria-label": "The heat map is of" }),
    fieldCaption: el("p", { class: "caption" }),
    fieldTitle: el("h3"),
    special: el("div", { class: "legend" }),
    tip: el("div", { class: "tip", hidden: "" }),
  };
  parts.promptBox = el("details", { class: "prompt" }, parts.promptSummary, parts.prompt);
  parts.writtenHead = el("div", { class: "head" }, el("h3", {}, "What was written"));
  parts.written = section("written", parts.writtenHead, strip.node, shadeKey());
  parts.charts = section("charts");
  parts.plots = charts.map((chart) => {
    const { title, caption } = chart.about;
    const keys = `${title}; the left and right arrow keys move over the tokens, Enter picks one`;
    const plot = el("div", { class: "plot", tabindex: "0", role: "group", "aria-label": keys }, chart.node);
    const head = el("div", { class: "head" }, el("h3", {}, title));
    const figure = el("figure", {}, head, el("figcaption", { class: "caption" }, caption), plot);
    parts.charts.append(figure);
    return { plot, head, figure };
  });
  parts.figures = section("figures", parts.charts, parts.legend);
  heat.frame.setAttribute("tabindex", "0");
  heat.frame.setAttribute("role", "group");
  heat.frame.setAttribute("aria-label", "Heat map; the arrow keys move over the cells, Enter picks one");
  parts.fieldHead = el("div", { class: "head" }, parts.fieldTitle);
  const choices = el(
    "div",
    { class: "choices" },
    el("label", {}, "Shows ", parts.metric),
    el("label", {}, "of ", parts.variant),
  );
  parts.field = section("layers", parts.fieldHead, parts.fieldCaption, choices, heat.frame, parts.special);
  const state = el("div", { class: "state" }, parts.status, parts.bar);
  parts.view = el("div", { class: "view" }, parts.headline, parts.detail, state, parts.message);
  parts.view.append(parts.notes, parts.alarms);
  parts.view.append(parts.promptBox, parts.written, parts.figures, parts.field, parts.spoken, parts.tip);
  return parts;
}

function section(name, ...children) {
  return el("section", { class: name }, ...children);
}

function shadeKey() {
  const key = el("div", { class: "legend" }, el("span", {}, "Line under a token: largest TVD"));
  SHADES.forEach(([, words], i) =>
    key.append(el("span", { class: "key" }, el("i", { class: `shade${i}` }), words)),
  );
  key.append(
    el("span", { class: "key" }, el("b", { class: "mark" }, "✗"), "another token"),
    el("span", { class: "key" }, el("b", { class: "mark" }, "≈"), "a tie inside the noise floor"),
  );
  return key;
}

// [{ swatch: () => SVG group 36 wide, text }] of the lines that are drawn.
export function legendEntries(source, charts, theme) {
  const { look } = source.run;
  const variants = look.variants.map(({ label, color, dash, symbol }) => {
    const fill = symbol.endsWith("-open") ? theme.background : color;
    const mark = { d: symbolPath(symbol, 18, 0, 4), fill, stroke: color, "stroke-width": 1.5 };
    return { text: label, swatch: () => sample({ stroke: color, "stroke-dasharray": dashes(dash) }, mark) };
  });
  const seen = new Map();
  for (const chart of charts.filter((one) => one.shownIn(source))) {
    for (const [text, kind, dtype] of chart.references(source)) {
      const line = { stroke: theme.soft, ...referenceStyle(source, kind, dtype) };
      seen.set(text, { text, swatch: () => sample(line) });
    }
  }
  return [...variants, ...seen.values()];
}

function sample(line, mark) {
  const group = svg("g", {}, svg("line", { x1: 1, x2: 35, y1: 0, y2: 0, "stroke-width": 2.4, ...line }));
  if (mark) group.append(svg("path", mark));
  return group;
}

export function drawLegend(node, entries) {
  node.replaceChildren(
    ...entries.map(({ swatch, text }) => {
      const picture = svg(
        "svg",
        { width: 36, height: 14, viewBox: "0 -7 36 14", "aria-hidden": "true" },
        swatch(),
      );
      return el("span", { class: "key" }, picture, text);
    }),
  );
}
