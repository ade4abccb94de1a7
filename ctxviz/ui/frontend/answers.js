// The three answers: with the context as chips, patched without it, and without it and without a patch.

import { el } from "./look.js";
import { TokenStrip } from "./strip.js";

export class Answers {
  constructor(pick) {
    this.strip = new TokenStrip(pick);
    this.patched = row("patched");
    this.without = row("without");
    const given = el("div", { class: "answer written" }, el("b", { class: "who" }, "With the context"));
    given.append(this.strip.node);
    this.node = el("section", { class: "answers" }, given, this.patched.node, this.without.node);
    this.node.setAttribute("aria-label", "The three answers");
  }

  draw(source, selected, variant) {
    this.strip.draw(source, selected);
    this.drawPatched(source, variant);
    this.drawWithout(source);
  }

  // What the patched model of one variant would have said at each token, on the history of the first answer.
  drawPatched({ run, tokens, n }, variant) {
    if (this.variant !== variant) [this.variant, this.read, this.differing] = [variant, 0, 0];
    if (this.read === n) return;
    const { label } = run.look.variants[variant];
    const pieces = tokens.slice(this.read).map(({ text, variants }) => {
      const { same, tie, said } = variants[variant];
      if (same) return el("bdi", {}, text);
      this.differing += 1;
      return el("bdi", { class: "other" }, el("b", { class: "mark" }, tie ? "≈" : "✗"), said);
    });
    const how = this.differing ? `${this.differing} of ${n} another` : "the same";
    this.patched.say("Patched, without it", `${label}: ${how}`, pieces, this.read > 0);
    this.read = n;
  }

  // The unpatched model's own text, on its own history; made after the run.
  drawWithout({ without, busy, writing, fault }) {
    const now = JSON.stringify([without, busy, writing, fault]);
    if (this.told === now) return;
    this.told = now;
    if (without) {
      const words = without.texts.map((text) => el("bdi", {}, text));
      const how = "unpatched, its own text:";
      this.without.say("Without the context", how, without.ended ? words : [...words, "…"]);
    } else {
      const why = busy || writing ? "told when the run has ended" : fault || "not made for this run";
      this.without.say("Without the context", "", [why]);
    }
  }
}

function row(name) {
  const who = el("b", { class: "who" });
  const how = el("span", { class: "how" });
  const words = el("span", { class: "said-words" });
  const line = el("div", { class: "line", title: "Click to read all of it" }, how, words);
  line.addEventListener("click", () => line.classList.toggle("open"));
  const node = el("div", { class: `answer ${name}` }, who, line);
  const say = (title, note, pieces, more = false) => {
    who.textContent = title;
    how.textContent = note;
    if (!more) words.replaceChildren();
    words.append(...pieces);
    words.classList.toggle("quiet", !note);
  };
  return { node, say };
}
