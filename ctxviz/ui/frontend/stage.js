// Everything on the live view that belongs to one run. Another run has another stage: nothing of one can stay.

import { Answers } from "./answers.js";
import { CellView } from "./cell.js";
import { LineChart } from "./chart.js";
import { chartData, chartsOf, fileName, titleOf } from "./charts.js";
import { Zoom } from "./fieldzoom.js";
import { el } from "./look.js";
import { MapView } from "./mapview.js";
import { fileMenu, iconButton } from "./menus.js";
import { promptChips, promptWords } from "./prompt.js";
import { shadeKey } from "./strip.js";

const MEMORIES = 8;
const memories = new Map();
// The tab of the line charts stays when another run is looked at.
let lastTab = "tvd";

// What a reader chose in the figures of a run, kept while the page is open: the view may be mounted again.
function memoryOf({ id, epoch }) {
  const key = `${id}:${epoch}`;
  const memory = memories.get(key) ?? { zoom: new Zoom(), chart: null };
  memories.delete(key);
  memories.set(key, memory);
  while (memories.size > MEMORIES) memories.delete(memories.keys().next().value);
  return memory;
}

export class Stage {
  // `actions`: pick(step, layer, variant), choose({ metric, variant }), openLayers(), enlarge(name), changed().
  constructor(source, actions) {
    Object.assign(this, { source, run: source.run, actions, memory: memoryOf(source) });
    const { run } = source;
    this.charts = chartsOf(run);
    this.about = this.charts.find(({ key }) => key === lastTab) ?? this.charts[0];
    this.answers = new Answers((step) => actions.pick(step, null));
    this.cell = new CellView(source, actions);
    const changed = () => actions.changed();
    const mapActions = { ...actions, pick: (step, layer) => actions.pick(step, layer), changed };
    this.map = new MapView(run, this.memory.zoom, mapActions);
    this.chart = new LineChart({ pick: (step) => actions.pick(step, null), changed: () => this.chartChanged() });
    if (this.memory.chart) this.chart.state = this.memory.chart;
    this.prompt = this.buildPrompt(run.prompt);
    this.notes = el("div", { class: "notes" }, ...run.notes.map((note) => el("p", { class: "message" }, note)));
    this.lines = this.buildLines();
    this.figures = el("section", { class: "figures" }, this.map.node, this.lines);
    this.more = el("details", { class: "key-box" }, el("summary", {}, "What the marks mean"), shadeKey());
    this.more.append(this.textFiles());
    this.node = el("div", { class: "stage" }, this.notes, this.prompt.panel, this.answers.node, this.figures);
    this.node.append(this.cell.node, this.more);
  }

  buildPrompt(prompt) {
    const panel = el("div", { class: "prompt-panel", hidden: "" });
    const words = promptWords(prompt);
    const button = el("button", { type: "button", class: "link prompt-words", "aria-expanded": "false" }, words);
    button.addEventListener("click", () => {
      panel.hidden = !panel.hidden;
      button.setAttribute("aria-expanded", String(!panel.hidden));
      if (!panel.childElementCount) panel.append(...this.promptParts(prompt));
      this.actions.changed();
    });
    return { panel, button };
  }

  promptParts(prompt) {
    const tip = el("div", { class: "tip", hidden: "" });
    const pointer = {
      atTile: (grid, tile, words) => {
        tip.textContent = words;
        tip.hidden = false;
        const [outer, inner] = [this.prompt.panel.getBoundingClientRect(), grid.getBoundingClientRect()];
        tip.style.left = `${inner.right - outer.left + 10}px`;
        tip.style.top = `${inner.top - outer.top + this.prompt.panel.scrollTop + tile.offsetTop}px`;
        if (inner.right + tip.offsetWidth + 16 > outer.right) {
          tip.style.left = "0px";
          tip.style.top = `${inner.bottom - outer.top + this.prompt.panel.scrollTop + 4}px`;
        }
      },
      clear: () => (tip.hidden = true),
    };
    return [el("div", { class: "prompt-chips" }, ...promptChips(prompt, pointer)), tip];
  }

