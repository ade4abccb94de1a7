// What the browser knows of a view: pulled from the delta route, kept while the page is open.
//
// Sources live in this module, so a component that is mounted again, or a script that is run again, finds what
// was already fetched. One loop per source asks, waits and asks again, and ends with the run.

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

  // What the heat map is to show.
  want(metric, variant) {
    if (this.wanted?.metric === metric && this.wanted?.variant === variant) return;
    this.wanted = { metric, variant };
    this.wake();
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
      if (this.n && !this.holdsWantedField()) this.takeField(await this.fetch("field", {}));
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

  pause(news) {
    this.quiet = news ? 0 : this.quiet + 1;
    if (this.ended) return Infinity;
    const [least, most] = PAUSES[this.status.state];
    return document.hidden ? HIDDEN_PAUSE : Math.min(most, least * 1.3 ** this.quiet);
  }

  reset({ epoch, run }) {
    this.epoch = epoch;
    this.run = run;
    this.tokens = [];
    this.references = this.corrections = 0;
    this.referred = (run?.dtypes ?? []).map(() => ({ unpatched: [], tvd: [], gap: [], unpatchedGap: [] }));
    this.verdict = null;
    this.alarms = { list: [], count: 0 };
    this.arrivals = [];
    this.field = { metric: null, variant: 0, n: 0, codes: new Int16Array(0), version: 0 };
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
      this.tokens.splice(answer.from, Infinity, ...answer.tokens);
    }
    if (answer.field)
      this.takeField({ ...answer.field, epoch: answer.epoch, from: answer.from, n: answer.n });
    for (const [step, dtype, unpatched, tvd, gap, unpatchedGap] of answer.referred ?? []) {
      const lists = this.referred[dtype];
      if (unpatched !== null) lists.unpatched[step] = unpatched;
      if (tvd !== null) lists.tvd[step] = tvd;
      if (gap !== null) lists.gap[step] = gap;
      if (unpatchedGap !== null) lists.unpatchedGap[step] = unpatchedGap;
    }
    for (const [step, flags] of answer.flags ?? []) this.correct(step, flags);
    this.references = answer.references;
    this.verdict = answer.verdict ?? this.verdict;
    if (JSON.stringify(answer.alarms ?? this.alarms) !== JSON.stringify(this.alarms))
      this.alarms = answer.alarms;
    return before !== JSON.stringify([this.status, this.n, this.references, this.epoch]);
  }

  // What a token is marked by, told anew: a noise floor that came after it decides what is a tie.
  correct(step, flags) {
    flags.forEach((flag, k) => {
      const entry = this.tokens[step][2 + k];
      if (entry[0] !== flag) this.corrections += 1;
      entry[0] = flag;
    });
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

  holdsWantedField() {
    const { metric, variant } = this.wanted ?? this.field;
    return this.field.metric === metric && this.field.variant === variant && this.field.n === this.n;
  }

  takeField({ epoch, metric, variant, n, from = 0, codes }) {
    const layers = this.run?.layers ?? 0;
    const same = this.field.metric === metric && this.field.variant === variant;
    if (epoch !== this.epoch || (!same && from > 0)) return;
    if (this.wanted && (this.wanted.metric !== metric || this.wanted.variant !== variant)) {
      if (variant === 0 && this.wanted.variant >= this.run.variant_dtypes.length) this.wanted.variant = 0;
      else return;
    }
    if (!same)
      this.field = { metric, variant, n: 0, codes: new Int16Array(0), version: this.field.version + 1 };
    if (from > this.field.n) return;
    if (this.field.codes.length < n * layers) {
      const grown = new Int16Array(Math.max(2 * this.field.codes.length, n * layers));
      grown.set(this.field.codes);
      this.field.codes = grown;
    }
    this.field.codes.set(decode(codes), from * layers);
    this.field.n = Math.max(this.field.n, n);
  }
}

class Gone extends Error {}

function decode(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Int16Array.from({ length: bytes.length / 2 }, (_, i) => view.getInt16(2 * i, true));
}
