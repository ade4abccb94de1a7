// Pointer, wheel and keys over one map.

const DRAG = 4;
const FAR = 10;
const IN = 0.5;
// How long a second click is waited for, in ms.
const DOUBLE = 250;

// A drag that stays within so many px of a line along an axis zooms along that axis alone.
const ALONG = 12;

// `fields` gives cursor, zoomed, go, clear, enter, move, pick, zoom, zoomTo, whole and pan. A drag zooms into what
// it spans, with Shift it moves what is zoomed; a double click shows the whole run.
// Returns what takes back a click that still waits for a second one.
export function listen(map, fields) {
  const { frame } = map;
  let drag = null;
  let dragged = false;
  let pressed = false;
  const at = (event) => {
    const box = frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const end = () => {
    drag = null;
    map.band(null);
  };
  frame.addEventListener("pointerdown", (event) => {
    dragged = false;
    pressed = true;
    if (event.button !== 0 || event.pointerType === "touch") return;
    const from = at(event);
    if (map.cellAt(...from)) drag = { from, to: from, pan: event.shiftKey && fields.zoomed };
    // Else the text around it would be selected.
    event.preventDefault();
    frame.focus({ preventScroll: true });
    pressed = false;
  });
  frame.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (!drag) {
      fields.go(map.cellAt(x, y), false);
      return;
    }
    if (!dragged && Math.hypot(x - drag.from[0], y - drag.from[1]) < DRAG) return;
    if (!dragged) frame.setPointerCapture(event.pointerId);
    dragged = true;
    if (drag.pan) move(map, fields, drag, [x, y]);
    else {
      drag.to = [x, y];
      map.band(spanned(map, drag));
    }
  });
  frame.addEventListener("pointerup", () => {
    const span = drag && dragged && !drag.pan && spanned(map, drag);
    end();
    if (span) fields.zoomTo(...cornersOf(map, span));
  });
  frame.addEventListener("pointercancel", end);
  frame.addEventListener("pointerleave", () => !drag && fields.clear());
  // While zoomed a click may be the first half of a double click, which shows the whole and picks nothing.
  let waiting = null;
  frame.addEventListener("click", (event) => {
    clearTimeout(waiting);
    if (dragged || event.detail > 1) return;
    const cell = map.cellAt(...at(event));
    if (fields.zoomed && event.detail) waiting = setTimeout(() => fields.pick(cell), DOUBLE);
    else fields.pick(cell);
  });
  frame.addEventListener("dblclick", () => {
    clearTimeout(waiting);
    fields.whole();
  });
  frame.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey || !event.deltaY) return;
      event.preventDefault();
      fields.zoom(event.deltaY < 0 ? IN : 1 / IN, map.cellAt(...at(event)));
    },
    { passive: false },
  );
  // By pointer it is the pointer that says which cell.
  frame.addEventListener("focus", () => !pressed && frame.matches(":focus-visible") && fields.enter());
  frame.addEventListener("blur", () => fields.clear());
  frame.addEventListener("keydown", (event) => press(event, fields));
  return () => clearTimeout(waiting);
}

function move(map, fields, drag, [x, y]) {
  const { w, h } = map.place(0, 0);
  const [steps, up] = [Math.round((drag.from[0] - x) / w), Math.round((y - drag.from[1]) / h)];
  if (!steps && !up) return;
  fields.pan(steps, up);
  drag.from = [drag.from[0] - steps * w, drag.from[1] + up * h];
}

// The part of the plot between the two ends of a drag; all of an axis along which it hardly went.
function spanned(map, { from, to }) {
  const { left, top, width, height } = map.plot;
  const held = (v, low, length) => Math.max(low, Math.min(low + length - 0.01, v));
  const [dx, dy] = [Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])];
  const xs = [from[0], to[0]].map((v) => held(v, left, width));
  const ys = [from[1], to[1]].map((v) => held(v, top, height));
  const wide = dx < ALONG && dy >= ALONG;
  const tall = dy < ALONG && dx >= ALONG;
  return { xs: wide ? [left, left + width - 0.01] : xs, ys: tall ? [top, top + height - 0.01] : ys };
}

function cornersOf(map, { xs, ys }) {
  return [map.cellNear(xs[0], ys[0]), map.cellNear(xs[1], ys[1])];
}

function press(event, fields) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const far = event.shiftKey ? FAR : 1;
  const keys = {
    ArrowLeft: () => fields.move(-far, 0),
    ArrowRight: () => fields.move(far, 0),
    ArrowUp: () => fields.move(0, far),
    ArrowDown: () => fields.move(0, -far),
    Home: () => fields.move(-Infinity, 0),
    End: () => fields.move(Infinity, 0),
    Enter: () => fields.pick(fields.cursor),
    " ": () => fields.pick(fields.cursor),
    "+": () => fields.zoom(IN, fields.cursor),
    "=": () => fields.zoom(IN, fields.cursor),
    "-": () => fields.zoom(1 / IN, fields.cursor),
    0: () => fields.whole(),
    Escape: () => fields.clear(),
  };
  const act = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
  if (!act) return;
  event.preventDefault();
  act();
}
