// A heading, a sentence that a screen reader is told at once, or text with tokens in boxes of their own; always
// exactly the text that it was given.

import { el } from "./look.js";

const KINDS = { h2: ["h2", {}], h3: ["h3", {}], alert: ["p", { role: "alert" }], parts: ["p", {}] };
const mounted = new WeakMap();

export default function mount({ parentElement: root, data }) {
  const sentence = mounted.get(root) ?? begin(root, data.kind);
  sentence.calls += 1;
  const parts = data.parts ?? [[data.text, ""]];
  const told = JSON.stringify(parts);
  if (sentence.told !== told) {
    sentence.told = told;
    sentence.node.replaceChildren(...parts.map(piece));
  }
  const call = sentence.calls;
  return () => {
    if (sentence.calls !== call) return;
    sentence.node.remove();
    mounted.delete(root);
  };
}

function piece([text, about]) {
  return about ? el("bdi", { class: "ctxviz-token", title: about }, text) : text;
}

function begin(root, kind) {
  const [tag, attributes] = KINDS[kind];
  const sentence = { calls: 0, told: "", node: el(tag, { class: "ctxviz-sentence", ...attributes }) };
  mounted.set(root, sentence);
  root.append(sentence.node);
  return sentence;
}
