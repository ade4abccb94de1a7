// What a reader chose in the maps of a view, kept while the page is open: the component may be mounted again.

import { Zoom } from "./fieldzoom.js";

const KEPT = 4;
const states = new Map();

export function stateFor(id) {
  const state = states.get(id) ?? new State();
  states.delete(id);
  states.set(id, state);
  while (states.size > KEPT) states.delete(states.keys().next().value);
  return state;
}

class State {
  constructor() {
    this.zoom = new Zoom();
    this.ranges = [{}, {}];
    this.metrics = new Shared();
    this.selected = new Shared();
  }

  // [least, most] of one side's metric; null is automatic.
  range(side, metric) {
    return this.ranges[side][metric] ?? [null, null];
  }
}

// A value that the reader and the page may both set. The page repeats what it was told, late and perhaps not
// every time; only what it says of its own accord replaces what the reader chose since.
class Shared {
  constructor() {
    this.value = this.said = undefined;
    this.told = [];
  }

  choose(value) {
    this.value = value;
    this.told.push(JSON.stringify(value));
  }

  hear(value) {
    const said = JSON.stringify(value);
    if (said === this.said) return;
    this.said = said;
    const echo = this.told.indexOf(said);
    if (echo >= 0) this.told.splice(0, echo + 1);
    else [this.value, this.told] = [value, []];
  }
}
