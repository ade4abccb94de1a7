// The live view: pulls what is new and draws it.

import { CHARTS, LineChart } from "./chart.js";
import { HeatMap } from "./heatmap.js";
import { el, readTheme } from "./look.js";
import { build, legendEntries, shadeKey } from "./layout.js";
import { Pointer } from "./pointer.js";
import { sourceFor } from "./source.js";
import { promptChips, TokenStrip } from "./strip.js";
import { announceEvery, headline, progressOf, statusOf } from "./status.js";

const FRAME_PAUSE = 90;
const mounted = new WeakMap();

export default function mount(component) {
  const root = component.parentElement;
  const live = mounted.get(root) ?? new Live(root);
  mounted.set(root, live);
  live.update(component);
  const call = live.calls;
  return () => {
    if (live.calls !== call) return;
    live.end();
    mounted.delete(root);
  };
}

class Live {
  constructor(root) {
    this.calls = 0;
    this.selected = null;
    this.layer = null;
    this.parts = build(this);
  }
}
