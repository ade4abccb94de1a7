// Pointer, finger and keys over a line chart: values, picking, zooming.

// How far in px a pointer moves before it drags, and how flat a drag is to be along one axis.
const STILL = 6;
const FLAT = { px: 14, share: 0.3 };
// A second tap this near in px to the shown token picks it.
const NEAR = 28;
// While zoomed a click waits for a second one, which shows the whole instead.
const DOUBLE = 280;

export class ChartHands {
  constructor(chart) {
    this.chart = chart;
    this.node = chart.node;
    this.fingers = new Map();
    this.start = null;
    const on = (name, act) => this.node.addEventListener(name, act);
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", () => this.cancel());
    on("lostpointercapture", () => this.start && this.cancel());
    on("pointerleave", ({ pointerType }) => pointerType !== "touch" && !this.start && chart.point(null));
    on("dblclick", () => this.double());
    on("keydown", (event) => this.key(event));
    on("focus", () => this.node.matches(":focus-visible") && chart.data && this.enter());
    on("blur", () => chart.data && chart.point(null));
  }

  // End what is going on, without effect.
  forget() {
    clearTimeout(this.waiting);
    this.start = this.pinch = null;
    this.fingers.clear();
  }

  cancel() {
    this.forget();
    this.chart.drag(null);
  }

  // Where an event is, in px of the drawing, and the token there.
  place({ clientX, clientY }) {
    const { left, top } = this.node.getBoundingClientRect();
    const [x, y] = [clientX - left, clientY - top];
    return { x, y, step: Math.floor(this.chart.picture.scale.tokenAt(x)) };
  }

  // A token that the drawing shows.
  kept(step) {
    const { from, to } = this.chart.picture.scale;
    return Math.max(from, Math.min(to - 1, this.chart.data.n - 1, step));
  }

  down(event) {
    if (!this.chart.data || event.button > 0) return;
    this.node.setPointerCapture(event.pointerId);
    const at = this.place(event);
    this.touch = event.pointerType === "touch";
    if (this.touch) {
      this.fingers.set(event.pointerId, at);
      if (this.fingers.size === 2) this.beginPinch();
      if (this.fingers.size > 1) return;
    }
    this.start = { ...at, before: this.chart.at.cursor, moved: false };
    if (this.touch) this.chart.point(this.kept(at.step));
  }

