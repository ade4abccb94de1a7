/** Asks how a view is going, and has the page run again when it is not as it was drawn. */

import { el } from "./look.js";
import { mounting } from "./mounting.js";

const PAUSE = 1000;
const TOLD_AGAIN = 10;
const BUSY = 2500;

// While a page that the reader asked for is on its way, Streamlit would take what is told for a wish to see
// this page again, and come back to it.
let did = -Infinity;
for (const [target, kind] of [[document, "click"], [window, "popstate"]]) {
  target.addEventListener(kind, () => (did = performance.now()), { capture: true });
}

export default mounting((root) => new Watch(root));

class Watch {
  constructor(root) {
    this.bar = el("progress", { max: 1, value: 0 });
    this.words = el("p", { class: "ctxviz-sentence" });
    this.node = el("div", { class: "ctxviz-progress", hidden: true }, this.bar, this.words);
    root.append(this.node);
    this.ask();
  }

  update({ data, setTriggerValue }) {
    this.data = data;
    this.tell = setTriggerValue;
    this.unheard = 0;
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    this.node.remove();
  }

  async ask() {
    const view = this.data?.view;
    if (view) {
      try {
        const answer = await fetch(`/_ctxviz/state/${view}`, { cache: "no-store" });
        if (answer.ok && view === this.data.view) this.hear(await answer.json());
      } catch {
        // The server is not there just now; it is asked again.
      }
    }
    if (!this.ended) this.timer = setTimeout(() => this.ask(), view ? PAUSE : 0);
  }

  hear({ mark, share, words }) {
    if (this.ended) return;
    this.node.hidden = !this.data.progress;
    this.bar.value = share;
    this.words.textContent = words;
    if (mark === this.data.shown || performance.now() - did < BUSY) return;
    // Told once; and again later, should the page not have run.
    if (this.unheard % TOLD_AGAIN === 0) this.tell("changed", mark);
    this.unheard += 1;
  }
}
