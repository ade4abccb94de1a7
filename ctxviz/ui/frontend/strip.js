// The text as chips: what the model with its context said, and beside it what a patched model said instead.

import { el } from "./look.js";
import { sci } from "./words.js";

// Shades of the line under a chip: the largest TVD of its variants, in steps. Thickness grows with the colour.
export const SHADES = [
  [1e-6, "below 10⁻⁶"],
  [1e-4, "10⁻⁴"],
  [1e-2, "10⁻²"],
  [0.1, "0.1"],
  [Infinity, "above"],
];

// The chips of one run; another run has another strip.
export class TokenStrip {
  constructor(pick) {
    this.pick = pick;
    const about = { class: "strip", role: "group", "aria-label": "Tokens; the arrow keys move between them" };
    this.node = el("div", about);
    this.chips = [];
    this.node.addEventListener("click", (event) => {
      const chip = event.target.closest(".chip");
      if (chip) this.pick(Number(chip.dataset.step));
    });
    this.node.addEventListener("keydown", (event) => this.move(event));
  }

  draw(source, selected) {
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
    // Once it is written it is read from its beginning.
    if (this.wasBusy && source.ended && atEnd) node.scrollTop = 0;
    this.wasBusy = source.busy;
    this.select(selected);
  }

  select(step) {
    const changed = this.selected !== step;
    if (changed) {
      this.chips[this.selected]?.setAttribute("aria-pressed", "false");
      this.selected = step;
    }
    const chip = this.chips[step];
    chip?.setAttribute("aria-pressed", "true");
    if (changed && chip) this.reveal(chip);
    this.rove(this.node.contains(this.roving) ? this.roving : (chip ?? this.chips[0]));
  }

  // Scroll the strip, and nothing else, to a chip.
  reveal(chip) {
    const { node } = this;
    const [top, bottom] = [chip.offsetTop, chip.offsetTop + chip.offsetHeight];
    if (top < node.scrollTop) node.scrollTop = top - 5;
    else if (bottom > node.scrollTop + node.clientHeight) node.scrollTop = bottom - node.clientHeight + 5;
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
  const { text, variants } = source.tokens[step];
  // A model that overflowed has no distribution to compare: it is drawn as the farthest apart.
  const worst = variants.reduce((most, { tvd }) => Math.max(most, tvd ?? 1), 0);
  const shade = SHADES.findIndex(([limit]) => worst < limit);
  const others = [...new Set(variants.map(({ said }) => said).filter((said) => said !== null))];
  const differs = variants.some(({ same, tie }) => !same && !tie);
  const words = sayChip(source, step);
  const chip = el("button", {
    type: "button",
    class: `chip shade${shade < 0 ? SHADES.length - 1 : shade}${differs ? " differs" : ""}`,
    tabindex: "-1",
    "aria-pressed": "false",
    "aria-label": words,
    title: words,
    "data-step": step,
  });
  chip.append(el("bdi", { class: "said" }, text));
  if (others.length) {
    chip.append(el("span", { class: "mark", "aria-hidden": "true" }, differs ? "✗" : "≈"));
    chip.append(el("span", { class: "others" }, ...others.map((other) => el("bdi", {}, other))));
  }
  return chip;
}

function sayChip(source, step) {
  const { text, variants } = source.tokens[step];
  const names = source.run.look.variants.map((variant) => variant.label);
  const told = variants.flatMap(({ tie, tvd, said }, k) => {
    if (said === null) return [];
    const how = tie ? "said (a tie inside the noise floor)" : "said";
    return [`${names[k]} ${how} “${said}”, TVD ${sci(tvd)}`];
  });
  const worst = variants.some(({ tvd }) => tvd === null) ? null : Math.max(...variants.map(({ tvd }) => tvd));
  const rest = told.length ? told.join("; ") : `every patched model said the same; largest TVD ${sci(worst)}`;
  return `token ${step} “${text}”: ${rest}`;
}

// What the lines under the chips and their marks mean.
export function shadeKey() {
  const key = el("div", { class: "legend shades" }, el("span", {}, "Line under a token: largest TVD"));
  SHADES.forEach(([, words], i) =>
    key.append(el("span", { class: "key" }, el("i", { class: `shade${i}` }), words)),
  );
  key.append(
    el("span", { class: "key" }, el("b", { class: "mark" }, "✗"), "another token"),
    el("span", { class: "key" }, el("b", { class: "mark" }, "≈"), "a tie inside the noise floor"),
  );
  return key;
}
