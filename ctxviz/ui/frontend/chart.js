// One line chart: painted whole on a canvas at every draw, its words in an SVG above, so that nothing of an
// earlier run can stay.

import { ChartHands } from "./charthands.js";
import { ChartTip } from "./charttip.js";
import { chartFile } from "./chartfile.js";
import { Legend, Tools } from "./charttools.js";
import { isLost, isNumber } from "./linescale.js";
import { pictureOf } from "./linepicture.js";
import { el, svg } from "./look.js";
import { labelNode, paint } from "./pen.js";
import { rasterise } from "./save.js";
import { counted, sci } from "./words.js";

const KEYS =
  "the arrow keys move over the tokens, Enter picks one, plus and minus zoom, 0 shows all, Escape leaves";

export class LineChart {
  // `pick(step)` is told of a chosen token, `changed()` of a changed `state`.
  constructor({ pick, changed }) {
    this.calls = { pick, changed };
    this.canvas = el("canvas", { role: "img" });
    this.words = svg("svg", { "aria-hidden": "true" });
    this.tip = new ChartTip();
    this.spoken = el("span", { class: "chart-spoken", role: "status", "aria-live": "polite" });
    this.node = el("div", { class: "linechart", tabindex: "0", role: "group" });
    this.node.append(this.canvas, this.words, this.tip.node, this.spoken);
    this.keys = new Legend(this);
    this.buttons = new Tools(this);
    [this.legend, this.tools] = [this.keys.node, this.buttons.node];
    this.hands = new ChartHands(this);
    this.reset();
  }

  // Show nothing, and forget what a person chose: zoom, hidden lines, kind of axis, the token pointed at.
  reset() {
    this.data = this.frame = this.picture = this.written = null;
    this.canvas.width = this.canvas.height = 0;
    this.canvas.removeAttribute("aria-label");
    this.words.replaceChildren();
    this.tip.node.hidden = true;
    this.keys.forget();
    this.state = { hidden: new Set(), log: null, zoom: null };
    this.hands.forget();
    this.at = { cursor: null, drag: null };
    this.spoken.textContent = "";
    this.buttons.forget();
  }

  // { hidden: labels, log: true or false or null (as the quantity says), zoom: null or { from, to (tokens),
  // low, high (values, null: the axis's end), of (the quantity's key), log } }.
  get state() {
    return this.chosen;
  }

  set state({ hidden = [], log = null, zoom = null }) {
    this.chosen = { hidden: new Set(hidden), log, zoom };
  }

  get log() {
    return this.chosen.log ?? this.data?.scale !== "linear";
  }

  draw(data, frame) {
    [this.data, this.frame] = [data, frame];
    this.paint();
    this.keys.draw(this.picture, data.n, this.chosen.hidden);
    this.buttons.draw();
    const words = `${data.about.title}; ${KEYS}`;
    if (this.node.getAttribute("aria-label") !== words) this.node.setAttribute("aria-label", words);
    const told = this.describe(data);
    if (this.canvas.getAttribute("aria-label") !== told) this.canvas.setAttribute("aria-label", told);
  }

  paint() {
    const { data, frame } = this;
    if (this.at.cursor !== null && this.at.cursor >= data.n) this.at.cursor = null;
    this.picture = pictureOf(data, frame, this.chosen, this.at);
    const { width, height, labels } = this.picture;
    Object.assign(this.node.style, { width: `${width}px`, height: `${height}px` });
    paint(this.canvas, this.picture);
    const words = JSON.stringify([width, height, frame.theme.font, labels]);
    if (words !== this.written) {
      this.written = words;
      this.words.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.words.setAttribute("font-family", frame.theme.font);
      this.words.replaceChildren(...labels.map(labelNode));
    }
    this.tip.draw(this.picture, data, this.at);
  }

  // A change of `state` by a person, shown at once and told to the owner.
  change(changes) {
    this.state = { ...this.chosen, ...changes };
    if (this.data) this.draw(this.data, this.frame);
    this.calls.changed();
  }

  // The token under the pointer or the keys, null for none; `speak` says its values to a screen reader.
  point(step, speak = false) {
    if (!this.data) return;
    const last = this.data.n - 1;
    this.at.cursor = step === null || last < 0 ? null : Math.max(0, Math.min(last, step));
    this.paint();
    if (speak) this.spoken.textContent = this.tip.told;
  }

  drag(box) {
    this.at.drag = box;
    this.paint();
  }

  pick(step) {
    if (this.data && step >= 0 && step < this.data.n) this.calls.pick(step);
  }

  // Tokens [from, to) and values; null for the axis's end. All of it is no zoom.
  zoom(from, to, low = null, high = null) {
    const end = Math.max(2, this.data.domain, this.data.n);
    const span = Math.max(2, Math.min(end, Math.round(to) - Math.round(from)));
    const start = Math.max(0, Math.min(end - span, Math.round(from)));
    const all = start === 0 && span === end && low === null && high === null;
    const zoom = { from: start, to: start + span, low, high, of: this.data.about.key, log: this.log };
    this.change({ zoom: all ? null : zoom });
  }

  whole() {
    if (this.chosen.zoom) this.change({ zoom: null });
  }

  // What is shown, in words with numbers.
  describe(data) {
    const { hidden } = this.chosen;
    const parts = data.lines.filter(({ label }) => !hidden.has(label)).map((line) => described(line, data.n));
    const kind = (this.chosen.log ?? data.scale !== "linear") ? "logarithmic" : "linear";
    const about = `Line chart, ${kind}: ${data.about.title} over ${counted(data.n, "token")}.`;
    const shown = parts.length ? `${parts.join("; ")}.` : "Every line is hidden.";
    return hidden.size && parts.length
      ? `${about} ${shown} Hidden: ${[...hidden].join(", ")}.`
      : `${about} ${shown}`;
  }

  toSvg(title) {
    return chartFile(this.data, this.frame, this.chosen, title);
  }

  toPng(title) {
    return rasterise(this.toSvg(title));
  }
}

function described({ label, values }, n) {
  let [least, most, lost] = [Infinity, -Infinity, 0];
  for (let step = 0; step < n; step += 1) {
    const value = values(step);
    if (isLost(value)) lost += 1;
    if (!isNumber(value)) continue;
    [least, most] = [Math.min(least, value), Math.max(most, value)];
  }
  const without = lost ? `no number at ${counted(lost, "token")}` : "";
  if (least > most) return `${label}: ${without || "nothing measured"}`;
  return `${label} from ${sci(least)} to ${sci(most)}${without && `, ${without}`}`;
}
