// One Plotly figure with its title, caption, text alternative and downloads.

import { el, readTheme } from "./look.js";
import { mounting } from "./mounting.js";
import { fitted } from "./narrow.js";
import { saveButtons } from "./save.js";
import { dress } from "./style.js";

const TITLE_SIZE = 17;
const SUBJECT_SIZE = 13;
const LINE_SPACING = 1.3;
const EDGE = 12;
const RECOLOURED = ["background", "panel", "ink", "soft", "line"];
const REFIT = 60;
let plotly = null;

export default mounting((root) => new Figure(root));

// plotly.js is one global for the page, loaded by the first figure.
function loadPlotly() {
  plotly ??= new Promise((done, failed) => {
    const script = el("script", { src: new URL("plotly.min.js", import.meta.url).href });
    script.addEventListener("load", () => done(window.Plotly));
    script.addEventListener("error", () => failed(new Error("plotly.js did not load")));
    document.head.append(script);
  }).catch((error) => {
    plotly = null;
    throw error;
  });
  return plotly;
}

export class Figure {
  constructor(root) {
    this.title = el("h3");
    this.words = el("span");
    this.told = el("p");
    this.more = el("details", {}, el("summary", {}, "What is this?"), this.told);
    this.caption = el("figcaption", {}, this.words, this.more);
    this.plot = el("div", { class: "ctxviz-plot", role: "img" });
    this.node = el("figure", { class: "ctxviz-figure" });
    const files = {
      svg: () => this.picture("svg"),
      png: () => this.picture("png"),
      csv: () => this.data.csv,
    };
    const head = el(
      "div",
      { class: "head" },
      this.title,
      saveButtons("this figure", () => this.name(), files),
    );
    this.node.append(head, this.plot, this.caption);
    root.append(this.node);
    this.resized = new ResizeObserver(() => this.refit());
    this.resized.observe(this.plot);
    dress(this.node, "figure.css");
  }

  update({ data, setTriggerValue }) {
    this.data = data;
    this.pick = (point) => setTriggerValue("point", point);
    this.title.textContent = data.title;
    this.words.textContent = data.caption;
    this.told.textContent = data.more ?? "";
    this.more.hidden = !data.more;
    this.plot.setAttribute("aria-label", data.alt);
    const theme = readTheme(this.node);
    const drawn = data.figure + theme.background + theme.ink;
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.draw(recoloured(data, theme)).catch(() => {
      this.drawn = null;
      this.plot.textContent = "The figure could not be drawn; reload the page to try again.";
    });
  }

  // What fits a laptop is laid out anew where a window has become a good deal narrower or wider.
  refit() {
    const { clientWidth: width } = this.plot;
    if (this.made && width && Math.abs(width - this.width) > REFIT) this.draw(this.made).catch(() => {});
  }

  async draw(made) {
    this.made = made;
    const library = await loadPlotly();
    if (this.ended) return;
    this.width = this.plot.clientWidth;
    const { data, layout } = fitted(made.data, made.layout, this.width);
    const { paper_bgcolor: paper, ...rest } = layout;
    this.paper = paper;
    // With the same revision a part that was zoomed into stays.
    const clear = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true };
    const whole = { ...rest, ...clear, uirevision: this.drawn };
    await library.react(this.plot, data, whole, { responsive: true, displayModeBar: false });
    if (this.listening) return;
    this.listening = true;
    this.plot.on("plotly_click", ({ points: [point] }) => {
      this.pick({
        trace: point.curveNumber,
        point: point.pointIndex ?? null,
        data: point.customdata ?? null,
      });
    });
  }

  // The figure as a file: on paper, with its title and what it is of.
  async picture(format) {
    const library = await loadPlotly();
    const { data, layout } = this.plot;
    const { offsetWidth: width, offsetHeight: height } = this.plot;
    const head = heading(this.data, width, layout.font.family);
    const margin = { ...layout.margin, t: (layout.margin?.t ?? 12) + head.height };
    const all = height + head.height;
    // Plotly puts the first line's baseline there.
    const place = { x: EDGE / width, xanchor: "left", y: 1 - (EDGE + TITLE_SIZE) / all, yanchor: "top" };
    const title = { text: head.text, font: { size: TITLE_SIZE }, automargin: false, ...place };
    const paper = { paper_bgcolor: this.paper, title, margin };
    const vector = format === "svg";
    const options = { format, width, height: all, scale: vector ? 1 : 2, imageDataOnly: vector };
    const made = await library.toImage({ data, layout: { ...layout, ...paper } }, options);
    return vector ? made : Uint8Array.from(atob(made.split(",")[1]), (c) => c.charCodeAt(0));
  }

  name() {
    return this.data.file_name;
  }

  end() {
    this.ended = true;
    this.resized.disconnect();
    if (window.Plotly && this.listening) window.Plotly.purge(this.plot);
    this.node.remove();
  }
}

// The figure with the colours of the theme that the page has now, whichever it was made for.
function recoloured({ figure, themes }, { dark }) {
  const [mine, other] = dark ? [themes.dark, themes.light] : [themes.light, themes.dark];
  const swap = new Map(RECOLOURED.map((name) => [other[name].toLowerCase(), mine[name]]));
  const swapped = (value) => swap.get(value.toLowerCase()) ?? value;
  return JSON.parse(figure, (_, value) => (typeof value === "string" ? swapped(value) : value));
}

// The lines above a saved figure as Plotly's markup, none wider than the figure, and the room they take.
function heading({ title, subject }, width, family) {
  const lines = (text, size, weight) => wrapped(text, `${weight} ${size}px ${family}`, width - 2 * EDGE);
  const [large, small] = [lines(title, TITLE_SIZE, 600), lines(subject ?? "", SUBJECT_SIZE, 400)];
  const quiet = small.map((line) => `<span style="font-size:${SUBJECT_SIZE}px">${escaped(line)}</span>`);
  const text = [...large.map((line) => `<b>${escaped(line)}</b>`), ...quiet].join("<br>");
  // Plotly sets every line of a title by the title's size.
  return { text, height: 2 * EDGE + (large.length + small.length) * TITLE_SIZE * LINE_SPACING };
}

// A text in lines that fit; a word that is too long for one is cut where the line ends.
function wrapped(text, font, width) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = font;
  const fits = (line) => context.measureText(line).width <= width;
  const lines = [];
  let line = "";
  for (const word of text.split(/(?<= )/)) {
    if (fits((line + word).trimEnd())) {
      line += word;
      continue;
    }
    if (line) lines.push(line.trimEnd());
    line = "";
    for (const letter of word) {
      if (line && !fits(line + letter)) {
        lines.push(line);
        line = "";
      }
      line += letter;
    }
  }
  return line ? [...lines, line.trimEnd()] : lines;
}

function escaped(text) {
  return text.replace(/[&<>$]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", $: "&#36;" })[c]);
}
