// Which part of the layers x tokens is looked at: two half-open ranges of whole cells, null for all.

const LEAST = 4;
const MANY_LAYERS = 40;

// `range` made `factor` times as long around cell `at`, of `total` cells; null once it is all of them.
export function scaled(range, factor, at, total) {
  const [from, to] = range ?? [0, total];
  const old = to - from;
  const wanted = factor < 1 ? Math.min(old - 1, Math.round(old * factor)) : Math.ceil(old * factor);
  const span = Math.max(Math.min(LEAST, total), wanted);
  if (span >= total) return null;
  const share = (at + 0.5 - from) / old;
  return placed(Math.round(at + 0.5 - share * span), span, total);
}

function placed(from, span, total) {
  const start = Math.max(0, Math.min(total - span, from));
  return [start, start + span];
}

function moved(range, by, total) {
  return range && placed(range[0] + by, range[1] - range[0], total);
}

function holding(range, at, total) {
  if (!range || (at >= range[0] && at < range[1])) return range;
  return moved(range, at < range[0] ? at - range[0] : at - range[1] + 1, total);
}

export class Zoom {
  constructor() {
    this.reset();
  }

  reset() {
    this.tokens = this.layers = null;
  }

  get whole() {
    return !this.tokens && !this.layers;
  }

  // The ranges in numbers; a run that is shorter than what was looked at is shown whole.
  box(n, layers) {
    if (this.tokens && this.tokens[1] > n) this.tokens = null;
    if (this.layers && this.layers[1] > layers) this.layers = null;
    const [[from, to], [low, high]] = [this.tokens ?? [0, n], this.layers ?? [0, layers]];
    return { from, to, low, high };
  }

  // Exactly the cells between two corners, both of them included; one cell alone is no zoom.
  to(one, other) {
    const between = (a, b) => [Math.min(a, b), Math.max(a, b) + 1];
    const [tokens, layers] = [between(one.step, other.step), between(one.layer, other.layer)];
    if (tokens[1] - tokens[0] === 1 && layers[1] - layers[0] === 1) return false;
    [this.tokens, this.layers] = [tokens, layers];
    return true;
  }

  by(factor, { step, layer }, n, layers) {
    this.tokens = scaled(this.tokens, factor, step, n);
    if (layers > MANY_LAYERS) this.layers = scaled(this.layers, factor, layer, layers);
  }

  pan(steps, up, n, layers) {
    this.tokens = moved(this.tokens, steps, n);
    this.layers = moved(this.layers, up, layers);
  }

  show({ step, layer }, n, layers) {
    this.tokens = holding(this.tokens, step, n);
    this.layers = holding(this.layers, layer, layers);
  }
}
