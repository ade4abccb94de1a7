// How the values of one table become colours, marks and words, by the kind of its metric.

import { decades } from "./axes.js";
import { crossPath, symbolPath } from "./look.js";
import { power, sci } from "./words.js";

// Okabe-Ito colours for the words of a category, in the order of its words.
const STEPS = ["#56b4e9", "#0072b2", "#e69f00", "#d55e00", "#cc79a7", "#009e73", "#f0e442", "#000000"];
const minus = (x, y, r) => `M${(x - r).toFixed(1)},${y.toFixed(1)}h${(2 * r).toFixed(1)}`;

// What a cell can be besides a plain value: words, the path of its mark, whether the mark is filled.
export const SPECIAL = {
  infinite: ["no number", crossPath],
  above: ["above the range", (x, y, r) => symbolPath("triangle-up", x, y, r), true],
  below: ["below the range", (x, y, r) => symbolPath("triangle-down", x, y, r), true],
  zero: ["exactly 0", (x, y, r) => symbolPath("circle", x, y, r)],
  negative: ["negative, coloured by size", (x, y, r) => minus(x, y, r * 0.6)],
  missing: ["not measured", minus],
};

// A float32 in as many digits as tell it from every other one.
export function exact(x) {
  if (x < 0) return "−" + exact(-x);
  if (x === 0 || !Number.isFinite(x)) return sci(x);
  let digits = 1;
  while (digits < 9 && Math.fround(Number(x.toPrecision(digits))) !== x) digits += 1;
  if (x >= 1e-3 && x < 1e6) return String(Number(x.toPrecision(digits)));
  const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
  return `${mantissa}·${power(Number(exponent))}`;
}