  move(event) {
    if (!this.chart.data) return;
    const at = this.place(event);
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, at);
    if (this.pinch) {
      this.pull();
      return;
    }
    const { start } = this;
    if (start && Math.hypot(at.x - start.x, at.y - start.y) > STILL) start.moved = true;
    if (start?.moved && !this.touch) this.chart.drag(this.rectangle(start, at));
    else if (!start || this.touch) this.chart.point(this.kept(at.step));
  }

  up(event) {
    const { start, pinch } = this;
    this.fingers.delete(event.pointerId);
    if (pinch && !this.fingers.size) this.forget();
    if (!start || pinch) return;
    this.start = null;
    const at = this.place(event);
    if (!start.moved) this.click(start);
    else if (!this.touch) {
      const box = this.rectangle(start, at);
      this.chart.at.drag = null;
      this.zoomTo(box);
      this.chart.point(null);
    }
  }

  click({ x, step, before }) {
    const { chart } = this;
    if (this.touch) {
      const near = before !== null && Math.abs(chart.picture.scale.x(before) - x) < NEAR;
      chart.point(near ? before : this.kept(step));
      if (near) chart.pick(before);
      return;
    }
    chart.point(this.kept(step));
    clearTimeout(this.waiting);
    const last = this.clicked;
    this.clicked = { x, at: performance.now() };
    if (last && this.clicked.at - last.at < DOUBLE && Math.abs(last.x - x) <= STILL) return;
    const pick = () => chart.pick(this.kept(step));
    if (chart.state.zoom) this.waiting = setTimeout(pick, DOUBLE);
    else pick();
  }

  double() {
    clearTimeout(this.waiting);
    if (!this.touch) this.chart.whole();
  }

  // The dragged rectangle inside the plot; a flat drag takes the whole of the other axis.
  rectangle(start, at) {
    const { inside } = this.chart.picture;
    const clampX = (x) => Math.max(inside.left, Math.min(inside.right, x));
    const clampY = (y) => Math.max(inside.top, Math.min(inside.bottom, y));
    const [left, right] = [start.x, at.x].sort((a, b) => a - b).map(clampX);
    const [top, bottom] = [start.y, at.y].sort((a, b) => a - b).map(clampY);
    const [wide, high] = [right - left, bottom - top];
    const { left: first, right: last, ...rest } = inside;
    if (high < Math.max(FLAT.px, FLAT.share * wide)) return { left, right, ...rest, flat: true };
    if (wide < Math.max(FLAT.px, FLAT.share * high)) return { left: first, right: last, top, bottom };
    return { left, right, top, bottom };
  }

  zoomTo({ left, right, top, bottom, flat }) {
    const { scale } = this.chart.picture;
    const [least, most] = scale.ends;
    const [from, to] = [Math.floor(scale.tokenAt(left)), Math.ceil(scale.tokenAt(right))];
    const [low, high] = flat ? scale.ends : [scale.valueAt(bottom) ?? least, scale.valueAt(top) ?? most];
    // Float32 values nearer than this are all but equal; an axis between them would have no ticks.
    const narrow =
      low !== null && high !== null && high - low < 1e-5 * Math.max(Math.abs(low), Math.abs(high));
    this.chart.zoom(from, to, ...(narrow ? scale.ends : [low, high]));
  }

  // Two fingers hold the tokens they were put on.
  beginPinch() {
    const { scale } = this.chart.picture;
    this.pinch = [...this.fingers].map(([id, { x }]) => ({ id, token: scale.tokenAt(x) }));
    this.chart.point(null);
  }

  pull() {
    if (this.fingers.size !== 2) return;
    const { scale, inside } = this.chart.picture;
    const [one, two] = this.pinch.map(({ id, token }) => ({ token, x: this.fingers.get(id).x }));
    const cell = (two.x - one.x) / (two.token - one.token);
    if (!(cell > 0)) return;
    const from = one.token - (one.x - inside.left) / cell;
    const end = Math.max(2, this.chart.data.domain, this.chart.data.n);
    const to = Math.min(end, from + (inside.right - inside.left) / cell);
    this.chart.zoom(Math.max(0, from), to, ...scale.ends);
  }

  enter() {
    const { selected } = this.chart.frame;
    this.chart.point(this.kept(selected ?? Infinity), true);
  }

  key(event) {
    const { chart } = this;
    if (event.target !== this.node || event.ctrlKey || event.metaKey || event.altKey || !chart.data) return;
    const by = (steps) => () =>
      this.go((chart.at.cursor ?? this.kept(chart.frame.selected ?? Infinity)) + steps);
    const keys = {
      ArrowLeft: by(-1),
      ArrowRight: by(1),
      PageUp: by(-10),
      PageDown: by(10),
      Home: () => this.go(0),
      End: () => this.go(Infinity),
      Enter: () => chart.at.cursor !== null && chart.pick(chart.at.cursor),
      "+": () => this.nearer(0.5),
      "=": () => this.nearer(0.5),
      "-": () => this.nearer(2),
      0: () => chart.whole(),
      Escape: () => this.leave(),
    };
    keys[" "] = keys.Enter;
    // An Escape that has nothing to leave here is for whatever the chart stands in.
    const idle = event.key === "Escape" && !this.start && chart.at.cursor === null;
    if (!keys[event.key] || idle) return;
    event.preventDefault();
    if (event.key === "Escape") event.stopPropagation();
    keys[event.key]();
  }

  // Move to a token; a zoomed chart comes along.
  go(step) {
    const { chart } = this;
    const { from, to, ends } = chart.picture.scale;
    const token = Math.max(0, Math.min(chart.data.n - 1, step));
    if (token < from) chart.zoom(token, token + to - from, ...ends);
    else if (token >= to) chart.zoom(token + 1 - (to - from), token + 1, ...ends);
    chart.point(token, true);
  }

  // Zoom along the tokens, about the token that is pointed at.
  nearer(factor) {
    const { chart } = this;
    const { from, to, ends } = chart.picture.scale;
    const about = (chart.at.cursor ?? this.kept(Infinity)) + 0.5;
    const end = Math.max(2, chart.data.domain, chart.data.n);
    const span = Math.min(end, Math.max(2, Math.round((to - from) * factor)));
    const start = about - ((about - from) / (to - from)) * span;
    // Out to the whole, the values' zoom goes too.
    chart.zoom(start, start + span, ...(span === end ? [null, null] : ends));
  }

  leave() {
    if (this.start) this.cancel();
    else this.chart.point(null);
  }
}
