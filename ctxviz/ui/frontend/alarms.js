// What deserves a look, as quiet sentences; one that has a place is a button to it.

import { el } from "./look.js";

const SHOWN = 5;
const MARKS = { mismatch: "✗", uncontrolled: "!", "blow-up": "▲", swallowed: "↧", dead: "†" };

// `pick` is called with step, layer and variant of the alarm that was pressed.
export function drawAlarms(node, { list, count }, pick) {
  node.hidden = count === 0;
  const items = list.map((alarm) => el("li", {}, ...sentence(alarm, pick)));
  const parts = [el("ul", {}, ...items.slice(0, SHOWN))];
  const more = `and ${count - Math.min(SHOWN, list.length)} more`;
  if (list.length > SHOWN) {
    parts.push(el("details", {}, el("summary", {}, more), el("ul", {}, ...items.slice(SHOWN))));
  } else if (count > list.length) {
    parts.push(el("p", { class: "caption" }, more));
  }
  node.replaceChildren(...parts);
}

function sentence([kind, words, step, layer, variant], pick) {
  const mark = el("b", { class: "mark", "aria-hidden": "true" }, MARKS[kind] ?? "!");
  if (step === null) return [mark, el("span", {}, words)];
  const button = el("button", { type: "button", class: "alarm-words" }, words);
  button.addEventListener("click", () => pick(step, layer, variant));
  return [mark, button];
}
