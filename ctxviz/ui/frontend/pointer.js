// Hover and keyboard over the charts and the heat map: one cross-hair, one tooltip, a click picks.

import { el } from "./look.js";
import { sci } from "./words.js";

export class Pointer {
  // `live` gives source, charts, heat, parts, and pick(step, layer).
  constructor(live) {
    this.live = live;
    live.charts.forEach((chart, i) => this.overChart(chart, live.parts.plots[i].plot));
    this.overHeat(live.heat.frame);
  }

  overChart(chart, plot) {
    let here = null;
    const go = (step, speak) => {
      const { n } = this.live.source;
      here = n ? Math.max(0, Math.min(n - 1, step)) : null;
      this.atToken(chart, plot, here, speak);
    };
    this.listen(plot, {
      move: (x) => go(chart.stepAt(x)),
      focus: () => go(this.live.selected ?? this.live.source.n - 1, true),
      keys: {
        ArrowLeft: () => go(here - 1, true),
        ArrowRight: () => go(here + 1, true),
        Home: () => go(0, true),
        End: () => go(Infinity, true),
      },
      pick: () => here !== null && this.live.pick(here, null),
    });
  }

  overHeat(frame) {
    let here = null;
    const { live } = this;
    const go = (cell, speak) => {
      here = cell;
      this.atCell(cell, speak);
    };
    const by = (steps, layers) => () => {
      const { drawn, layers: height } = live.heat;
      if (!here || !drawn) return;
      const step = Math.max(0, Math.min(drawn - 1, here.step + steps));
      go({ step, layer: Math.max(0, Math.min(height - 1, here.layer + layers)) }, true);
    };
    this.listen(frame, {
      move: (x, y) => go(live.heat.cellAt(x, y)),
      focus: () =>
        live.heat.drawn && go({ step: live.selected ?? live.heat.drawn - 1, layer: live.layer ?? 0 }, true),
      keys: { ArrowLeft: by(-1, 0), ArrowRight: by(1, 0), ArrowUp: by(0, 1), ArrowDown: by(0, -1) },
      pick: () => here && live.pick(here.step, here.layer),
    });
  }

  listen(node, { move, focus, keys, pick }) {
    const at = (event) => {
      const box = node.getBoundingClientRect();
      move(event.clientX - box.left, event.clientY - box.top);
    };
    node.addEventListener("pointermove", at);
    node.addEventListener("pointerleave", () => this.clear());
    node.addEventListener("click", (event) => {
      at(event);
      pick();
    });
    node.addEventListener("focus", () => node.matches(":focus-visible") && focus());
    node.addEventListener("blur", () => this.clear());
    node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.clear();
      const act = event.key === "Enter" || event.key === " " ? pick : keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }

  clear() {
    for (const chart of this.live.charts) chart.point(null);
    this.live.heat.point(null, null);
    this.live.parts.tip.hidden = true;
  }

  atToken(chart, plot, step, speak) {
    const { source, charts, heat } = this.live;
    if (step === null) return;
    for (const each of charts) each.point(step);
    heat.point(step, null);
    const { variants } = source.run.look;
    const rows = variants.map(({ label, color }, k) => {
      const [flags, , , , , , other] = source.tokens[step][2 + k];
      const said = other === undefined ? "" : `${flags & 2 ? "≈" : "✗"} “${other}”`;
      return [label, chart.words(source, step, k), said, color];
    });
    for (const [name, , , values] of chart.references(source)) {
      if (values[step] !== undefined) rows.push([name, sci(values[step]), "", null]);
    }
    this.show(plot, chart.x(step), 40, `token ${step} “${source.tokens[step][0]}”`, rows, speak);
  }

  atCell(cell, speak) {
    const { heat, charts, source, parts } = this.live;
    if (!cell) {
      this.clear();
      return;
    }
    const { step, layer } = cell;
    for (const chart of charts) chart.point(step);
    heat.point(step, layer);
    const { metric } = source.field;
    const value = heat.value(step, layer);
    const rows = [[source.run.metrics[metric].symbol, value === null ? "no value" : sci(value), "", null]];
    const { left, top, width, height } = heat.plot;
    const x = left + ((step + 0.5) / heat.domain) * width;
    const y = top + height - ((layer + 1) / heat.layers) * height;
    const title = `layer ${layer}, token ${step} “${source.tokens[step][0]}”`;
    this.show(parts.view.contains(heat.frame) ? heat.frame : parts.view, x, y, title, rows, speak);
  }

  // A tile of a picture, told beside its grid or else below it. To a screen reader the tile says it itself.
  atTile(grid, tile, words) {
    const { tip, view } = this.live.parts;
    this.show(grid, grid.offsetWidth, tile.offsetTop, words, [], false);
    if (grid.getBoundingClientRect().right + tip.offsetWidth + 16 > view.getBoundingClientRect().right)
      this.show(grid, -16, grid.offsetHeight + 4, words, [], false);
  }

  show(node, x, y, title, rows, speak) {
    const { tip, view, spoken } = this.live.parts;
    tip.replaceChildren(el("bdi", { class: "tip-title" }, title));
    for (const [name, value, note, colour] of rows) {
      const swatch = el("i");
      if (colour) swatch.style.background = colour;
      const cells = [swatch, el("span", {}, name), el("b", {}, value), el("bdi", {}, note)];
      const row = el("span", { class: "tip-row" }, ...cells);
      tip.append(row);
    }
    tip.hidden = false;
    const [outer, inner] = [view.getBoundingClientRect(), node.getBoundingClientRect()];
    const [px, py] = [inner.left - outer.left + x, inner.top - outer.top + y];
    const right = px + 16 + tip.offsetWidth < outer.width;
    tip.style.left = `${Math.max(0, right ? px + 16 : px - 16 - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(0, py)}px`;
    if (speak)
      spoken.textContent = [title, ...rows.map((row) => row.slice(0, 3).filter(Boolean).join(" "))].join(
        "; ",
      );
  }
}
