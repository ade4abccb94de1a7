// Moving over maps of layers x tokens and zooming into them, by pointer or keys, whoever owns the maps.

export class Explorer {
  // `owner` gives n and layers, zoom (a Zoom), selected ({ step, layer } or null), moved(cell, speak), pick(cell)
  // and changed().
  constructor(owner) {
    this.owner = owner;
    this.cursor = null;
  }

  get zoomed() {
    return !this.owner.zoom.whole;
  }

  get box() {
    const { zoom, n, layers } = this.owner;
    return zoom.box(n, layers);
  }

  go(cell, speak) {
    const { owner } = this;
    this.cursor = cell;
    if (cell && speak) owner.zoom.show(cell, owner.n, owner.layers);
    owner.moved(cell, speak);
  }

  clear() {
    this.go(null, false);
  }

  get start() {
    const { from, low } = this.box;
    return this.owner.selected ?? { step: from, layer: low };
  }

  enter() {
    if (this.owner.n) this.go(this.start, true);
  }

  move(steps, up) {
    const { n, layers } = this.owner;
    if (!n) return;
    const { step, layer } = this.cursor ?? this.start;
    const held = (x, total) => Math.max(0, Math.min(total - 1, x));
    this.go({ step: held(step + steps, n), layer: held(layer + up, layers) }, true);
  }

  pick(cell) {
    if (cell) this.owner.pick(cell);
  }

  zoom(factor, cell) {
    const { zoom, n, layers } = this.owner;
    if (!n) return;
    const { from, to, low, high } = this.box;
    const middle = { step: (from + to - 1) / 2, layer: (low + high - 1) / 2 };
    zoom.by(factor, cell ?? middle, n, layers);
    this.owner.changed();
  }

  zoomTo(one, other) {
    const { zoom, n } = this.owner;
    const held = (cell) => ({ ...cell, step: Math.min(cell.step, n - 1) });
    if (n && zoom.to(held(one), held(other))) this.owner.changed();
  }

  whole() {
    this.owner.zoom.reset();
    this.owner.changed();
  }

  pan(steps, up) {
    const { zoom, n, layers } = this.owner;
    zoom.pan(steps, up, n, layers);
    this.cursor = null;
    this.owner.changed();
  }
}
