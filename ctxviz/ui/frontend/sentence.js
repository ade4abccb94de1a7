// A heading, a sentence that a screen reader is told at once, or text with tokens in boxes of their own; always
// exactly the text that it was given.

import { el } from "./look.js";
import { mounting } from "./mounting.js";

const KINDS = { h2: ["h2", {}], h3: ["h3", {}], alert: ["p", { role: "alert" }], parts: ["p", {}] };
export default mounting((root, { data }) => new Sentence(root, data.kind));

class Sentence {
  constructor(root, kind) {
    const [tag, attributes] = KINDS[kind];
    this.node = el(tag, { class: "ctxviz-sentence", ...attributes });
    root.append(this.node);
  }

  update({ data }) {
    const parts = data.parts ?? [[data.text, ""]];
    const told = JSON.stringify(parts);
    if (told === this.told) return;
    this.told = told;
    this.node.replaceChildren(...parts.map(piece));
  }

  end() {
    this.node.remove();
  }
}

function piece([text, about]) {
  return about ? el("bdi", { class: "ctxviz-token", title: about }, text) : text;
}
