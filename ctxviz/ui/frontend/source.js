// What the browser knows of a view: pulled from the delta route, kept while the page is open.
//
// Sources live in this module, so a component that is mounted again, or a script that is run again, finds what
// was already fetched. One loop per source asks, waits and asks again, and ends with the run. `run` is another
// object for every run: whoever draws builds anew what belongs to another one.

import { fill, Table } from "./fieldtable.js";
import { alarm, flags, reference, token } from "./wire.js";

const KEPT = 4;
const BUSY = new Set(["queued", "loading", "running"]);
const ENDED = new Set(["done", "stopped", "failed", "empty"]);
const PAUSES = { running: [130, 500], loading: [200, 400], queued: [250, 1000], paused: [500, 3000] };
const ARRIVALS_KEPT = 24;
const HIDDEN_PAUSE = 5000;
const sources = new Map();

export function sourceFor(id) {
  const source = sources.get(id) ?? new Source(id);
  sources.delete(id);
  sources.set(id, source);
  for (const [other, old] of sources) {
    if (sources.size <= KEPT) break;
    if (!old.listeners.size) sources.delete(other);
  }
  return source;
}

class Source {
  constructor(id) {
    this.id = id;
    this.listeners = new Set();
    this.wanted = null;
    this.status = { state: "empty", stage: "", message: "", progress: null };
    this.trouble = "";
    this.failures = 0;
    this.quiet = 0;
    this.looping = false;
    this.reset({ epoch: -1, run: null });
  }

  get busy() {
    return BUSY.has(this.status.state);
  }

  get ended() {
    return ENDED.has(this.status.state);
  }

  // `listener` is called after every answer. Returns what ends it.
  subscribe(listener) {
    this.listeners.add(listener);
    const wake = () => this.wake();
    document.addEventListener("visibilitychange", wake);
    this.wake();
    return () => {
      this.listeners.delete(listener);
      document.removeEventListener("visibilitychange", wake);
      this.wake();
    };
  }

  // Ask now rather than at the end of the pause.
  wake() {
    this.quiet = 0;
    this.woken = true;
    this.endRest?.();
    if (!this.looping && this.listeners.size) this.loop();
  }

  // What the heat map is to show; its new columns then come with the tokens.
  want(metric, variant) {
    if (this.wanted?.metric === metric && this.wanted?.variant === variant) return;
    this.wanted = { metric, variant };
    this.wake();
  }

  // The table of a metric and variant as far as it is here.
  table(metric, variant) {
    const key = `${metric} ${variant}`;
    if (!this.tables.has(key)) this.tables.set(key, new Table(metric, variant, this.run.layers));
    return this.tables.get(key);
  }

  async fillTable() {
    if (!this.n || !this.wanted) return;
    const table = this.table(this.wanted.metric, this.shownVariant);
    if (table.n < this.n) await fill(table, this.id, this.epoch);
  }

  // The variant that is wanted, or the first where the run has no such one.
  get shownVariant() {
    const { variant } = this.wanted ?? { variant: 0 };
    return variant < (this.run?.look.variants.length ?? 0) ? variant : 0;
  }

  async loop() {
    this.looping = true;
    while (this.listeners.size) {
      this.woken = false;
      const pause = await this.ask();
      for (const listener of this.listeners) listener();
      if (!this.woken) await this.rest(pause);
    }
    this.looping = false;
  }

