// What a figure made for a laptop needs on a telephone: words that do not lie over each other, and as much room
// for the plot though the legend takes more rows.

const WIDE = 800;
const SIDE = 70;
const NAME = 17;
const LETTER = 7.5;
const LINE = 18;
const FEW = 6;
const LEGEND = { sign: 50, row: 19 };
const SQUARES = 140;

// Data and layout for a figure of this width.
export function fitted(data, layout, width) {
  const axes = Object.entries(layout).filter(([key, axis]) => /^xaxis\d*$/.test(key) && axis.ticktext);
  const named = axes.map(([key, axis]) => [key, spaced(axis, width)]);
  const legend = Math.max(0, rows(data, layout, width) - rows(data, layout, WIDE)) * LEGEND.row;
  const names = Math.max(0, ...named.map(([, axis]) => axis.lines - 1)) * LINE;
  let height = layout.height + legend + names;
  // Two squares side by side are no higher than half of the width.
  if (layout.yaxis?.scaleanchor) height = Math.min(height, width / 2 + SQUARES);
  const drawn = Object.fromEntries(named.map(([key, { axis }]) => [key, axis]));
  return { data: data.map((trace) => cut(trace, layout, width)), layout: { ...layout, ...drawn, height } };
}

// An axis with names for which there is room: few are broken into lines, of many every second, fifth, ... stays.
function spaced(axis, width) {
  const [from, to] = axis.domain ?? [0, 1];
  const room = Math.max(NAME, (width - SIDE) * (to - from));
  const { ticktext } = axis;
  if (ticktext.length <= FEW) {
    const most = room / (ticktext.length * LETTER);
    const broken = ticktext.every((text) => letters(text) < most) ? ticktext : ticktext.map(inLines);
    return { axis: { ...axis, ticktext: broken }, lines: broken === ticktext ? 1 : deepest(broken) };
  }
  const every = Math.ceil((ticktext.length * NAME) / room);
  // A token that differs is always named.
  const kept = ticktext.map((text, i) => i % every === 0 || text.startsWith("✗"));
  const some = (values) => values.filter((_, i) => kept[i]);
  return { axis: { ...axis, tickvals: some(axis.tickvals), ticktext: some(ticktext) }, lines: 1 };
}

function inLines(text) {
  return text.replace(/<br>/g, " ").split(" ").join("<br>");
}

function deepest(texts) {
  return Math.max(...texts.map((text) => text.split("<br>").length));
}

// The letters of the longest line; what is escaped is one.
function letters(text) {
  return Math.max(...text.split("<br>").map((line) => [...line.replace(/&[^;]+;/g, "x")].length));
}

// A column of words beside others, cut to what a column can hold; pointing at them shows them whole.
function cut(trace, layout, width) {
  const columns = layout.xaxis?.ticktext?.length ?? 0;
  if (trace.mode !== "text" || !trace.customdata || !columns || columns > FEW) return trace;
  const most = Math.floor((width - SIDE) / columns / (LETTER + 1)) - 1;
  return { ...trace, text: trace.text.map((text) => shortened(text, most)) };
}

function shortened(text, most) {
  const [, before, words, after] = text.match(/^((?:✗ )?(?:<[bi]>)?)(.*?)((?:<\/[bi]>)?)$/);
  const pieces = words.match(/&[^;]+;|./gu) ?? [];
  const room = before.startsWith("✗") ? most - 3 : most;
  return pieces.length <= room ? text : `${before}${pieces.slice(0, room - 1).join("")}…${after}`;
}

// How many rows the legend takes, which plotly sets in columns as wide as the widest entry.
function rows(data, layout, width) {
  const listed = data.filter(({ name, showlegend }) => name && showlegend !== false);
  if (!layout.showlegend || layout.legend?.orientation !== "h" || !listed.length) return 0;
  const widest = Math.max(...listed.map(({ name }) => name.length * LETTER + LEGEND.sign));
  return Math.ceil(listed.length / Math.max(1, Math.floor((width - SIDE) / widest)));
}
