// Whole tables of a view, exact numbers as float32 [tokens][layers], fetched once and then only what is new.

const RETRY = 2000;

export class Tables {
  // `source` tells how many tokens there are; `changed` is called whenever a table grew.
  constructor(source, changed) {
    this.source = source;
    this.changed = changed;
    this.held = new Map();
    this.trouble = "";
  }

  // The table as far as it is here; what is missing is on its way.
  get(metric, variant) {
    if (this.epoch !== this.source.epoch) {
      this.epoch = this.source.epoch;
      this.held.clear();
    }
    const key = `${metric} ${variant}`;
    if (!this.held.has(key)) this.held.set(key, new Table(metric, variant, this.source.run.layers));
    const table = this.held.get(key);
    if (table.n < this.source.n && !table.asking) this.bring(table);
    return table;
  }

  async bring(table) {
    table.asking = true;
    try {
      const fits = table.take(await this.ask(table), this.epoch);
      this.trouble = "";
      if (!fits) await this.another();
    } catch {
      this.trouble = "The numbers of a map could not be fetched; retrying …";
      if (!this.ended) this.changed();
      await pause();
    }
    table.asking = false;
    if (!this.ended) this.changed();
  }

  // The view shows another run than the source knows of.
  another() {
    this.source.wake();
    return pause();
  }

  async ask({ metric, variant, n }) {
    const asked = new URLSearchParams({ metric, variant, from: n, epoch: this.epoch });
    const answer = await fetch(`/_ctxviz/values/${this.source.id}?${asked}`, {
      signal: AbortSignal.timeout(15000),
    });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }

  end() {
    this.ended = true;
  }
}

class Table {
  constructor(metric, variant, layers) {
    Object.assign(this, { metric, variant, layers, n: 0, values: new Float32Array(0), asking: false });
  }

  value(step, layer) {
    return step < this.n ? this.values[step * this.layers + layer] : NaN;
  }

  // Adds what came; false if it is of another run.
  take(answer, epoch) {
    if (answer.epoch !== epoch || answer.layers !== this.layers || answer.from > this.n) return false;
    if (this.values.length < answer.n * this.layers) {
      const grown = new Float32Array(Math.max(2 * this.values.length, answer.n * this.layers));
      grown.set(this.values);
      this.values = grown;
    }
    this.values.set(decode(answer.values), answer.from * this.layers);
    this.n = answer.n;
    return true;
  }
}

function pause() {
  return new Promise((done) => setTimeout(done, RETRY));
}

function decode(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}
