// The text as chips: what the model with its context said, and under it what a patched model said instead.

import { el } from "./look.js";
import { pictureBox } from "./tiles.js";
import { counted, sci } from "./words.js";

// Shades of the line under a chip: the largest TVD of its variants, in steps. Thickness grows with the colour.
export const SHADES = [
  [1e-6, "below 10⁻⁶"],
  [1e-4, "10⁻⁴"],
  [1e-2, "10⁻²"],
  [0.1, "0.1"],
  [Infinity, "above"],
];

export class TokenStrip {
  constructor(pick) {
    this.pick = pick;
    this.node = el("div", {
      class: "strip",
      role: "group",
      "aria-label": "Tokens; the arrow keys move between them",
    });
    this.epoch = null;
    this.chips = [];
    this.node.addEventListener("click", (event) => {
      const chip = event.target.closest(".chip");
      if (chip) this.pick(Number(chip.dataset.step));
    });
    this.node.addEventListener("keydown", (event) => this.move(event));
  }

  draw(source, frame) {
    if (this.epoch !== source.epoch || this.chips.length > source.n) {
      this.epoch = source.epoch;
      this.chips = [];
      this.node.replaceChildren();
    }
    const { node } = this;
    const atEnd = node.scrollTop + node.clientHeight > node.scrollHeight - 8;
    const fresh = [];
    while (this.chips.length < source.n) {
      const chip = makeChip(source, this.chips.length);
      this.chips.push(chip);
      fresh.push(chip);
    }
    node.append(...fresh);
    if (fresh.length && source.busy && atEnd) node.scrollTop = node.scrollHeight;
    this.select(frame.selected);
  }

  select(step) {
    if (this.selected !== step) {
      this.chips[this.selected]?.setAttribute("aria-pressed", "false");
      this.selected = step;
    }
    this.chips[step]?.setAttribute("aria-pressed", "true");
    this.rove(this.node.contains(this.roving) ? this.roving : (this.chips[step] ?? this.chips[0]));
  }

  rove(chip) {
    if (this.roving === chip) return;
    this.roving?.setAttribute("tabindex", "-1");
    this.roving = chip;
    chip?.setAttribute("tabindex", "0");
  }

  move(event) {
    const here = this.chips.indexOf(event.target);
    const last = this.chips.length - 1;
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: last }[event.key];
    if (here < 0 || to === undefined) return;
    event.preventDefault();
    const chip = this.chips[Math.max(0, Math.min(last, to))];
    this.rove(chip);
    chip.focus();
  }
}

function makeChip(source, step) {
  const [text, , ...variants] = source.tokens[step];
  // A model that overflowed has no distribution to compare: it is drawn as the farthest apart.
  const worst = variants.reduce((most, [, tvd]) => Math.max(most, tvd ?? 1), 0);
  const shade = SHADES.findIndex(([limit]) => worst < limit);
  const others = [...new Set(variants.map((variant) => variant[6]).filter((other) => other !== undefined))];
  const differs = variants.some(([flags]) => !(flags & 3));
  const mark = others.length ? (differs ? "✗" : "≈") : "";
  const words = sayChip(source, step);
  const chip = el("button", {
    type: "button",
    class: `chip shade${shade}${differs ? " differs" : ""}`,
    tabindex: "-1",
    "aria-pressed": "false",
    "aria-label": words,
    title: words,
    "data-step": step,
  });
  chip.append(el("bdi", { class: "said" }, text));
  if (mark) {
    chip.append(el("span", { class: "mark", "aria-hidden": "true" }, mark));
    chip.append(el("span", { class: "others" }, ...others.map((other) => el("bdi", {}, other))));
  }
  return chip;
}

function sayChip(source, step) {
  const [text, , ...variants] = source.tokens[step];
  const names = source.run.look.variants.map((variant) => variant.label);
  const told = variants.flatMap(([flags, tvd, , , , , other], k) => {
    if (other === undefined) return [];
    const how = flags & 2 ? "said (a tie inside the noise floor)" : "said";
    return [`${names[k]} ${how} “${other}”, TVD ${sci(tvd)}`];
  });
  const worst = variants.some(([, tvd]) => tvd === null) ? null : Math.max(...variants.map(([, tvd]) => tvd));
  const rest = told.length ? told.join("; ") : `every patched model said the same; largest TVD ${sci(worst)}`;
  return `token ${step} “${text}”: ${rest}`;
}

// The prompt's items in order; `pointer` shows what a tile of a picture says.
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
    `${folded} of them folded into the weights (hatched)`,
  ].join(", ");
}
