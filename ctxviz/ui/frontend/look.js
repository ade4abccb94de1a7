// Colours of the page's theme, the field's colour scale, marker shapes, and small DOM helpers.

const SVG = "http://www.w3.org/2000/svg";
const canvas = document.createElement("canvas").getContext("2d");

// An HTML element; text enters as text, never as markup.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function channels(colour) {
  canvas.fillStyle = "#000";
  canvas.fillStyle = colour;
  const named = canvas.fillStyle;
  if (named[0] === "#") return [1, 3, 5].map((i) => parseInt(named.slice(i, i + 2), 16));
  return named
    .match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);
}

function mix(a, b, share) {
  const [from, to] = [channels(a), channels(b)];
  return `rgb(${from.map((c, i) => Math.round(c * share + to[i] * (1 - share))).join(",")})`;
}

// The theme that Streamlit gives to `element` in its CSS variables.
export function readTheme(element) {
  const style = getComputedStyle(element);
  const given = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const background = given("--st-background-color", "#ffffff");
  const ink = given("--st-text-color", "#16181d");
  const [r, g, b] = channels(background);
  const dark = 0.3 * r + 0.59 * g + 0.11 * b < 128;
  return {
    dark,
    background,
    ink,
    soft: mix(ink, background, 0.72),
    faint: mix(ink, background, 0.4),
    line: mix(ink, background, 0.16),
    alarm: dark ? "#E8783A" : "#C04F00",
    font: given("--st-font", "sans-serif"),
  };
}

// 256 colours through the given stops.
export function colourScale(stops) {
  const points = stops.map(channels);
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (points.length - 1);
    const k = Math.min(points.length - 2, Math.floor(at));
    return `rgb(${points[k].map((c, j) => Math.round(c + (points[k + 1][j] - c) * (at - k))).join(",")})`;
  });
}

// "6px,4px" as Plotly writes it, for stroke-dasharray.
export function dashes(dash) {
  return dash === "solid" ? "none" : dash.replaceAll("px", "").replaceAll(",", " ");
}

const CORNERS = {
  square: [4, 45],
  diamond: [4, 0],
  "triangle-up": [3, -90],
  "triangle-down": [3, 90],
  pentagon: [5, -90],
  hexagon: [6, 0],
};

function polygon(corners, turn, x, y, radius) {
  let path = "";
  for (let i = 0; i < corners; i += 1) {
    const angle = ((turn + (360 * i) / corners) * Math.PI) / 180;
    const r = typeof radius === "function" ? radius(i) : radius;
    path += `${i ? "L" : "M"}${(x + r * Math.cos(angle)).toFixed(1)},${(y + r * Math.sin(angle)).toFixed(1)}`;
  }
  return path + "Z";
}

// Path of a marker that Plotly would call `symbol`, with or without "-open".
export function symbolPath(symbol, x, y, r) {
  const name = symbol.replace("-open", "");
  if (name === "star") return polygon(10, -90, x, y, (i) => (i % 2 ? r * 0.5 : r * 1.25));
  if (CORNERS[name]) return polygon(...CORNERS[name], x, y, r * 1.2);
  const left = (x - r).toFixed(1);
  return `M${left},${y.toFixed(1)}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0`;
}

export function crossPath(x, y, r) {
  const [l, t, s] = [(x - r).toFixed(1), (y - r).toFixed(1), 2 * r];
  return `M${l},${t}l${s},${s}m0,${-s}l${-s},${s}`;
}
