// The prompt's own tokens, hatched where they are folded into weights, with its pictures as tiles.

import { el } from "./look.js";
import { pictureBox } from "./tiles.js";
import { counted } from "./words.js";

// The items in order; `pointer` shows what a tile of a picture says.
export function promptChips({ items, images }, pointer) {
  return items.map((item) => {
    if (typeof item === "number") return pictureBox(images, item, pointer);
    if (!Array.isArray(item)) {
      return el("span", { class: "omitted" }, `… ${counted(item.omitted, "more token")} …`);
    }
    const [text, folded] = item;
    const about = folded ? ["piece folded", "folded into the weights"] : ["piece", "kept as input"];
    return el("bdi", { class: about[0], title: about[1] }, text);
  });
}

export function promptWords({ length, folded, images }) {
  const pictured = images.reduce((sum, { tokens }) => sum + tokens, 0);
  const pictures = images.length === 1 ? "one picture" : `in ${images.length} pictures`;
  const seen = images.length ? [`${pictured} of them ${pictures}`] : [];
  return [
    `Prompt: ${counted(length, "token")}`,
    ...seen,
    `${folded} folded`,
  ].join(", ");
}
