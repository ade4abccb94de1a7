// What lies behind one cell: its coordinates as dots, the worst of them in a table, both models' next tokens.

import { el } from "./look.js";
import { iconButton } from "./menus.js";
import { Scatter } from "./scatter.js";
import { floats, number } from "./wire.js";
import { sci } from "./words.js";

const HINT = "Click a token, or a cell of the map, to see the coordinates behind it.";
const FAILED = "The coordinates could not be fetched; retrying …";
// The first pause before they are asked for again, and the longest, in ms.
const RETRY = [500, 8000];
const NARROW = 620;
const ROW = 21;
const COLUMNS = [
  ["j", "coordinate of the residual stream"],
  ["h", "the denominator"],
  ["Δv", "what the context adds here"],
  ["m", "the scale before the patch"],
  ["Δm", "the patch of the scale"],
];

// The cells of one run. `actions`: enlarge(name), openLayers(), changed().
export class CellView {
  constructor(source, actions) {
    Object.assign(this, { source, actions, epoch: source.epoch, cell: null, asked: null });
    this.title = el("h3");
    this.counts = el("p", { class: "caption" });
    this.reason = el("p", { class: "caption" });
    this.hint = el("p", { class: "caption hint" }, HINT);
    this.scatter = new Scatter();
    this.table = el("table", { class: "worst" });
    this.next = [el("p", { class: "next" }), el("p", { class: "next" })];
    this.all = el("button", { type: "button", class: "link" });
    this.all.addEventListener("click", () => actions.openLayers());
    const tools = el("div", { class: "tools" }, iconButton("Enlarge the coordinates", "⤢", () => actions.enlarge("cell")));
    this.head = el("div", { class: "head" }, this.title, tools);
    const foot = el("div", { class: "foot" }, this.counts, this.all);
    this.side = el("div", { class: "worst-box" }, this.table, ...this.next, foot);
    this.body = el("div", { class: "cell-body" }, this.scatter.node, this.side);
    this.node = el("section", { class: "behind" }, this.hint, this.head, this.reason, this.body);
    this.node.setAttribute("aria-label", "Behind the cell");
    this.show(null);
  }

  // What is opened; null where nothing is.
  get opened() {
    return this.cell;
  }

  // `look` holds step and layer (null where nothing was picked), variant, theme, height.
  draw(look) {
    const { n, busy } = this.source;
    this.look = look;
    // Where nothing was picked, the worst cell of a run that stands still is opened.
    const nothing = look.step === null && busy;
    const wanted = n && !nothing ? JSON.stringify([look.step, look.layer, look.variant, look.step === null ? n : 0]) : "";
    if (wanted !== this.asked) {
      this.asked = wanted;
      this.failures = 0;
      clearTimeout(this.later);
      if (wanted) this.ask(wanted, look);
      else this.show(null);
    }
    this.paint();
  }

  async ask(wanted, { step, layer, variant }) {
    this.node.setAttribute("aria-busy", "true");
    const query = new URLSearchParams({ variant });
    if (step !== null) query.set("step", step);
    if (layer !== null) query.set("layer", layer);
    try {
      const answer = await fetch(`/_ctxviz/cell/${this.source.id}?${query}`, { signal: AbortSignal.timeout(15000) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const { epoch, cell } = await answer.json();
      // A later click, or another run, has its own answer on the way.
      if (wanted !== this.asked || epoch !== this.epoch) return;
      this.failures = 0;
      this.show(cell);
    } catch {
      if (wanted !== this.asked) return;
      this.show(null);
      this.hint.textContent = FAILED;
      this.later = setTimeout(() => this.ask(wanted, this.look), Math.min(RETRY[1], RETRY[0] * 2 ** this.failures));
      this.failures += 1;
    }
    this.actions.changed();
  }

  // Ask again at once for what could not be fetched.
  retry() {
    if (!this.failures) return;
    clearTimeout(this.later);
    this.ask(this.asked, this.look);
  }

  end() {
    clearTimeout(this.later);
    this.asked = null;
  }

  show(cell) {
    this.cell = cell;
    this.node.removeAttribute("aria-busy");
    this.hint.textContent = HINT;
    this.hint.hidden = Boolean(cell);
    for (const node of [this.head, this.body]) node.hidden = !cell;
    this.reason.hidden = !cell?.reason;
    if (!cell) return;
    this.title.replaceChildren(cell.why ? `${cell.why}: ` : "", el("bdi", {}, cell.title), cell.headline ? `: ${cell.headline}` : "");
    this.title.title = this.title.textContent;
    this.reason.textContent = cell.reason;
    this.counts.textContent = this.counts.title = cell.counts;
    this.scatter.show(cell.h ? { ...cell, h: floats(cell.h), delta_m: floats(cell.delta_m) } : null);
    this.fillNext(cell);
    this.all.textContent = `All of layer ${cell.layer} →`;
    this.rows = null;
  }

  paint() {
    if (!this.cell) return;
    const { theme, height, color } = this.look;
    this.scatter.node.hidden = !this.cell.h;
    const width = this.scatter.node.clientWidth;
    if (this.cell.h && width) this.scatter.draw({ width, height, theme, color });
    const narrow = this.node.clientWidth < NARROW;
    this.fillTable(narrow ? 5 : Math.max(3, Math.floor((height - 58) / ROW) - 1));
  }

  fillTable(most) {
    const rows = this.cell.worst.slice(0, most);
    if (this.rows === rows.length) return;
    this.rows = rows.length;
    const heads = COLUMNS.map(([name, words]) => el("th", { scope: "col", title: words }, name));
    const lines = rows.map((row) => {
      const values = [row.h, row.delta_v, row.m, row.delta_m].map((value) => sci(number(value)));
      const dead = row.dead ? [el("span", { class: "dead", title: "dead: m is exactly 0" }, " ◇")] : [];
      return el("tr", {}, el("td", {}, String(row.j), ...dead), ...values.map((text) => el("td", {}, text)));
    });
    const caption = el("caption", { class: "spoken" }, "The coordinates with the largest changes");
    this.table.replaceChildren(caption, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines));
    this.table.hidden = !rows.length;
  }

  fillNext({ context, patched }) {
    [context, patched].forEach((pairs, i) => {
      const words = pairs.flatMap(([text, probability], k) => [
        k ? " · " : "",
        el("bdi", {}, text),
        ` ${sci(number(probability))}`,
      ]);
      const who = el("b", {}, i ? "patched: " : "next, with context: ");
      this.next[i].replaceChildren(who, ...(words.length ? words : ["no number"]));
      this.next[i].title = this.next[i].textContent;
    });
  }
}
