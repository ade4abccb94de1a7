// A legend as HTML: a swatch drawn as SVG, 36 wide, and its words.

import { el, svg } from "./look.js";

// `entries` are { swatch: () => SVG group, text }.
export function drawLegend(node, entries) {
  node.replaceChildren(
    ...entries.map(({ swatch, text }) => {
      const size = { width: 36, height: 14, viewBox: "0 -7 36 14", "aria-hidden": "true" };
      return el("span", { class: "key" }, svg("svg", size, swatch()), text);
    }),
  );
}
