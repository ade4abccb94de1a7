// The live view: pulls what is new of a run and draws it.

import { Alarms } from "./alarms.js";
import { Enlarged } from "./enlarge.js";
import { el, readTheme } from "./look.js";
import { mounting } from "./mounting.js";
import { sourceFor } from "./source.js";
import { Stage } from "./stage.js";
import { headline, shareOf, statusOf } from "./status.js";
import { dress } from "./style.js";

const FRAME_PAUSE = 90;
const WORDS_PAUSE = 6000;
// The head of the cell and the space around it, in px.
const SPARE = 56;
const FITS = 3;
const LEAST = { figure: 120, cell: 112 };
// Figures stand one above the other where the view is narrower, as in live.css.
const NARROW = 620;
// Where an alarm is seen, if it is in one of the live figures.
const SHOWN_IN = {
  "blow-up": { metric: "scale_ratio" },
  "near-overflow": { metric: "scale_max_abs" },
  "replay-failure": { chart: "replay_tvd" },
};
const SHEETS = ["live.css", "chart.css"];

// Called by Streamlit at first, at every change of its data or theme, and for no other reason.
export default mounting((root) => new Live(root));

class Live {
  constructor(root) {
    this.root = root;
    this.count = 0;
    this.stage = null;
    this.alarms = new Alarms((...place) => this.follow(...place));
    this.parts = this.build();
    this.large = new Enlarged(this.parts.view);
    this.resized = new ResizeObserver(() => this.changed());
    this.resized.observe(this.parts.view);
    this.onResize = () => this.changed();
    this.onKey = (event) => this.press(event);
    window.addEventListener("resize", this.onResize);
    document.addEventListener("keydown", this.onKey);
    Promise.all(SHEETS.map((name) => dress(root, name))).then(() => this.changed());
  }

  build() {
    const parts = {
      headline: el("h2", { class: "headline" }),
      detail: el("p", { class: "detail" }),
      status: el("span", { class: "status-words" }),
      bar: el("progress", { class: "bar", max: 1, "aria-label": "Progress" }),
      note: el("span", { class: "note" }),
      prompt: el("span", { class: "prompt-place" }),
      message: el("p", { class: "message" }),
      spoken: el("div", { class: "spoken", role: "status", "aria-live": "polite" }),
      place: el("div"),
    };
    const verdict = el("div", { class: "verdict" }, this.alarms.node, parts.headline);
    parts.detail.addEventListener("click", () => parts.detail.classList.toggle("open"));
    const state = el("div", { class: "state" }, parts.status, parts.bar, parts.prompt, parts.note);
    parts.view = el("div", { class: "view" }, verdict, parts.detail, state, parts.message, parts.place, parts.spoken);
    return parts;
  }

  // What is looked at has one owner, the page; `heard` tells how much of what was done here it has followed, so
  // that an answer older than the last click is not obeyed.
  update(component) {
    this.component = component;
    // What Streamlit draws anew, as for another theme, it has emptied.
    if (this.parts.view.parentNode !== this.root) this.root.append(this.parts.view);
    const { view, revision, focus, heard, note } = component.data;
    const source = sourceFor(view);
    if (view !== this.view || heard >= this.count) {
      if (view !== this.view) this.large.close();
      [this.view, this.count, this.focus] = [view, Math.max(heard, this.count), { ...focus }];
    }
    source.want(this.focus.metric, this.focus.variant);
    if (source !== this.source) {
      this.leave?.();
      this.source = source;
      this.leave = source.subscribe(() => this.changed());
    } else if (revision !== this.revision) {
      source.wake();
    }
    this.revision = revision;
    put(this.parts.note, note);
    const theme = readTheme(this.parts.view);
    if (JSON.stringify(theme) !== JSON.stringify(this.theme)) this.theme = theme;
    this.parts.view.classList.toggle("dark", theme.dark);
    this.changed();
  }

  end() {
    this.leave?.();
    this.large.close();
    this.stage?.end();
    this.resized.disconnect();
    window.removeEventListener("resize", this.onResize);
    document.removeEventListener("keydown", this.onKey);
    clearTimeout(this.timer);
    cancelAnimationFrame(this.request);
    this.parts.view.remove();
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
    this.alarms.draw(source.alarms);
    if (this.stage?.run !== source.run) this.meet();
    if (!this.stage || !source.n || !parts.view.clientWidth) return;
    // Text and legends that grew have moved the figures: then they are fitted again before anything is seen.
    let heights = null;
    for (let tries = 0; tries < FITS; tries += 1) {
      const now = this.heights();
      if (heights?.figure === now.figure && heights.cell === now.cell) break;
      heights = now;
      this.stage.draw({ focus: this.focus, theme, heights });
    }
  }

