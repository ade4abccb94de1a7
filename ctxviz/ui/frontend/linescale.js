// The two axes of a line chart: what they span, where a value stands, and which ticks tell it.

import { decades } from "./axes.js";
import { power, roundSteps, sci } from "./words.js";

// Heights in px of the rows off the axis: zeros below a logarithmic one, what is no number above any.
const ROW = 24;
// How far from the axis a row's middle is.
const APART = 17;
const MOST_DIGITS = 8;
const ROUND = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

// Computed, and no finite number; null and NaN were not measured.
export const isLost = (value) => value === Infinity || value === -Infinity;
export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// What the curves hold over n tokens: { least, most (above zero where `log`), zero, negative, lost }.
export function extentOf(curves, n, log) {
  const extent = { least: Infinity, most: -Infinity, zero: false, negative: false, lost: false };
  for (const { values } of curves) {
    for (let step = 0; step < n; step += 1) {
      const value = values(step);
      if (isLost(value)) extent.lost = true;
      if (!isNumber(value)) continue;
      if (value < 0) extent.negative = true;
      if (log && value <= 0) extent.zero = true;
      else {
        if (value < extent.least) extent.least = value;
        if (value > extent.most) extent.most = value;
      }
    }
  }
  return extent;
}

// The ends of an axis that holds the extent: whole decades, or round numbers, so that it seldom grows.
export function rangeOf({ least, most }, log) {
  if (least > most) return log ? [0.1, 1] : [0, 1];
  if (!log) return [least < 0 ? -roundUp(-least) : 0, most > 0 ? roundUp(most) : least < 0 ? 0 : 1];
  const low = Math.floor(Math.log10(least) + 1e-9);
  return [10 ** low, 10 ** Math.max(low + 1, Math.ceil(Math.log10(most) - 1e-9))];
}

function roundUp(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * ROUND.find((digit) => digit * unit >= value * (1 - 1e-9));
}

// `view`: { log, low, high, zero, lost (rows beside the axis), from, to (tokens, a cell each) }; `box` in px.
export class Scale {
  constructor(view, box) {
    Object.assign(this, view);
    this.box = box;
    this.top = box.top + (this.lost ? ROW : 0);
    this.bottom = box.bottom - (this.zero ? ROW : 0);
    [this.start, this.end] = [this.unit(this.low), this.unit(this.high)];
  }

  unit(value) {
    return this.log ? Math.log10(value) : value;
  }

  get cell() {
    return (this.box.right - this.box.left) / (this.to - this.from);
  }

  // The middle of a token's cell.
  x(step) {
    return this.box.left + (step + 0.5 - this.from) * this.cell;
  }

  y(value) {
    if (isLost(value)) return this.top - APART;
    if (this.log && value <= 0) return this.bottom + APART;
    return this.top + ((this.end - this.unit(value)) / (this.end - this.start)) * (this.bottom - this.top);
  }

  // Whether a value can be seen: in a row beside the axis where there is one, or between the ends.
  shows(value) {
    if (isLost(value)) return this.lost;
    if (this.log && value <= 0) return this.zero;
    const slack = 1e-9 * Math.abs(this.end - this.start);
    return this.unit(value) >= this.start - slack && this.unit(value) <= this.end + slack;
  }

  // Tokens from the left end of the axis, with a fraction.
  tokenAt(x) {
    return this.from + (x - this.box.left) / this.cell;
  }

  // The value at a height, on the axis; null in a row beside it.
  valueAt(y) {
    if ((this.lost && y < this.top - 1) || (this.zero && y > this.bottom + 1)) return null;
    const share = Math.max(0, Math.min(1, (y - this.top) / (this.bottom - this.top)));
    const unit = this.end + share * (this.start - this.end);
    return this.log ? 10 ** unit : unit;
  }
}

// Ticks [[value, words]] between the ends, at most about `most`; never fewer than one where the ends differ.
export function valueTicks({ log, low, high, start, end }, most) {
  const inside = (value) => value >= low - 1e-9 * Math.abs(low) && value <= high + 1e-9 * Math.abs(high);
  if (log) {
    const every = decades(start, end, Infinity);
    const some = decades(start, end, most);
    // Where whole multiples leave fewer than two, the outermost powers of ten.
    const whole = some.length > 1 ? some : [...new Set([every[0], every.at(-1)])];
    const powers = whole.map((k) => [10 ** k, decade(k)]);
    if (whole.length > 2) return powers;
    const minor = decades(start - 1, end, Infinity).flatMap((k) =>
      [1, 2, 5].map((front) => Number(`${front}e${k}`)),
    );
    const shown = minor.filter(inside);
    if (shown.length > 1 && shown.length <= Math.max(most, 4)) return worded(shown);
    if (every.length > 1) return powers;
  }
  return worded(evenSteps(low, high, most).filter(inside));
}

const decade = (k) => (k === 0 ? "1" : k === 1 ? "10" : power(k));

function evenSteps(low, high, most) {
  const rough = (high - low) / Math.max(2, most);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((digit) => digit * unit >= rough * (1 - 1e-9));
  const ticks = [];
  // Whole multiples, rounded to twelve digits, so that 3·0.1 reads 0.3.
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1)
    ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

// Each value with as few digits as tell all of them apart.
function worded(values) {
  for (let digits = 2; ; digits += 1) {
    const words = values.map((value) => numberWords(value, digits));
    if (digits === MOST_DIGITS || new Set(words).size === words.length)
      return values.map((value, i) => [value, words[i]]);
  }
}

function numberWords(value, digits) {
  if (value < 0) return "−" + numberWords(-value, digits);
  if (value === 0 || digits < 3) return sci(value);
  if (value >= 1e-3 && value < 1e4) return String(Number(value.toPrecision(digits)));
  const [front, exponent] = value.toExponential(digits - 1).split("e");
  return `${Number(front)}·${power(Number(exponent))}`;
}

// Token ticks from `from` below `to`, at most about `most`.
export function stepTicks(from, to, most) {
  const step = roundSteps(to - from, most)[1] ?? Math.max(1, to - from);
  const ticks = [];
  for (let k = Math.ceil(from / step) * step; k < to; k += step) ticks.push(k);
  return ticks;
}
