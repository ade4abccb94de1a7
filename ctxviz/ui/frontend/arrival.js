// Brings a part of the page into view, with the focus on its heading, once for each count.

const TIMES = 12;
const WAIT = 100;
// Kept for as long as the page is open: the component is mounted anew wherever it is drawn again.
let done = 0;

export default function mount({ data }) {
  if (data.count <= done) {
    done = data.count;
    return;
  }
  done = data.count;
  let tries = 0;
  // What stands above may still be growing when the page has just been drawn.
  const timer = setInterval(() => {
    tries += 1;
    const [place, heading] = [data.place, data.heading].map((key) => document.querySelector(`.st-key-${key}`));
    if (place && heading) arrive(place, heading, tries === 1);
    if (tries >= TIMES) stop();
  }, WAIT);
  const stop = () => {
    clearInterval(timer);
    for (const kind of ["wheel", "pointerdown", "keydown"]) removeEventListener(kind, stop, true);
  };
  // A reader who goes on by themselves is not pulled back.
  for (const kind of ["wheel", "pointerdown", "keydown"]) addEventListener(kind, stop, true);
}

function arrive(place, heading, first) {
  const whole = heading.getBoundingClientRect().bottom - place.getBoundingClientRect().top;
  const target = whole < window.innerHeight ? place : heading;
  if (Math.abs(target.getBoundingClientRect().top) > 1) target.scrollIntoView({ block: "start" });
  if (!first) return;
  const words = heading.querySelector("h2, h3") ?? heading;
  words.tabIndex = -1;
  words.focus({ preventScroll: true });
}
