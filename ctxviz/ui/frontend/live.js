// The live view: pulls what is new of a run and draws it.

import { drawAlarms } from "./alarms.js";
import { LineChart } from "./chart.js";
import { CHARTS } from "./charts.js";
import { HeatMap } from "./heatmap.js";
import { build, drawLegend, legendEntries } from "./layout.js";
import { el, readTheme } from "./look.js";
import { Pointer } from "./pointer.js";
import { rasterise, saveButtons, standalone } from "./save.js";
import { sourceFor } from "./source.js";
import { headline, shareOf, statusOf } from "./status.js";
import { promptChips, promptWords, TokenStrip } from "./strip.js";
import { dress } from "./style.js";

const FRAME_PAUSE = 90;
const WORDS_PAUSE = 3000;
const LONG_PROMPT = 80;
const mounted = new WeakMap();

// Called by Streamlit at first, at every change of its data or theme, and for no other reason.
export default function mount(component) {
  const root = component.parentElement;
  const live = mounted.get(root) ?? new Live(root);
  mounted.set(root, live);
  live.update(component);
  const call = live.calls;
  return () => {
    if (live.calls !== call) return;
    live.end();
    mounted.delete(root);
  };
}

class Live {
  constructor(root) {
    this.calls = 0;
    this.selected = this.layer = null;
    this.charts = CHARTS.map((about) => new LineChart(about));
    this.heat = new HeatMap();
    this.strip = new TokenStrip((step) => this.pick(step, null));
    this.parts = build(this.charts, this.heat, this.strip);
    this.pointer = new Pointer(this);
    this.addButtons();
    for (const select of [this.parts.metric, this.parts.variant]) {
      select.addEventListener("change", () => this.choose());
    }
    this.resized = new ResizeObserver(() => this.changed());
    this.resized.observe(this.parts.view);
    root.append(this.parts.view);
    dress(root, "live.css").then(() => this.changed());
  }

  update(component) {
    this.calls += 1;
    this.component = component;
    const { view, revision, focus } = component.data;
    const source = sourceFor(view);
    const asked = JSON.stringify([view, focus]);
    if (asked !== this.asked) {
      [this.asked, this.selected, this.layer] = [asked, focus.step, focus.layer];
      source.want(focus.metric, focus.variant);
    }
    if (source !== this.source) {
      this.leave?.();
      this.source = source;
      this.leave = source.subscribe(() => this.changed());
    } else if (revision !== this.revision) {
      source.wake();
    }
    this.revision = revision;
    this.readTheme();
    this.changed();
  }

  end() {
    this.leave?.();
    this.resized.disconnect();
    clearTimeout(this.timer);
    cancelAnimationFrame(this.request);
    this.parts.view.remove();
  }

  readTheme() {
    const theme = readTheme(this.parts.view);
    if (JSON.stringify(theme) !== JSON.stringify(this.theme)) this.theme = theme;
    this.parts.view.classList.toggle("dark", theme.dark);
  }

  // Draw soon: at the next frame, and not more often than FRAME_PAUSE.
  changed() {
    if (this.waiting) return;
    this.waiting = true;
    const pause = Math.max(0, (this.drawnAt ?? -FRAME_PAUSE) + FRAME_PAUSE - performance.now());
    this.timer = setTimeout(() => {
      this.request = requestAnimationFrame(() => {
        this.waiting = false;
        this.drawnAt = performance.now();
        this.draw();
      });
    }, pause);
  }

  draw() {
    const { source, parts, theme } = this;
    this.drawStatus();
    const shown = Boolean(source.run);
    for (const name of ["promptBox", "written", "figures", "field"]) parts[name].hidden = !shown;
    if (this.alarms !== source.alarms) this.drawAlarms();
    if (!shown || !parts.view.clientWidth) return;
    if (this.run !== source.run) this.meet();
    const frame = { theme, selected: this.selected, layer: this.layer };
    this.strip.draw(source, frame);
    this.charts.forEach((chart, i) => {
      if (chart.shownIn(source)) chart.draw(source, { ...frame, width: parts.plots[i].plot.clientWidth });
    });
    if (this.legendOf !== source.references || this.legendTheme !== theme) this.drawLegend();
    this.drawField(frame);
    this.describe();
  }

  // A run that was not drawn before.
  meet() {
    const { source, parts } = this;
    this.run = source.run;
    const { prompt, metrics, look } = source.run;
    parts.prompt.replaceChildren(...promptChips(prompt, this.pointer));
    parts.promptSummary.textContent = promptWords(prompt);
    parts.promptBox.open = prompt.items.length <= LONG_PROMPT;
    options(
      parts.metric,
      Object.entries(metrics).map(([key, { title, symbol }]) => [key, `${title}, ${symbol}`]),
    );
    options(
      parts.variant,
      look.variants.map(({ label }, k) => [k, label]),
    );
    parts.notes.hidden = !source.run.notes.length;
    parts.notes.replaceChildren(...source.run.notes.map((note) => el("p", { class: "message" }, note)));
    this.charts.forEach((chart, i) => (parts.plots[i].figure.hidden = !chart.shownIn(source)));
    parts.charts.classList.toggle("pairs", source.run.extras.length === 1);
    this.legendOf = null;
  }

