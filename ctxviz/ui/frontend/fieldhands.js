// Pointer, wheel and keys over one map.

const DRAG = 4;
const FAR = 10;
const IN = 0.5;

// `fields` gives cursor, zoomed, go, clear, enter, move, pick, zoom, whole and pan.
export function listen(map, fields) {
  const { frame } = map;
  let drag = null;
  let dragged = false;
  const at = (event) => {
    const box = frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  frame.addEventListener("pointerdown", (event) => {
    dragged = false;
    drag = fields.zoomed && event.button === 0 ? at(event) : null;
  });
  frame.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (!drag) {
      fields.go(map.cellAt(x, y), false);
      return;
    }
    if (!dragged && Math.hypot(x - drag[0], y - drag[1]) < DRAG) return;
    if (!dragged) frame.setPointerCapture(event.pointerId);
    dragged = true;
    const { w, h } = map.place(0, 0);
    const [steps, up] = [Math.round((drag[0] - x) / w), Math.round((y - drag[1]) / h)];
    if (!steps && !up) return;
    fields.pan(steps, up);
    drag = [drag[0] - steps * w, drag[1] + up * h];
  });
  for (const name of ["pointerup", "pointercancel"]) frame.addEventListener(name, () => (drag = null));
  frame.addEventListener("pointerleave", () => !drag && fields.clear());
  frame.addEventListener("click", (event) => !dragged && fields.pick(map.cellAt(...at(event))));
  frame.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey || !event.deltaY) return;
      event.preventDefault();
      fields.zoom(event.deltaY < 0 ? IN : 1 / IN, map.cellAt(...at(event)));
    },
    { passive: false },
  );
  frame.addEventListener("focus", () => frame.matches(":focus-visible") && fields.enter());
  frame.addEventListener("blur", () => fields.clear());
  frame.addEventListener("keydown", (event) => press(event, fields));
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