function packed(colour) {
  const hex = colour[0] === "#" && [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  const [r, g, b] = hex || colour.match(/\d+/g).map(Number);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

export function scaleFor(about, table, colours, range) {
  const kinds = { log: LogScale, count: CountScale, category: CategoryScale };
  return new kinds[about.kind](about, table, colours, range);
}

class Scale {
  // `range` is [least, most] in real numbers, null where it follows the values.
  constructor(about, table, colours, range) {
    Object.assign(this, { about, table, colours, range });
    this.pixels = Uint32Array.from(colours, packed);
    this.black = packed("#000000");
    this.counts = Object.fromEntries(Object.keys(SPECIAL).map((name) => [name, 0]));
    this.extremes = [Infinity, -Infinity];
    this.order = "";
    this.read = 0;
    this.begin?.();
    this.grow();
  }

  // Take in what the table gained. `look` changes where a value is now painted otherwise, `order` where another
  // one of those that share a pixel is.
  grow() {
    const { table } = this;
    const end = table.n * table.layers;
    if (this.read === end && this.look !== undefined) return;
    const fresh = table.values.subarray(this.read, end);
    this.read = end;
    this.widen(fresh);
    this.look = this.settle();
    for (const value of fresh) {
      const special = this.special(value);
      if (special) this.counts[special] += 1;
    }
  }

  // The extremes of what is new and of what was there.
  widen(fresh) {
    let [low, high] = this.extremes;
    for (const value of fresh) {
      const size = this.measure(value);
      if (size < low) low = size;
      if (size > high) high = size;
    }
    this.extremes = [low, high];
    this.empty = low === Infinity;
  }

  // The ends of the range: as fixed, else as the values have it; never empty.
  ends(automatic, slack) {
    const [least, most] = this.range;
    this.least = least ?? Math.min(automatic[0], most === null ? Infinity : most - slack(most));
    this.most = most ?? Math.max(automatic[1], this.least + slack(this.least));
    [this.low, this.high] = [this.along(this.least), this.along(this.most)];
    return [this.least, this.most, this.empty].join();
  }

  place(value) {
    return Math.max(0, Math.min(1, (this.along(Math.abs(value)) - this.low) / (this.high - this.low)));
  }

  step(value) {
    return Math.round(255 * this.place(value));
  }

  // Of the values that share a pixel, the one with the largest rank is drawn.
  rank(value) {
    if (Number.isNaN(value)) return -1;
    if (!Number.isFinite(value)) return Infinity;
    return this.about.small_is_bad ? 1 / Math.abs(value) : Math.abs(value);
  }

  get shared() {
    return this.about.small_is_bad ? "the smallest is drawn" : "the largest is drawn";
  }

  blank(value) {
    return this.special(value) === "missing";
  }

  dark(value) {
    return ["infinite", "zero"].includes(this.special(value));
  }

  pixel(value) {
    if (this.blank(value)) return 0;
    return this.dark(value) ? this.black : this.pixels[this.step(value)];
  }

  colour(value) {
    if (this.blank(value)) return "none";
    return this.dark(value) ? "#000000" : this.colours[this.step(value)];
  }

  letter() {
    return "";
  }

  words(value) {
    return Number.isNaN(value) ? "not measured" : exact(value);
  }

  // [[share of the bar, text]] from bottom to top, none nearer than `gap` to another.
  ticks(gap) {
    const chosen = [];
    for (const [value, text] of this.candidates()) {
      const at = (this.along(value) - this.low) / (this.high - this.low);
      if (at < -1e-9 || at > 1 + 1e-9) continue;
      if (chosen.every(([other]) => Math.abs(other - at) >= gap)) chosen.push([at, text]);
    }
    return chosen;
  }

  // [special or category, swatch's colour, words, count] of what occurs.
  legend() {
    return Object.entries(SPECIAL)
      .filter(([name]) => this.counts[name])
      .map(([name, [words]]) => ({ name, words, count: this.counts[name], fill: this.ground(name) }));
  }

  // The colour under a mark in the legend; empty for paper.
  ground(name) {
    const { colours } = this;
    return { above: colours[255], below: colours[0], negative: colours[128], missing: "" }[name] ?? "#000000";
  }
}

class LogScale extends Scale {
  along(value) {
    return Math.log10(value);
  }

  measure(value) {
    const size = Math.abs(value);
    return size > 0 && size < Infinity ? size : NaN;
  }

  settle() {
    const [low, high] = this.extremes;
    const automatic = this.empty
      ? [0.1, 1]
      : [10 ** (Math.floor(2 * Math.log10(low)) / 2), 10 ** (Math.ceil(2 * Math.log10(high)) / 2)];
    return this.ends(automatic, (end) => end * 0.9);
  }

  special(value) {
    if (Number.isNaN(value)) return "missing";
    if (!Number.isFinite(value)) return "infinite";
    if (value === 0) return "zero";
    const size = Math.abs(value);
    if (this.range[1] !== null && size > Math.fround(this.most)) return "above";
    if (this.range[0] !== null && size < Math.fround(this.least)) return "below";
    return value < 0 ? "negative" : "";
  }

  candidates() {
    const fixed = [this.least, this.most].filter((_, i) => this.range[i] !== null);
    const whole = decades(this.low, this.high, 7).map((k) => [10 ** k, power(k)]);
    const ends = whole.length > 1 ? fixed : [this.least, this.most];
    return [...ends.map((value) => [value, sci(value)]), ...whole];
  }
}

class CountScale extends Scale {
  along(value) {
    return Math.log10(1 + value);
  }

  measure(value) {
    return value;
  }

  settle() {
    return this.ends([0, Math.max(1, this.extremes[1])], () => 1);
  }

  special(value) {
    if (Number.isNaN(value)) return "missing";
    if (this.range[1] !== null && value > this.most) return "above";
    if (this.range[0] !== null && value < this.least) return "below";
    return "";
  }

  candidates() {
    const round = [0];
    for (let unit = 1; unit <= this.most; unit *= 10) round.push(unit, 2 * unit, 5 * unit);
    return [this.least, this.most, ...round].map((value) => [value, value < 1e4 ? exact(value) : sci(value)]);
  }
}

class CategoryScale extends Scale {
  begin() {
    this.colours = STEPS;
    this.pixels = Uint32Array.from(STEPS, packed);
    this.tally = this.about.words.map(() => 0);
    this.extremes = null;
  }

  widen(fresh) {
    for (const value of fresh) if (value in this.tally) this.tally[value] += 1;
    this.empty = !this.tally.some(Boolean);
  }

  // Which category is drawn where several share a pixel depends on the order of their numbers.
  settle() {
    const order = [...this.tally.keys()].sort((a, b) => this.tally[a] - this.tally[b]);
    const equal = order.map((k, i) => i > 0 && this.tally[k] === this.tally[order[i - 1]]);
    this.order = [...order, ...equal].join();
    return String(this.empty);
  }

  special(value) {
    return value in this.tally ? "" : "missing";
  }

  step(value) {
    return value % STEPS.length;
  }

  rank(value) {
    return this.special(value) ? -Infinity : -this.tally[value];
  }

  get shared() {
    return "the rarest is drawn";
  }

  letter(value) {
    return this.special(value) ? "" : this.about.words[value][0].toUpperCase();
  }

  words(value) {
    return this.about.words[value] ?? "not measured";
  }

  ticks() {
    return [];
  }

  legend() {
    const words = this.about.words.map((word, i) => {
      const letter = word[0].toUpperCase();
      return { name: word, letter, fill: STEPS[i], words: word, count: this.tally[i] };
    });
    return [...words.filter(({ count }) => count), ...super.legend()];
  }
}
