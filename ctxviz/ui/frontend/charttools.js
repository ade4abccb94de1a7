// The legend of a line chart, whose entries hide and show, and its few quiet buttons.

import { marksOf } from "./linepicture.js";
import { el, svg } from "./look.js";
import { quiet, swatch } from "./pen.js";
import { download } from "./save.js";

const MARKS = [
  ["differs", "✗", "another token"],
  ["tie", "≈", "a tie"],
  ["lost", "✗", "at the top: no number"],
];

export class Legend {
  constructor(chart) {
    this.chart = chart;
    this.node = el("div", { class: "chart-legend", role: "group", "aria-label": "Lines" });
    this.forget();
  }

  forget() {
    this.content = null;
    this.buttons = [];
    this.before = new Set();
    this.node.replaceChildren();
  }

  // Entries are made anew only when they change, so that a button under a finger stays.
  draw({ curves, shown }, n, hidden) {
    const marks = marksOf(shown, n);
    const entries = curves.map(({ label, look }) => ({ label, look }));
    const signs = MARKS.filter(([kind]) => marks[kind]);
    const content = JSON.stringify([entries, signs]);
    if (content !== this.content) {
      const focused = this.node.getRootNode().activeElement?.dataset?.label;
      this.content = content;
      this.buttons = entries.map((entry) => this.entry(entry, entries));
      this.node.replaceChildren(...this.buttons, ...signs.map(signNode));
      this.buttons.find(({ dataset }) => dataset.label === focused)?.focus({ preventScroll: true });
    }
    for (const button of this.buttons)
      button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.label)));
  }

  entry({ label, look }, entries) {
    const button = el("button", { type: "button", class: "chart-key", "data-label": label });
    button.title = `Click hides or shows ${label}; a double click, or o, shows only it.`;
    button.append(swatch(look), el("span", {}, label));
    const only = () => this.only(label, entries);
    button.addEventListener("click", ({ detail, altKey }) => {
      if (altKey) only();
      else if (detail === 2) {
        // The first of the two clicks is taken back.
        this.chart.state = { ...this.chart.state, hidden: this.before };
        only();
      } else if (detail < 2) {
        const { hidden } = this.chart.state;
        this.before = hidden;
        this.chart.change({ hidden: hidden.has(label) ? minus(hidden, label) : [...hidden, label] });
      }
    });
    button.addEventListener("keydown", (event) => {
      if (event.key !== "o" || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      only();
    });
    return button;
  }

  // Show this one alone, or all where it is alone already.
  only(label, entries) {
    const others = entries.map((entry) => entry.label).filter((other) => other !== label);
    const { hidden } = this.chart.state;
    const alone = !hidden.has(label) && others.every((other) => hidden.has(other));
    this.chart.change({ hidden: alone ? [] : others });
  }
}

const minus = (set, label) => [...set].filter((other) => other !== label);

function signNode([, sign, words]) {
  return el("span", { class: "chart-sign" }, el("b", {}, sign), words);
}

export class Tools {
  constructor(chart) {
    this.chart = chart;
    this.said = el("span", { class: "chart-said", role: "status" });
    this.whole = quiet("chart-tool", "Show all tokens and values", "whole");
    this.axis = quiet("chart-tool", "", "");
    this.copy = quiet("chart-tool", "Copy this chart as an image", "");
    this.copy.append(copySign());
    this.whole.addEventListener("click", () => {
      chart.whole();
      chart.node.focus({ preventScroll: true });
    });
    this.axis.addEventListener("click", () => chart.change({ log: !chart.log }));
    this.copy.addEventListener("click", () => this.copyImage());
    this.node = el("div", { class: "chart-tools" }, this.said, this.whole, this.axis, this.copy);
  }

  draw() {
    const { chart } = this;
    this.whole.hidden = !chart.state.zoom;
    const { log } = chart;
    const words = log ? "The axis is logarithmic; make it linear" : "The axis is linear; make it logarithmic";
    if (this.axis.title === words) return;
    this.axis.textContent = log ? "log" : "linear";
    this.axis.title = words;
    this.axis.setAttribute("aria-label", words);
  }

  forget() {
    this.said.textContent = "";
  }

  async copyImage() {
    if (!this.chart.data) return;
    const { about } = this.chart.data;
    this.said.textContent = "";
    // Some browsers allow copying only while the click is being handled: the image is promised, not awaited.
    const image = this.chart.toPng(about.long ?? about.title);
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": image })]);
      this.said.textContent = "Copied.";
    } catch {
      await this.keep(image, `${about.file ?? about.key}.png`);
    }
  }

  async keep(image, name) {
    try {
      download(await image, "image/png", name);
      this.said.textContent = "The browser does not allow copying here; the image was downloaded.";
    } catch {
      this.said.textContent = "The image could not be made; try again.";
    }
  }
}

// Two sheets, one on the other.
function copySign() {
  const sheets = {
    d: "M6,6h8v8h-8ZM4,10h-2v-8h8v2",
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 1.5,
  };
  return svg(
    "svg",
    { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("path", sheets),
  );
}