  rest(pause) {
    return new Promise((done) => {
      const timer = Number.isFinite(pause) ? setTimeout(done, pause) : null;
      this.endRest = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  async ask() {
    try {
      await this.fillTable();
      const held = { from: this.n, references: this.references, epoch: Math.max(0, this.epoch) };
      const news = this.take(await this.fetch("delta", held));
      this.failures = 0;
      this.trouble = "";
      return this.pause(news);
    } catch (error) {
      this.failures += 1;
      const gone = error instanceof Gone;
      if (gone) this.status = { ...this.status, state: "stopped", message: "" };
      this.trouble = gone
        ? "The server no longer holds this run; reload the page to start again."
        : "Connection lost, retrying …";
      return gone ? 15000 : Math.min(8000, 250 * 2 ** this.failures);
    }
  }

  async fetch(kind, query) {
    const { metric, variant } = this.wanted ?? {};
    const asked = new URLSearchParams(this.wanted ? { ...query, metric, variant } : query);
    const answer = await fetch(`/_ctxviz/${kind}/${this.id}?${asked}`, {
      signal: AbortSignal.timeout(15000),
    });
    if (answer.status === 404) throw new Gone();
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }

  // The numbers of a chart, of a heat map, or of the text, as CSV.
  async csv(query) {
    const kind = "chart" in query ? `table/${this.id}` : `values/${this.id}/csv`;
    const answer = await fetch(`/_ctxviz/${kind}?${new URLSearchParams(query)}`);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.blob();
  }

  pause(news) {
    this.quiet = news ? 0 : this.quiet + 1;
    // The text without the context comes after the run's end.
    if (this.ended && !this.writing) return Infinity;
    const [least, most] = PAUSES[this.writing ? "running" : this.status.state];
    return document.hidden ? HIDDEN_PAUSE : Math.min(most, least * 1.3 ** this.quiet);
  }

  reset({ epoch, run }) {
    this.epoch = epoch;
    this.run = run;
    this.tokens = [];
    this.references = 0;
    this.referred = (run?.dtypes ?? []).map(() => ({
      unpatched: [],
      floor: [],
      floorGap: [],
      unpatchedGap: [],
    }));
    this.verdict = this.without = null;
    this.alarms = { list: [], count: 0 };
    this.arrivals = [];
    this.tables = new Map();
  }

  get n() {
    return this.tokens.length;
  }

  // Merge an answer of the delta route; true if it held anything new.
  take(answer) {
    const before = JSON.stringify([this.status, this.n, this.references, this.epoch]);
    if ("run" in answer) this.reset(answer);
    for (const name of ["state", "stage", "message", "progress"]) this.status[name] = answer[name];
    if (answer.state !== "running") this.arrivals = [];
    if (answer.tokens) {
      this.note(answer.tokens.length);
      this.tokens.splice(answer.from, Infinity, ...answer.tokens.map(token));
    }
    if (answer.field) {
      const { metric, variant, values } = answer.field;
      this.table(metric, variant).add(answer.from, values);
    }
    for (const { step, dtype, values } of (answer.referred ?? []).map(reference)) {
      for (const [name, value] of Object.entries(values)) {
        if (value !== null) this.referred[dtype][name][step] = value;
      }
    }
    for (const [step, bits] of answer.flags ?? []) {
      // A noise floor that came after a token decides what is a tie.
      bits.forEach((bit, k) => Object.assign(this.tokens[step].variants[k], flags(bit)));
    }
    this.references = answer.references;
    this.verdict = answer.verdict ?? this.verdict;
    if (answer.without) this.without = answer.without;
    this.writing = answer.writing ?? false;
    this.fault = answer.fault ?? "";
    if (answer.alarms) this.alarms = { ...answer.alarms, list: answer.alarms.list.map(alarm) };
    return before !== JSON.stringify([this.status, this.n, this.references, this.epoch]);
  }

  // The latest arrivals, for the rate.
  note(count) {
    this.arrivals = [...this.arrivals, [performance.now(), count]].slice(-ARRIVALS_KEPT);
  }

  // Tokens per second lately; null while too few came.
  get rate() {
    if (this.arrivals.length < 3) return null;
    const span = this.arrivals.at(-1)[0] - this.arrivals[0][0];
    return (1000 * this.arrivals.slice(1).reduce((sum, [, count]) => sum + count, 0)) / span;
  }
}

class Gone extends Error {}
