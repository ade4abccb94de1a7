// What deserves a look: one count that opens a list of quiet sentences; one that has a place leads to it.

import { el } from "./look.js";
import { counted } from "./words.js";

const SHOWN = 12;
const MARKS = { mismatch: "✗", uncontrolled: "!", "blow-up": "▲", swallowed: "↧", dead: "†" };

export class Alarms {
  // `pick` is called with step, layer, variant and kind of the alarm that was pressed.
  constructor(pick) {
    this.pick = pick;
    this.button = el("button", { type: "button", class: "count", "aria-expanded": "false", hidden: "" });
    this.list = el("div", { class: "list", hidden: "" });
    this.node = el("div", { class: "alarms" }, this.button, this.list);
    this.node.setAttribute("aria-label", "What deserves a look");
    this.button.addEventListener("click", () => this.open(this.list.hidden));
    this.node.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.node.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget && !this.node.contains(relatedTarget)) this.open(false);
    });
  }

  open(wanted) {
    this.list.hidden = !wanted;
    this.button.setAttribute("aria-expanded", String(wanted));
  }

  close() {
    this.open(false);
    this.button.focus();
  }

  draw(alarms) {
    if (this.drawn === alarms) return;
    this.drawn = alarms;
    const { list, count } = alarms;
    this.button.hidden = count === 0;
    this.button.textContent = `▲ ${counted(count, "alarm")}`;
    if (!count) this.open(false);
    const items = list.slice(0, SHOWN).map((one) => el("li", {}, ...this.sentence(one)));
    const left = count - items.length;
    const more = left > 0 ? [el("p", { class: "caption" }, `and ${left} more, all on the page Layers`)] : [];
    this.list.replaceChildren(el("ul", {}, ...items), ...more);
  }

  sentence({ kind, words, step, layer, variant }) {
    const mark = el("b", { class: "mark", "aria-hidden": "true" }, MARKS[kind] ?? "!");
    if (step === null) return [mark, el("span", {}, words)];
    const button = el("button", { type: "button", class: "alarm-words" }, words);
    button.addEventListener("click", () => {
      this.open(false);
      this.pick(step, layer, variant, kind);
    });
    return [mark, button];
  }
}
