// The heat map of the live view: one metric of one variant, with its choices, zoom, legend and files.

import { domainFor } from "./axes.js";
import { fileName, titleOf } from "./charts.js";
import { Explorer } from "./fieldexplorer.js";
import { listen } from "./fieldhands.js";
import { legendEntries, naming } from "./fieldlayout.js";
import { FieldMap } from "./fieldmap.js";
import { scaleFor } from "./fieldscale.js";
import { drawLegend } from "./legend.js";
import { colourScale, el } from "./look.js";
import { fileMenu, iconButton } from "./menus.js";
import { rasterise, standalone } from "./save.js";

const KEYS =
  "the arrow keys move over the cells, Enter picks one; drag to zoom in, double click or 0 to see all";
const SETTLE = 500;

// The map of one run. `actions`: pick(step, layer), choose({ metric, variant }), enlarge(name), changed().
export class MapView {
  constructor(run, zoom, actions) {
    Object.assign(this, { run, zoom, actions, n: 0, layers: run.layers });
    this.colours = colourScale(run.look.cividis);
    this.hands = new Explorer(this);
    this.map = new FieldMap();
    this.map.frame.setAttribute("aria-label", `Heat map; ${KEYS}`);
    this.forget = listen(this.map, this.hands);
    this.build();
  }

  build() {
    const { run, actions } = this;
    const choices = (entries, label) => {
      const select = el("select", { "aria-label": label });
      select.append(...entries.map(([value, text]) => el("option", { value }, text)));
      select.addEventListener("change", () =>
        actions.choose({ metric: this.metricBox.value, variant: Number(this.variantBox.value) }),
      );
      return select;
    };
    const metrics = Object.entries(run.metrics).map(([key, about]) => [key, naming(about)]);
    this.metricBox = choices(metrics, "The heat map shows");
    this.variantBox = choices(
      run.look.variants.map(({ label }, k) => [k, label]),
      "The heat map is of",
    );
    const tools = el("div", { class: "tools", role: "group", "aria-label": "Heat map" });
    this.wholeButton = iconButton("Show the whole run", "whole", () => this.hands.whole());
    tools.append(this.wholeButton, this.files(), iconButton("Enlarge, or press f", "⤢", () => actions.enlarge("field")));
    const head = el("div", { class: "head" }, el("div", { class: "shows" }, this.metricBox, this.variantBox), tools);
    this.caption = el("figcaption", { class: "caption" });
    this.legend = el("div", { class: "legend" });
    this.tip = el("div", { class: "tip", hidden: "" });
    this.spoken = el("div", { class: "spoken", role: "status", "aria-live": "polite" });
    this.map.frame.append(this.tip);
    this.node = el("figure", { class: "map" }, head, this.caption, this.map.frame, this.legend, this.spoken);
  }

  // `look` holds metric, variant, selected ({ step, layer } or null), chosen, theme, and the map's height.
  draw(source, look) {
    Object.assign(this, { source, n: source.n, look });
    const { metric, variant, theme, height } = look;
    const about = this.run.metrics[metric];
    const table = source.table(metric, variant);
    [this.metricBox.value, this.variantBox.value] = [metric, variant];
    this.caption.textContent = this.caption.title = about.meaning;
    this.wholeButton.hidden = !this.hands.zoomed;
    const scale = this.scaleOf(about, table);
    const whole = !this.zoom.tokens;
    const box = this.hands.box;
    const frameBox = whole && source.busy ? { ...box, to: domainFor(source) } : box;
    if (!source.n || !this.map.frame.clientWidth) return;
    const texts = (step) => source.tokens[step]?.text ?? "";
    const width = this.map.frame.clientWidth;
    const frame = { table, scale, box: frameBox, whole, texts, theme, width, room: height };
    const drawn = this.map.draw(frame, source.busy);
    if (this.map.late) this.later ??= setTimeout(() => this.retry(), SETTLE);
    if (drawn) this.drawnAnew(about);
    this.outline();
    // Another metric, variant or size is told of the same cell.
    this.tell();
  }

  retry() {
    this.later = null;
    this.actions.changed();
  }

  scaleOf(about, table) {
    if (this.scaledFor !== table) [this.scaledFor, this.scale] = [table, scaleFor(about, table, this.colours, [null, null])];
    else this.scale.grow();
    return this.scale;
  }

  drawnAnew() {
    const { map, look } = this;
    map.node.setAttribute("aria-label", map.describe(this.run.look.variants[look.variant].label));
    drawLegend(this.legend, legendEntries(map));
    const [least, most] = this.scale.extremes ?? [];
    if (least === most && map.table.n > 1)
      this.legend.append(el("span", {}, `Every value is ${this.scale.words(least)}.`));
    if (map.unmarked) this.legend.append(el("span", {}, "Marks appear when zoomed in."));
    if (map.crowded) this.legend.append(el("span", {}, `Tokens share pixels: ${this.scale.shared}.`));
  }

  outline() {
    const { map, look, hands } = this;
    map.choose(look.selected);
    map.point(hands.cursor);
  }

  get selected() {
    const { selected } = this.look;
    return selected && selected.step < this.n ? selected : null;
  }

  changed() {
    this.actions.changed();
  }

  pick({ step, layer }) {
    this.actions.pick(step, layer);
  }

  moved(cell, speak) {
    if (!this.source) return;
    if (speak) this.draw(this.source, this.look);
    else this.outline();
    const told = this.tell();
    if (speak && told) this.spoken.textContent = told;
  }

  // Beside the cell that is pointed at what it holds; the same in words.
  tell() {
    const cell = this.hands.cursor;
    this.tip.hidden = !cell;
    if (!cell) return "";
    const { about } = this.scale;
    const title = `layer ${cell.layer}, token ${cell.step} “${this.source.tokens[cell.step].text}”`;
    const words = `${about.signed || about.symbol} = ${this.map.table.words(this.scale, cell)}`;
    this.tip.replaceChildren(el("bdi", { class: "tip-title" }, title), el("span", { class: "tip-value" }, words));
    this.place(cell);
    return `${title}; ${words}`;
  }

  // Beside the cell, inside the frame.
  place(cell) {
    const { tip, map } = this;
    const { x, y, w, h } = map.place(cell.step, cell.layer);
    const right = x + w + 12 + tip.offsetWidth <= map.width;
    tip.style.left = `${Math.max(0, right ? x + w + 12 : x - 12 - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(0, Math.min(map.height - tip.offsetHeight, y + h / 2 - tip.offsetHeight / 2))}px`;
  }

  get title() {
    const { metric, variant } = this.look;
    return titleOf(this.run, this.run.metrics[metric].title, this.run.look.variants[variant].label);
  }

  files() {
    const svg = () => standalone(this.map.drawing(), this.title, legendEntries(this.map), this.look.theme);
    const name = () => fileName(this.run, this.look.metric, this.run.look.variants[this.look.variant].slug);
    const csv = () => {
      const { metric, variant } = this.look;
      return this.source.csv({ metric, variant });
    };
    return fileMenu("the heat map", name, { svg, png: async () => rasterise(svg()), csv });
  }

  end() {
    this.forget();
    clearTimeout(this.later);
  }
}
