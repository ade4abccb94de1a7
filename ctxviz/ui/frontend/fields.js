// Two maps of layers x tokens side by side: one variant, two metrics, one cross-hair, one zoom.

import { domainFor } from "./axes.js";
import { drawLegend } from "./legend.js";
import { Explorer } from "./fieldexplorer.js";
import { listen } from "./fieldhands.js";
import { build, drawEnds, legendEntries, naming, usable } from "./fieldlayout.js";
import { fileButtons } from "./fieldfiles.js";
import { scaleFor } from "./fieldscale.js";
import { stateFor } from "./fieldstate.js";
import { Tables } from "./fieldtable.js";
import { colourScale, el, readTheme } from "./look.js";
import { mounting } from "./mounting.js";
import { sourceFor } from "./source.js";
import { dress } from "./style.js";
import { counted } from "./words.js";

const HINT = "Point at a cell, or move with the arrow keys while a map has the focus.";
const LOADING = "Loading …";
const NOTHING = "There is no token yet; the maps appear with the first.";

export default mounting((root) => new Fields(root));

class Fields {
  constructor(root) {
    this.hands = new Explorer(this);
    this.parts = build();
    this.maps = this.parts.sides.map(({ map }) => map);
    this.parts.sides.forEach((side, i) => this.attend(side, i));
    const { hands } = this;
    this.parts.zoomIn.addEventListener("click", () => hands.zoom(0.5, this.selected));
    this.parts.zoomOut.addEventListener("click", () => hands.zoom(2, this.selected));
    this.parts.whole.addEventListener("click", () => hands.whole());
    this.resized = new ResizeObserver(() => this.changed());
    this.resized.observe(this.parts.view);
    root.append(this.parts.view);
    Promise.all(["live.css", "fields.css"].map((name) => dress(root, name))).then(() => this.changed());
  }

  update(component) {
    this.component = component;
    const { view, revision, variant, selected, metrics } = component.data;
    const source = sourceFor(view);
    if (source !== this.source) this.follow(source, view);
    else if (revision !== this.revision) source.wake();
    [this.revision, this.variant] = [revision, variant];
    this.state.metrics.hear(metrics);
    this.state.selected.hear(selected);
    const theme = readTheme(this.parts.view);
    if (JSON.stringify(theme) !== JSON.stringify(this.theme)) this.theme = theme;
    this.parts.view.classList.toggle("dark", theme.dark);
    this.changed();
  }

  follow(source, view) {
    this.leave?.();
    this.tables?.end();
    this.source = source;
    this.state = stateFor(view);
    this.tables = new Tables(source, () => this.changed());
    this.leave = source.subscribe(() => this.changed());
    this.hands.cursor = null;
    this.forget();
  }

  // A click that still waits for a second one was made in what is gone.
  forget() {
    for (const forget of this.forgets) forget();
  }

  end() {
    this.leave?.();
    this.forget();
    this.tables?.end();
    this.resized.disconnect();
    cancelAnimationFrame(this.request);
    clearTimeout(this.later);
    this.parts.view.remove();
  }

  changed() {
    if (this.request) return;
    this.request = requestAnimationFrame(() => {
      this.request = null;
      this.draw();
    });
  }

  drawLater() {
    this.later ??= setTimeout(() => {
      this.later = null;
      this.changed();
    }, 500);
  }

  get n() {
    return this.source.n;
  }

  get layers() {
    return this.source.run?.layers ?? 0;
  }

  get selected() {
    const [step, layer] = this.state.selected.value ?? [];
    return step < this.n && layer < this.layers ? { step, layer } : null;
  }

  // The metric of a side; a name that is not known becomes the first.
  metric(i) {
    const known = this.source.run.fields;
    const wanted = this.state.metrics.value?.[i];
    return Object.hasOwn(known, wanted) ? wanted : Object.keys(known)[0];
  }

  draw() {
    const { source, parts, tables } = this;
    const shown = Boolean(source.run) && this.n > 0;
    const quiet = shown ? "" : source.status.message || (source.epoch < 0 ? LOADING : NOTHING);
    const message = source.trouble || tables.trouble || quiet;
    parts.message.textContent = message;
    parts.message.hidden = !message;
    parts.shown.hidden = !shown;
    if (!shown || !parts.view.clientWidth) return;
    if (this.run !== source.run) this.meet();
    this.box = this.state.zoom.box(this.n, this.layers);
    parts.sides.forEach((side, i) => this.drawSide(side, i, source.busy));
    this.drawTools();
    this.drawCells();
  }

  // A run that was not drawn before.
  meet() {
    this.run = this.source.run;
    this.colours = colourScale(this.run.look.cividis);
    const entries = Object.entries(this.run.fields);
    for (const { metric } of this.parts.sides) {
      metric.replaceChildren(...entries.map(([key, about]) => el("option", { value: key }, naming(about))));
    }
  }

