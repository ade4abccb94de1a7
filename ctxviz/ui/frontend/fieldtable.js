// Whole tables of a view, exact numbers as float32 [tokens][layers], fetched once and then only what is new.

import { floats } from "./wire.js";

const RETRY = 2000;

// One metric of one variant of one run.
export class Table {
  constructor(metric, variant, layers) {
    Object.assign(this, { metric, variant, layers, n: 0, values: new Float32Array(0), asking: false });
  }

  value(step, layer) {
    return step < this.n ? this.values[step * this.layers + layer] : NaN;
  }

  // A cell's value in the words of a scale; what is on its way is not yet known to be missing.
  words(scale, { step, layer }) {
    return step < this.n ? scale.words(this.value(step, layer)) : "fetching …";
  }

  // Add the columns from step `from` on, in base64; nothing where a part before them is lacking.
  add(from, base64) {
    if (from > this.n) return;
    const fresh = floats(base64);
    const end = from * this.layers + fresh.length;
    if (this.values.length < end) {
      const grown = new Float32Array(Math.max(2 * this.values.length, end));
      grown.set(this.values);
      this.values = grown;
    }
    this.values.set(fresh, from * this.layers);
    this.n = Math.max(this.n, from + fresh.length / this.layers);
  }
}

// Fetch what a table lacks; false if the view shows another run than `epoch`.
export async function fill(table, view, epoch) {
  const { metric, variant, n, layers } = table;
  const asked = new URLSearchParams({ metric, variant, from: n, epoch });
  const answer = await fetch(`/_ctxviz/values/${view}?${asked}`, { signal: AbortSignal.timeout(15000) });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const told = await answer.json();
  if (told.epoch !== epoch || told.layers !== layers || told.from > n) return false;
  table.add(told.from, told.values);
  return true;
}

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
    if (this.run !== this.source.run) {
      this.run = this.source.run;
      this.held.clear();
    }
    const key = `${metric} ${variant}`;
    if (!this.held.has(key)) this.held.set(key, new Table(metric, variant, this.run.layers));
    const table = this.held.get(key);
    if (table.n < this.source.n && !table.asking) this.bring(table);
    return table;
  }

  async bring(table) {
    table.asking = true;
    try {
      const fits = await fill(table, this.source.id, this.source.epoch);
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

  end() {
    this.ended = true;
  }
}

function pause() {
  return new Promise((done) => setTimeout(done, RETRY));
}
