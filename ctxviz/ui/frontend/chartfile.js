// A line chart as a file of its own: title, what is shown, legend.

import { label } from "./axes.js";
import { svg } from "./look.js";
import { pictureOf } from "./linepicture.js";
import { drawing, elsewhere, sample, widthOf, wrapped } from "./pen.js";

const LEAST = { width: 640, height: 360 };
const TITLE = 17;
const LINE = 26;
const KEY = 42;
const SIGNS = { differs: "✗ another token", tie: "≈ a tie", lost: "✗ at the top: no number" };

// The text of an SVG file; it names its fonts, and is at least LEAST in size, since it is read elsewhere.
export function chartFile(data, frame, state, title) {
  const { theme } = frame;
  const [width, high] = [Math.max(LEAST.width, frame.width), Math.max(LEAST.height, frame.height)];
  const picture = pictureOf(data, { ...frame, width, height: high, compact: false }, state, { cursor: null });
  const head = wrapped(title, width - 16, TITLE, elsewhere(theme.font), 600);
  const top = 10 + head.length * (TITLE + 5);
  const rows = legendRows(picture, width, theme);
  const height = top + high + rows.length * LINE + 10;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": theme.font });
  root.append(svg("rect", { width, height, fill: theme.background }));
  head.forEach((line, i) => {
    const style = { anchor: "start", fill: theme.ink, size: TITLE, weight: 600 };
    root.append(label(8, TITLE + 5 + i * (TITLE + 5), line, style));
  });
  root.append(svg("g", { transform: `translate(0 ${top})` }, drawing(picture, "plot")));
  rows.forEach((row, i) => {
    row.setAttribute("transform", `translate(8 ${top + high + (i + 0.6) * LINE})`);
    root.append(row);
  });
  return new XMLSerializer().serializeToString(root);
}

function legendRows({ shown, marks }, width, theme) {
  const signs = Object.keys(SIGNS).filter((kind) => marks[kind]);
  const entries = [
    ...shown.map(({ label: text, look }) => ({ text, look })),
    ...signs.map((kind) => ({ text: SIGNS[kind], look: null })),
  ];
  const rows = [];
  let x = Infinity;
  for (const { text, look } of entries) {
    const start = look ? KEY : 0;
    const room = start + widthOf(text, 14, elsewhere(theme.font)) + 20;
    if (x + room > width - 8) {
      rows.push(svg("g"));
      x = 0;
    }
    const words = label(start, 5, text, { anchor: "start", fill: theme.soft });
    rows.at(-1).append(svg("g", { transform: `translate(${x} 0)` }, ...(look ? [sample(look)] : []), words));
    x += room;
  }
  return rows;
}
