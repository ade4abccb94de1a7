// One object for each place where Streamlit mounts a component, told what is new there, ended with the place.
//
// Streamlit calls a component anew for every change of its data or theme and awaits it, so that an earlier call may
// come after a later one. It then takes the earlier back at once: what the later one said holds again. Otherwise it
// takes back only the last, when the place goes. Where the only call was taken back at once, nobody says when the
// place goes: it is looked after until it is called again.

const LOOK_AFTER = 5000;

// `make(root, component)` gives an object with update(component) and end().
export function mounting(make) {
  const mounted = new WeakMap();
  return (component) => {
    const root = component.parentElement;
    const held = mounted.get(root) ?? { thing: make(root, component), call: 0, said: null };
    mounted.set(root, held);
    const before = held.said;
    held.call += 1;
    held.said = component;
    const { call } = held;
    let justNow = true;
    setTimeout(() => (justNow = false), 0);
    held.thing.update(component);
    return () => {
      if (held.call !== call) return;
      if (justNow && root.isConnected) {
        if (!before) {
          lookAfter();
          return;
        }
        held.call -= 1;
        held.said = before;
        held.thing.update(before);
        return;
      }
      end();
    };
    function end() {
      held.thing.end();
      mounted.delete(root);
    }
    function lookAfter() {
      const timer = setInterval(() => {
        if (held.call === call && root.isConnected) return;
        clearInterval(timer);
        if (held.call === call) end();
      }, LOOK_AFTER);
    }
  };
}