  get variantIndex() {
    return this.variant < this.run.look.variants.length ? this.variant : 0;
  }

  // What a map holds. Of a run at work shown whole there is room for tokens to come: its cells stay in place.
  get frameBox() {
    const { source, state } = this;
    return state.zoom.tokens || !source.busy ? this.box : { ...this.box, to: domainFor(source) };
  }

  drawSide(side, i, busy) {
    const key = this.metric(i);
    const about = this.run.fields[key];
    const table = this.tables.get(key, this.variantIndex);
    const range = this.state.range(i, key);
    side.metric.value = key;
    side.caption.textContent = about.meaning;
    drawEnds(side, about, range);
    this.fit(side, about, table, range);
    const { theme, frameBox: box } = this;
    const texts = (step) => this.source.tokens[step]?.text ?? "";
    const width = side.map.frame.clientWidth;
    const whole = !this.state.zoom.tokens;
    const drawn = side.map.draw({ table, scale: side.scale, box, whole, texts, theme, width }, busy);
    if (side.map.late) this.drawLater();
    if (!drawn) return;
    const { label } = this.run.look.variants[this.variantIndex];
    side.map.node.setAttribute("aria-label", side.map.describe(label));
    drawLegend(side.legend, legendEntries(side.map));
    const notes = [
      table.n < this.n && "Fetching the numbers …",
      side.map.unmarked && "Marks appear when zoomed in.",
      side.map.crowded && `Tokens share pixels: ${side.scale.shared}.`,
    ];
    side.legend.append(...notes.filter(Boolean).map((text) => el("span", {}, text)));
  }

  fit(side, about, table, range) {
    const now = [this.run, table, about, range.join()];
    if (side.fitted?.every((value, k) => value === now[k])) {
      side.scale.grow();
      return;
    }
    side.fitted = now;
    side.scale = scaleFor(about, table, this.colours, usable(about, range) ? range : [null, null]);
  }

  drawTools() {
    const { parts, box } = this;
    const { from, to, low, high } = box;
    parts.whole.disabled = parts.zoomOut.disabled = !this.hands.zoomed;
    const part = (noun, zoomed, first, end, total) =>
      zoomed ? `${noun}s ${first} to ${end - 1} of ${total}` : `all ${counted(total, noun)}`;
    const tokens = part("token", this.state.zoom.tokens, from, to, this.n);
    const layers = part("layer", this.state.zoom.layers, low, high, this.layers);
    parts.where.textContent = `${tokens}, ${layers}, ${this.run.look.variants[this.variantIndex].label}`;
    for (const map of this.maps) map.frame.classList.toggle("zoomed", this.hands.zoomed);
  }

  drawCells() {
    const { cursor } = this.hands;
    const cell = cursor ?? this.selected;
    for (const map of this.maps) {
      map.choose(this.selected);
      map.point(cursor);
    }
    this.parts.readout.replaceChildren(...(cell ? this.readout(cell) : [HINT]));
  }

  readout({ step, layer }) {
    const place = `layer ${layer}, token ${step} `;
    const token = el("bdi", {}, `“${this.source.tokens[step].text}”`);
    const values = this.parts.sides.map(({ scale, map }) => {
      const { symbol, signed } = scale.about;
      const special = scale.special(map.table.value(step, layer));
      const words = map.table.words(scale, { step, layer });
      const note = ["above", "below"].includes(special) ? `, ${special} the range` : "";
      return el("span", {}, `${signed || symbol} `, el("b", {}, words), note);
    });
    return [el("span", { class: "cell-name" }, place, token), ...values];
  }

  // What `Explorer` asks of the owner of maps.
  get zoom() {
    return this.state.zoom;
  }

  moved(cell, speak) {
    if (cell && speak) {
      this.draw();
      const said = [...this.parts.readout.childNodes].map((node) => node.textContent);
      this.parts.spoken.textContent = said.join("; ");
    } else if (this.box) this.drawCells();
  }

  pick(cell) {
    this.state.selected.choose([cell.step, cell.layer]);
    this.changed();
    this.component.setTriggerValue("picked", cell);
  }

  attend(side, i) {
    this.forgets = [...(this.forgets ?? []), listen(side.map, this.hands)];
    side.metric.addEventListener("change", () => {
      const chosen = [0, 1].map((k) => (k === i ? side.metric.value : this.metric(k)));
      this.state.metrics.choose(chosen);
      this.component.setStateValue("metrics", chosen);
      this.changed();
    });
    for (const input of [side.least, side.most]) {
      input.addEventListener("change", () => {
        const number = ({ value }) => (value === "" ? null : Number(value));
        this.state.ranges[i][this.metric(i)] = [number(side.least), number(side.most)];
        this.changed();
      });
    }
    side.head.append(fileButtons(this, side, i));
  }
}
