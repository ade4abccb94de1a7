// One line chart on a logarithmic axis: a line per variant, references, crosses where another token was said.
//
// What arrives is appended to the paths; everything is drawn again only when an axis, the size or the theme
// changes.

import { decadeLines, domainFor, label, TEXT, tokenTicks } from "./axes.js";
import { crossPath, dashes, svg, symbolPath } from "./look.js";
import { counted, sci } from "./words.js";

const HEIGHT = 250;
const MARGIN = { left: 52, right: 12, top: 30, bottom: 46 };
const ZERO_BAND = 22;
const MARKERS = 16;
// Where a token without a number is marked: off the axis, so that it is not taken for the largest value.
const OFF_SCALE = MARGIN.top - 8;
// The bits of a token's flags: the same token, another that is a tie, a replay without a number.
const BITS = { same: 1, tie: 2, lost: 0 };

// Dashes of a reference line; those of a second dtype are wider apart and paler.
export function referenceStyle(source, kind, dtype) {
  const { noise_dash: noise, unpatched_dash: unpatched } = source.run.look;
  const [on, off] = dashes(kind === "noise floor" ? noise : unpatched).split(" ");
  return {
    "stroke-dasharray": `${on} ${off * (1 + dtype)}`,
    "stroke-linecap": "round",
    opacity: dtype ? 0.7 : 1,
  };
}

export class LineChart {
  constructor(about) {
    this.about = about;
    this.node = svg("svg", { role: "img", height: HEIGHT });
    this.epoch = null;
  }

  // Some charts belong to runs that measured more.
  shownIn(source) {
    const { extra } = this.about;
    return !extra || source.run.extras.includes(extra);
  }

  value(source, step, variant) {
    return source.tokens[step][2 + variant][this.about.at];
  }

  has(source, step, variant, bit) {
    return Boolean(source.tokens[step][2 + variant][0] & (this.about.bits ?? BITS)[bit]);
  }

  // The value at a token in words.
  words(source, step, variant) {
    return this.has(source, step, variant, "lost") ? "no number" : sci(this.value(source, step, variant));
  }

  // The references that were measured: [name, kind, dtype index, values by step].
  references(source) {
    const { noise, unpatched } = this.about;
    const kinds = [
      ["noise floor", noise],
      ["no patch", unpatched],
    ].filter(([, list]) => list);
    return kinds.flatMap(([kind, list]) =>
      source.referred
        .map((lists, dtype) => [`${kind} ${source.run.dtypes[dtype]}`, kind, dtype, lists[list]])
        .filter(([, , , values]) => values.length),
    );
  }

  draw(source, frame) {
    if (this.epoch !== source.epoch) this.forget(source);
    const stretched = this.stretch(source);
    const domain = domainFor(source);
    const same =
      domain === this.domain &&
      frame.width === this.width &&
      frame.theme === this.theme &&
      source.corrections === this.corrections;
    const anew = stretched || !same;
    Object.assign(this, { domain, width: frame.width, theme: frame.theme, corrections: source.corrections });
    if (anew) this.redraw(source);
    this.append(source);
    if (anew || this.drawnReferences !== source.references) this.drawReferences(source);
    this.select(frame.selected);
  }

  forget(source) {
    Object.assign(this, {
      epoch: source.epoch,
      read: 0,
      readReferences: 0,
      low: null,
      high: null,
      zero: false,
    });
  }

  // Read what is new and widen the axis for it; true if it had to be widened.
  stretch(source) {
    const before = `${this.low} ${this.high} ${this.zero}`;
    for (; this.read < source.n; this.read += 1) {
      for (let k = 0; k < source.run.variant_dtypes.length; k += 1)
        this.fit(this.value(source, this.read, k));
    }
    if (this.readReferences !== source.references) {
      for (const [, , , values] of this.references(source)) values.forEach((v) => this.fit(v));
      this.readReferences = source.references;
    }
    return before !== `${this.low} ${this.high} ${this.zero}`;
  }

  fit(value) {
    if (value === null) return;
    if (value === 0) {
      this.zero = true;
      return;
    }
    const log = Math.log10(value);
    this.low = Math.min(this.low ?? Math.floor(log), Math.floor(log));
    this.high = Math.max(this.high ?? Math.ceil(log), Math.ceil(log), this.low + 1);
  }

  x(step) {
    const inner = this.width - MARGIN.left - MARGIN.right;
    return MARGIN.left + ((step + 0.5) / this.domain) * inner;
  }

  y(value) {
    const bottom = HEIGHT - MARGIN.bottom;
    if (value === 0) return bottom - ZERO_BAND / 3;
    const floor = bottom - (this.zero ? ZERO_BAND : 0);
    const [low, high] = [this.low ?? -1, this.high ?? 0];
    return MARGIN.top + ((high - Math.log10(value)) / (high - low)) * (floor - MARGIN.top);
  }

  stepAt(x) {
    const inner = this.width - MARGIN.left - MARGIN.right;
    return Math.floor(((x - MARGIN.left) / inner) * this.domain);
  }