  buildLines() {
    const tabs = el("div", { class: "tabs", role: "tablist", "aria-label": "Line charts" });
    this.tabs = this.charts.map((about, i) => {
      const tab = el("button", { type: "button", role: "tab", class: "tab", title: about.title }, about.tab);
      tab.addEventListener("click", () => this.showTab(i));
      tab.addEventListener("keydown", (event) => {
        const to = { ArrowRight: i + 1, ArrowLeft: i - 1 }[event.key];
        if (!this.charts[to]) return;
        event.preventDefault();
        this.showTab(to);
        this.tabs[to].focus();
      });
      return tab;
    });
    tabs.append(...this.tabs);
    const name = () => fileName(this.run, this.about.key);
    const title = () => titleOf(this.run, this.about.title);
    const files = {
      svg: () => this.chart.toSvg(title()),
      png: () => this.chart.toPng(title()),
      csv: () => this.source.csv({ chart: this.about.key }),
    };
    const enlarge = iconButton("Enlarge, or press f", "⤢", () => this.actions.enlarge(this.about.key));
    const tools = el("div", { class: "tools" }, this.chart.tools, fileMenu("the line chart", name, files), enlarge);
    this.chartCaption = el("figcaption", { class: "caption" });
    const head = el("div", { class: "head" }, tabs);
    const under = el("div", { class: "under" }, this.chartCaption, tools);
    const figure = el("figure", { class: "lines" }, head, under, this.chart.node, this.chart.legend);
    this.marktab();
    return figure;
  }

  // The tab of that chart, if the run has it.
  showChart(key) {
    const i = this.charts.findIndex((about) => about.key === key);
    if (i >= 0) this.showTab(i);
  }

  // The tab and its chart; zoom belongs to one quantity.
  showTab(i) {
    this.about = this.charts[i];
    lastTab = this.about.key;
    this.marktab();
    this.actions.changed();
  }

  marktab() {
    this.tabs.forEach((tab, i) => {
      const on = this.charts[i] === this.about;
      tab.setAttribute("aria-selected", String(on));
      tab.setAttribute("tabindex", on ? "0" : "-1");
    });
    this.chartCaption.textContent = this.chartCaption.title = this.about.caption;
  }

  chartChanged() {
    this.memory.chart = this.chart.state;
    this.actions.changed();
  }

  textFiles() {
    return fileMenu("the tokens", () => fileName(this.run, "tokens"), { csv: () => this.source.csv({ chart: "tokens" }) });
  }

  // `look` holds focus (step, layer, variant, metric), theme, and the heights of the figures and of the cell.
  draw({ focus, theme, heights }) {
    const { source, run } = this;
    const variant = focus.variant < run.look.variants.length ? focus.variant : 0;
    const step = focus.step !== null && focus.step < source.n ? focus.step : null;
    this.answers.draw(source, step, variant);
    const { color } = run.look.variants[variant];
    this.cell.draw({ step, layer: step === null ? null : focus.layer, variant, theme, height: heights.cell, color });
    const { opened } = this.cell;
    const layer = focus.layer ?? (opened?.step === step && opened.variant === variant ? opened.layer : null);
    const marked = step === null ? opened : layer === null ? null : { step, layer };
    this.drawChart(step, theme, heights.figure);
    // The map has no legend of its own as a rule: it is as high as the chart with its legend.
    const height = heights.figure + this.chart.legend.offsetHeight - this.map.legend.offsetHeight;
    this.map.draw(source, { metric: focus.metric, variant, selected: marked, theme, height });
  }

  drawChart(selected, theme, height) {
    const { chart, source, about } = this;
    const width = this.lines.clientWidth;
    if (!width || !source.n) return;
    chart.draw(chartData(source, about), { width, height, theme, selected, compact: true });
  }

  // The height of both figures without their plots.
  get around() {
    return this.figures.offsetHeight - this.chart.node.offsetHeight;
  }

  end() {
    this.map.end();
    this.cell.end();
    this.chart.hands.forget();
    this.node.remove();
  }
}
