// Files made in the browser: a figure as SVG or PNG, its numbers as CSV.

import { label } from "./axes.js";
import { el, svg } from "./look.js";
import { elsewhere, widthOf, wrapped } from "./pen.js";

const TITLE = { size: 15, line: 20, under: 12 };
const LINE = 26;
const SCALE = 2;

export function download(content, type, name) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// Quiet buttons, one per file. `files` makes each file's contents when it is asked for: { svg, png, csv }.
export function saveButtons(what, name, files) {
  const types = { svg: "image/svg+xml", png: "image/png", csv: "text/csv;charset=utf-8" };
  const said = el("span", { class: "saved", role: "status" });
  const buttons = Object.entries(files).map(([kind, make]) => {
    const words = `Download ${what} as ${kind.toUpperCase()}`;
    const about = { type: "button", class: "save", title: words, "aria-label": words };
    const button = el("button", about, kind.toUpperCase());
    button.addEventListener("click", async () => {
      said.textContent = "";
      try {
        download(await make(), types[kind], `${name()}.${kind}`);
      } catch {
        said.textContent = "The file could not be made; try again.";
      }
    });
    return button;
  });
  return el("div", { class: "saves" }, said, ...buttons);
}

// A drawing with its title above and its legend below, as the text of an SVG file.
export function standalone(drawing, title, legend, theme) {
  const [width, height] = ["width", "height"].map((name) => Number(drawing.getAttribute(name)));
  const rows = legendRows(legend, width, theme);
  const heading = wrapped(title, width - 16, TITLE.size, elsewhere(theme.font), 600);
  const top = heading.length * TITLE.line + TITLE.under;
  const total = top + height + rows.length * LINE + 8;
  const root = svg("svg", { width, height: total, viewBox: `0 0 ${width} ${total}` });
  root.setAttribute("font-family", theme.font);
  root.append(svg("rect", { width, height: total, fill: theme.background }));
  heading.forEach((line, i) => {
    const style = { anchor: "start", fill: theme.ink, size: TITLE.size, weight: 600 };
    root.append(label(8, (i + 1) * TITLE.line, line, style));
  });
  const copy = drawing.cloneNode(true);
  copy.setAttribute("y", top);
  root.append(copy);
  rows.forEach((row, i) => {
    row.setAttribute("transform", `translate(8 ${top + height + (i + 0.6) * LINE})`);
    root.append(row);
  });
  return new XMLSerializer().serializeToString(root);
}

function legendRows(legend, width, theme) {
  const rows = [];
  let x = Infinity;
  for (const { swatch, text } of legend) {
    const room = 46 + widthOf(text, 14, elsewhere(theme.font)) + 18;
    if (x + room > width - 8) {
      rows.push(svg("g"));
      x = 0;
    }
    const words = label(44, 5, text, { anchor: "start", fill: theme.soft });
    rows.at(-1).append(svg("g", { transform: `translate(${x} 0)` }, swatch(), words));
    x += room;
  }
  return rows;
}

// The text of an SVG file as the bytes of a PNG, twice as large for sharp print.
export async function rasterise(text) {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    image.src = address;
    await image.decode();
    const canvas = el("canvas", { width: image.naturalWidth * SCALE, height: image.naturalHeight * SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, failed) => {
      canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("no image"))), "image/png");
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}