  redraw(source) {
    const { theme, width, about } = this;
    this.node.replaceChildren();
    this.node.setAttribute("width", width);
    this.node.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.node.setAttribute("font-family", theme.font);
    const bottom = HEIGHT - MARGIN.bottom;
    const plot = { left: MARGIN.left, width: width - MARGIN.left - MARGIN.right, bottom, theme };
    const [low, high] = [this.low ?? -1, this.high ?? 0];
    this.node.append(
      label(4, 14, about.axis, { anchor: "start", fill: theme.soft }),
      decadeLines({ ...plot, low, high, most: 5, at: (v) => this.y(v) }),
      tokenTicks({ ...plot, domain: this.domain, at: (step) => this.x(step) }),
    );
    if (this.zero) this.node.append(this.zeroLine(plot));
    this.drawReferencesInto = svg("g", { fill: "none", stroke: theme.soft, "stroke-width": 2 });
    this.cursor = svg("line", { y1: MARGIN.top, y2: bottom, stroke: theme.faint, visibility: "hidden" });
    this.chosen = svg("line", { y1: MARGIN.top, y2: bottom, stroke: theme.ink, "stroke-width": 1.5 });
    this.node.append(this.chosen, this.drawReferencesInto, ...this.emptyPaths(source), this.cursor);
    this.drawn = 0;
  }

  zeroLine({ left, width, theme }) {
    const y = this.y(0);
    const line = { x1: left, x2: left + width, y1: y, y2: y, stroke: theme.line, "stroke-dasharray": "2 3" };
    return svg("g", {}, svg("line", line), label(left - 8, y + 5, "0", { anchor: "end", fill: theme.soft }));
  }

  emptyPaths(source) {
    this.lines = source.run.look.variants.map(({ color, dash, symbol }) => {
      const open = symbol.endsWith("-open");
      const width = this.domain > 128 ? 1.5 : 2.2;
      const line = { fill: "none", stroke: color, "stroke-width": width, "stroke-dasharray": dashes(dash) };
      const marks = { fill: open ? this.theme.background : color, stroke: color, "stroke-width": 1.5 };
      return { symbol, line: new Path({ ...line, "stroke-linejoin": "round" }), marks: new Path(marks) };
    });
    this.crosses = new Path({ fill: "none", stroke: this.theme.ink, "stroke-width": 2.4 });
    this.halo = new Path({ fill: "none", stroke: this.theme.background, "stroke-width": 6.5 });
    this.ties = svg("g", { fill: this.theme.ink, "font-size": TEXT + 2, "font-weight": 700 });
    return [
      ...this.lines.flatMap((l) => [l.line.node, l.marks.node]),
      this.halo.node,
      this.crosses.node,
      this.ties,
    ];
  }

  append(source) {
    const spacing = Math.ceil(this.domain / MARKERS);
    for (let step = this.drawn; step < source.n; step += 1) {
      this.lines.forEach(({ symbol, line, marks }, k) => {
        const value = this.value(source, step, k);
        if (this.has(source, step, k, "lost")) this.cross(this.x(step), OFF_SCALE);
        if (value === null) return;
        const [x, y] = [this.x(step), this.y(value)];
        const joined = step > 0 && this.value(source, step - 1, k) !== null;
        line.add(`${joined ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}${joined ? "" : "h.01"}`);
        if (step % spacing === (k * 3) % spacing) marks.add(symbolPath(symbol, x, y, 3.4));
        if (this.has(source, step, k, "tie")) this.tie(x, y);
        else if (!this.has(source, step, k, "same")) this.cross(x, y);
      });
    }
    this.drawn = source.n;
    this.lines.forEach(({ line, marks }) => [line, marks].forEach((path) => path.show()));
    [this.halo, this.crosses].forEach((path) => path.show());
  }

  tie(x, y) {
    this.ties.append(label(x, y - 6, "≈", { fill: this.theme.ink, size: TEXT + 2, weight: 700 }));
  }

  cross(x, y) {
    const cross = crossPath(x, y, this.domain > 128 ? 3.5 : 5);
    for (const path of [this.halo, this.crosses]) path.add(cross);
  }

  drawReferences(source) {
    this.drawReferencesInto.replaceChildren();
    for (const [, kind, dtype, values] of this.references(source)) {
      let path = "";
      values.forEach((value, step) => {
        if (value === 0 && !this.zero) return;
        path += `${path ? "L" : "M"}${this.x(step).toFixed(1)},${this.y(value).toFixed(1)}`;
        if (!path.includes("L")) path += "h.01";
      });
      this.drawReferencesInto.append(svg("path", { d: path, ...referenceStyle(source, kind, dtype) }));
    }
    this.drawnReferences = source.references;
  }

  select(step) {
    this.place(this.chosen, step);
  }

  point(step) {
    this.place(this.cursor, step);
  }

  place(line, step) {
    if (!line) return;
    const shown = step !== null && step < this.drawn;
    line.setAttribute("visibility", shown ? "visible" : "hidden");
    if (!shown) return;
    line.setAttribute("x1", this.x(step).toFixed(1));
    line.setAttribute("x2", this.x(step).toFixed(1));
  }

  // What the chart shows, in words with numbers.
  describe(source) {
    const parts = source.run.look.variants.map(({ label: name }, k) => {
      const values = source.tokens.map((token) => token[2 + k][this.about.at]).filter((v) => v !== null);
      const lost = source.tokens.filter((_, step) => this.has(source, step, k, "lost")).length;
      const without = lost ? `no number at ${counted(lost, "token")}` : "";
      if (!values.length) return `${name}: ${without || "nothing measured"}`;
      let [least, most] = [values[0], values[0]];
      for (const value of values) [least, most] = [Math.min(least, value), Math.max(most, value)];
      return `${name} from ${sci(least)} to ${sci(most)}${without && `, ${without}`}`;
    });
    return `Line chart, logarithmic: ${this.about.title} over ${source.n} tokens. ${parts.join("; ")}.`;
  }
}

// A path that grows at its end.
class Path {
  constructor(attributes) {
    this.node = svg("path", attributes);
    this.text = "";
    this.changed = false;
  }

  add(piece) {
    this.text += piece;
    this.changed = true;
  }

  show() {
    if (this.changed) this.node.setAttribute("d", this.text);
    this.changed = false;
  }
}