  drawStatus() {
    const { source, parts } = this;
    const { state, message } = source.status;
    putEmphasised(parts.headline, ...headline(source));
    put(parts.detail, source.verdict?.[1] ?? "");
    put(parts.status, statusOf(source));
    put(parts.message, source.trouble || message);
    parts.message.classList.toggle("alarm", Boolean(source.trouble) || state === "failed");
    parts.view.dataset.state = state;
    const share = shareOf(source);
    parts.bar.hidden = share === null;
    if (share === undefined) parts.bar.removeAttribute("value");
    else if (share !== null) parts.bar.value = share;
    this.speak(state);
  }

  // Tell a screen reader at once how it ended, and in between not too often.
  speak(state) {
    const now = performance.now();
    if (state === this.spokenState && (!this.source.busy || now - this.spokenAt < 2 * WORDS_PAUSE)) return;
    [this.spokenState, this.spokenAt] = [state, now];
    put(this.parts.spoken, [statusOf(this.source), this.source.verdict?.[0]].filter(Boolean).join(". "));
  }

  drawAlarms() {
    this.alarms = this.source.alarms;
    drawAlarms(this.parts.alarms, this.alarms, (step, layer, variant) => this.pick(step, layer, variant));
  }

  drawLegend() {
    drawLegend(this.parts.legend, legendEntries(this.source, this.charts, this.theme));
    [this.legendOf, this.legendTheme] = [this.source.references, this.theme];
  }

  drawField(frame) {
    const { source, parts, heat } = this;
    const { metric, variant } = source.field.metric ? source.field : source.wanted;
    const about = source.run.metrics[metric];
    put(parts.fieldTitle, `${about.title}, by layer and token`);
    put(parts.fieldCaption, about.meaning);
    [parts.metric.value, parts.variant.value] = [metric, variant];
    heat.draw(source, { ...frame, width: heat.frame.clientWidth });
    const legend = heat.legend;
    if (this.special !== String(legend)) {
      this.special = String(legend);
      parts.special.replaceChildren(...legend.map(specialKey));
    }
  }

  // The text alternatives, not at every token.
  describe() {
    const { source, charts, heat } = this;
    const now = performance.now();
    if (source.busy && now - (this.describedAt ?? -WORDS_PAUSE) < WORDS_PAUSE) return;
    this.describedAt = now;
    for (const chart of charts.filter((one) => one.shownIn(source)))
      chart.node.setAttribute("aria-label", chart.describe(source));
    const { metric, variant } = source.field;
    const { metrics, look } = source.run;
    if (metric)
      heat.node.setAttribute("aria-label", heat.describe(metrics[metric], look.variants[variant].label));
  }

  choose() {
    const field = { metric: this.parts.metric.value, variant: Number(this.parts.variant.value) };
    this.source.want(field.metric, field.variant);
    this.component.setStateValue("field", field);
  }

  pick(step, layer, variant = null) {
    [this.selected, this.layer] = [step, layer];
    this.changed();
    this.component.setTriggerValue("picked", {
      step,
      layer,
      variant: variant ?? this.source.field.variant,
    });
  }

  addButtons() {
    const { parts, charts, heat } = this;
    charts.forEach((chart, i) => {
      const { title, key } = chart.about;
      const draw = () =>
        standalone(chart.node, title, legendEntries(this.source, charts, this.theme), this.theme);
      parts.plots[i].head.append(
        this.buttons(
          `“${title}”`,
          () => key,
          draw,
          () => ({ chart: key }),
        ),
      );
    });
    const draw = () => {
      const drawing = heat.node.cloneNode(true);
      drawing.prepend(heat.vector());
      return standalone(drawing, this.fieldTitle(), [], this.theme);
    };
    const query = () => ({
      chart: "field",
      metric: this.source.field.metric,
      variant: this.source.field.variant,
    });
    parts.fieldHead.append(this.buttons("the heat map", () => this.source.field.metric, draw, query));
    const text = this.buttons(
      "the tokens",
      () => "tokens",
      null,
      () => ({ chart: "tokens" }),
    );
    parts.writtenHead.append(text);
  }

  fieldTitle() {
    const { field, run } = this.source;
    return `${run.metrics[field.metric].title}, ${run.look.variants[field.variant].label}`;
  }

  // Download buttons; without `draw` there is only the CSV.
  buttons(what, key, draw, query) {
    const name = () => `ctxviz-${key()}-${this.source.run.model}`.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    const csv = async () => {
      const answer = await fetch(`/_ctxviz/table/${this.source.id}?${new URLSearchParams(query())}`);
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      return answer.blob();
    };
    const pictures = draw ? { svg: draw, png: async () => rasterise(draw()) } : {};
    return saveButtons(what, name, { ...pictures, csv });
  }
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function putEmphasised(node, text, emphasis) {
  if (node.textContent === text) return;
  const at = emphasis ? text.indexOf(emphasis) : -1;
  if (at < 0) node.textContent = text;
  else node.replaceChildren(text.slice(0, at), el("em", {}, emphasis), text.slice(at + emphasis.length));
}

function options(select, entries) {
  select.replaceChildren(...entries.map(([value, text]) => el("option", { value }, text)));
}

function specialKey([words, glyph, colour]) {
  const swatch = el("i", { class: "cell" }, glyph);
  swatch.style.background = colour;
  return el("span", { class: "key" }, swatch, words);
}