  // A run that was not drawn before has a stage of its own.
  meet() {
    this.large.close();
    this.stage?.end();
    this.stage = null;
    this.parts.prompt.replaceChildren();
    if (!this.source.run) return;
    const actions = {
      pick: (step, layer, variant) => this.pick(step, layer, variant),
      choose: (field) => this.look(field, {}),
      openLayers: () => this.look(this.opened(), { layers: true, picked: true }),
      enlarge: (name) => this.enlarge(name),
      changed: () => this.changed(),
    };
    const stage = new Stage(this.source, mine(actions, () => this.stage === stage));
    this.stage = stage;
    this.parts.prompt.append(this.stage.prompt.button);
    this.parts.place.append(this.stage.node);
  }

  // The heights of figures and cell with which the first screen holds all of it, where it can.
  heights() {
    if (this.large.live) return { figure: Math.max(260, window.innerHeight - 230), cell: 220 };
    if (this.parts.view.clientWidth < NARROW) return { figure: 250, cell: 230 };
    const { view } = this.parts;
    const main = view.getRootNode().host?.closest("[data-testid=stMain]");
    const top = view.getBoundingClientRect().top + (main?.scrollTop ?? 0);
    const above = this.stage.figures.getBoundingClientRect().top - view.getBoundingClientRect().top;
    const cell = Math.max(136, Math.min(300, Math.round(0.19 * window.innerHeight)));
    const rest = window.innerHeight - top - above - this.stage.around - cell - SPARE;
    // A legend of many lines leaves little: then the cell gives some of its own.
    const lack = Math.max(0, LEAST.figure - rest);
    const figure = Math.max(LEAST.figure, Math.min(460, Math.round(rest)));
    return { figure, cell: Math.round(Math.max(LEAST.cell, cell - lack)) };
  }

  drawStatus() {
    const { source, parts } = this;
    const { state, message } = source.status;
    putEmphasised(parts.headline, ...headline(source));
    put(parts.detail, source.verdict?.[1] ?? "");
    parts.detail.title = parts.detail.textContent;
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
    const { run, busy } = this.source;
    const same = state === this.spokenState && run === this.spokenRun;
    if (same && (!busy || now - this.spokenAt < WORDS_PAUSE)) return;
    [this.spokenState, this.spokenRun, this.spokenAt] = [state, run, now];
    put(this.parts.spoken, [statusOf(this.source), this.source.verdict?.[0]].filter(Boolean).join(". "));
  }

  opened() {
    const cell = this.stage?.cell.opened;
    return cell ? { step: cell.step, layer: cell.layer, variant: cell.variant } : {};
  }

  // An alarm that was chosen: its place, in the figure where it shows.
  follow(step, layer, variant, kind) {
    const { metric, chart } = SHOWN_IN[kind] ?? {};
    if (metric) this.focus = { ...this.focus, metric };
    if (chart) this.stage.showChart(chart);
    this.pick(step, layer, variant);
  }

  // A token or cell that was chosen: it is outlined, and what lies behind it is brought into view.
  pick(step, layer, variant = null) {
    this.look({ step, layer, ...(variant === null ? {} : { variant }) }, { picked: true });
    this.stage.cell.retry();
    const { node } = this.stage.cell;
    requestAnimationFrame(() => node.scrollIntoView({ block: "nearest", behavior: "smooth" }));
  }

  // Look at something else, and tell the page.
  look(change, { picked = false, layers = false }) {
    this.focus = { ...this.focus, ...change };
    this.count += 1;
    this.source.want(this.focus.metric, this.focus.variant);
    this.component.setTriggerValue("did", { count: this.count, view: this.view, picked, layers, ...this.focus });
    this.changed();
  }

  press(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) generate(event);
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || !this.stage) return;
    const [target] = event.composedPath();
    if (target.matches?.("input, textarea, select, [contenteditable=true]")) return;
    const over = this.stage.lines.matches(":hover, :focus-within") ? this.stage.about.key : "field";
    if (this.large.open) this.large.close();
    else this.enlarge(over);
  }

  enlarge(name) {
    const { source, stage, focus } = this;
    if (!source.n) return;
    if (source.busy && name !== "cell") {
      this.large.showLive(name === "field" ? stage.map.node : stage.lines, () => this.changed());
      return;
    }
    const shown = focus.variant < stage.run.look.variants.length ? focus.variant : 0;
    // The cell that is opened has its own variant until the answer to a later choice is there.
    const { step = 0, layer = 0, variant = shown } = this.opened();
    const query = new URLSearchParams({ name, metric: focus.metric, step, layer, variant: name === "cell" ? variant : shown });
    const hidden = name === stage.about.key ? stage.chart.state.hidden : new Set();
    this.large.showFigure(`/_ctxviz/figure/${source.id}?${query}`, hidden);
  }
}

// The actions of one stage, without effect once another has taken its place.
function mine(actions, current) {
  const bound = Object.entries(actions).map(([name, act]) => [name, (...args) => current() && act(...args)]);
  return Object.fromEntries(bound);
}

// Ctrl and Enter in the prompt: Streamlit takes the text, then the button is pressed.
function generate(event) {
  if (!event.target.closest?.(".st-key-prompt")) return;
  setTimeout(() => {
    // A field that keeps the focus keeps the room of a long prompt, above the words of the run.
    event.target.blur();
    document.querySelector(".st-key-generate button")?.click();
  }, 60);
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
