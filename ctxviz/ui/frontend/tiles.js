// A picture of the prompt as the square of tiles that its image tokens are.

import { el } from "./look.js";

const WIDEST = 288;
const TILES = [12, 44];
const NUMBERED = 24;
const MOST = 4096;

// `pointer` shows a tile's words beside it; the picture is number `k` of `images`.
export function pictureBox(images, k, pointer) {
  const image = images[k];
  const name = images.length === 1 ? "picture" : `picture ${k + 1}`;
  const note = el("span", {}, noteOn(image));
  const place = el("span", {}, `${heading(image, name)}; ${shareFolded(image)}.`);
  const caption = el("figcaption", {}, place, note);
  if (image.tokens > MOST) return el("figure", { class: "picture" }, caption);
  const tiles = tileGrid(image, images.length === 1 ? "" : `${name}, `);
  tiles.setAttribute("aria-label", [heading(image, name), shareFolded(image), note.textContent].join("; "));
  if (fits(image)) tiles.prepend(pixels(image, tiles, note));
  else tiles.classList.add("blank");
  listen(tiles, image.side, pointer);
  return el("figure", { class: "picture" }, tiles, caption);
}

// Whether there is a picture to lay under the tiles.
function fits({ src, side, tokens }) {
  return Boolean(src) && side * side === tokens;
}

function heading({ side, tokens, start, end }, name) {
  const shape = side * side === tokens ? `${side} × ${side}` : String(tokens);
  const words = `${name}: ${shape} image tokens at positions ${start + 1} to ${end - 2}, and the marks before and after them`;
  return words[0].toUpperCase() + words.slice(1);
}

function shareFolded({ folded, tokens, folded_marks: marks }) {
  if (!folded && !marks) return "all kept as input";
  if (folded === tokens && marks === 2) return "all folded into the weights";
  return `${folded} of ${tokens} image tokens and ${marks} of 2 marks folded into the weights`;
}

function noteOn(image) {
  const { src, size, sha256, side, tokens } = image;
  if (!src) return `The picture itself is not stored in this run; sha256 ${sha256}…`;
  if (tokens > MOST) return "Too many to be drawn one by one.";
  if (side * side !== tokens) return "They make no square, so the picture cannot be laid under them.";
  const [width, height] = size;
  if (width === height) return "";
  return `Squeezed to a square, as the model reads it; it is ${width} × ${height} pixels.`;
}

function tileGrid(image, name) {
  const { side, tokens } = image;
  const px = Math.max(TILES[0], Math.min(TILES[1], Math.floor(WIDEST / side)));
  const grid = el("div", { class: "tiles", role: "grid" });
  grid.style.gridTemplateColumns = `repeat(${side}, ${px}px)`;
  grid.style.gridAutoRows = `${px}px`;
  grid.style.setProperty("--gap", px < NUMBERED ? "1px" : "2px");
  const isFolded = (i) => image.folded_tokens.some(([first, end]) => first <= i && i < end);
  for (let first = 0; first < tokens; first += side) {
    const row = el("div", { class: "tile-row", role: "row" });
    for (let i = first; i < Math.min(tokens, first + side); i += 1) {
      const words = [
        `${name}image token ${i + 1} of ${tokens}`,
        `row ${Math.floor(i / side) + 1}, column ${(i % side) + 1}`,
        `position ${image.start + 1 + i}`,
        isFolded(i) ? "folded" : "kept",
      ].join(" · ");
      const kind = isFolded(i) ? "tile folded" : "tile";
      const about = { class: kind, role: "gridcell", tabindex: i ? "-1" : "0" };
      const number = fits(image) || px < NUMBERED ? [] : [String(i + 1)];
      row.append(el("span", { ...about, "aria-label": words }, ...number));
    }
    grid.append(row);
  }
  return grid;
}

function pixels({ src, size, side }, tiles, note) {
  const picture = el("img", { src, alt: "", draggable: "false" });
  tiles.classList.toggle("coarse", Math.max(...size) < WIDEST / 2);
  picture.addEventListener("error", () => {
    picture.remove();
    tiles.classList.add("blank");
    note.textContent = "The picture could not be fetched; reload the page to try again.";
  });
  return picture;
}

// One tab stop for the grid; the arrow keys move over its tiles.
function listen(grid, side, pointer) {
  const tiles = [...grid.querySelectorAll(".tile")];
  let stop = tiles[0];
  const show = (event) => {
    const tile = event.target.closest(".tile");
    if (tile) pointer.atTile(grid, tile, tile.getAttribute("aria-label"));
  };
  grid.addEventListener("pointerover", show);
  grid.addEventListener("pointerleave", () => pointer.clear());
  grid.addEventListener("focusout", () => pointer.clear());
  grid.addEventListener("focusin", (event) => {
    stop.setAttribute("tabindex", "-1");
    stop = event.target;
    stop.setAttribute("tabindex", "0");
    show(event);
  });
  grid.addEventListener("keydown", (event) => {
    if (event.key === "Escape") pointer.clear();
    const here = tiles.indexOf(event.target);
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: side, ArrowUp: -side };
    const to = { Home: 0, End: tiles.length - 1 }[event.key] ?? here + moves[event.key];
    if (here < 0 || Number.isNaN(to)) return;
    event.preventDefault();
    tiles[to]?.focus();
  });
}
