// A heading, or a sentence that a screen reader is told at once; always exactly the text that it was given.

import { el } from "./look.js";

const KINDS = { h2: ["h2", {}], h3: ["h3", {}], alert: ["p", { role: "alert" }] };
const mounted = new WeakMap();

export default function mount({ parentElement: root, data }) {
  const sentence = mounted.get(root) ?? begin(root, data.kind);
  sentence.calls += 1;
  if (sentence.node.textContent !== data.text) sentence.node.textContent = data.text;
  const call = sentence.calls;
  return () => {
    if (sentence.calls !== call) return;
    sentence.node.remove();
    mounted.delete(root);
  };
}

function begin(root, kind) {
  const [tag, attributes] = KINDS[kind];
  const sentence = { calls: 0, node: el(tag, { class: "ctxviz-sentence", ...attributes }) };
  mounted.set(root, sentence);
  root.append(sentence.node);
  return sentence;
}
