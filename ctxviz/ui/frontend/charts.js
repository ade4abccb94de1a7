// The line charts of the live view: which of a token's numbers they draw, and the words.

import { domainFor } from "./axes.js";
import { dashes } from "./look.js";

export const CHARTS = [
  {
    key: "tvd",
    value: "tvd",
    tab: "TVD",
    title: "Total-variation distance",
    axis: "TVD (0 to 1)",
    caption: "Half the summed difference of the two next-token distributions: 0 is the same, 1 is disjoint.",
    floor: "floor",
    unpatched: "unpatched",
  },
  {
    key: "logit_linf",
    value: "gap",
    tab: "logit gap",
    title: "Largest logit gap",
    axis: "max |Δ logit|",
    caption: "The largest difference of one token's logit, with the context and patched without it.",
    floor: "floorGap",
    unpatched: "unpatchedGap",
  },
  {
    key: "patch_ratio",
    value: "ratio",
    tab: "‖Δm‖/‖m‖",
    title: "Patch over scale vector",
    axis: "‖Δm‖ / ‖m‖, largest over layers",
    caption: "The change of the scale vector beside the vector itself; above 1 the patch outweighs it.",
  },
  {
    key: "replay_tvd",
    value: "replay",
    same: "replaySame",
    tie: "replayTie",
    extra: "replay",
    tab: "run again",
    title: "TVD when the weights run again",
    axis: "TVD (0 to 1), worst replay",
    caption: "Finished weights run again, without the help of building: low means they carry the context.",
    floor: "floor",
    unpatched: "unpatched",
  },
  {
    key: "held_tvd",
    value: "held",
    same: "heldSame",
    tie: "heldTie",
    extra: "held",
    tab: "held",
    title: "TVD, one patch held",
    axis: "TVD (0 to 1)",
    caption: "One token's weights kept for all later tokens: the theorem gives every token its own.",
    unpatched: "unpatched",
  },
];

// Those that a run has; some belong to runs that measured more.
export function chartsOf(run) {
  return CHARTS.filter(({ extra }) => !extra || run.extras.includes(extra));
}

// What a chart draws of a source, as LineChart reads it.
export function chartData(source, about) {
  const { run, tokens } = source;
  const { same = "same", tie = "tie" } = about;
  // What is never written into weights is not run again.
  const variants = run.look.variants.map((look, k) => ({ ...look, k })).filter(({ written }) => written || !about.extra);
  const lines = variants.map(({ label, color, dash, symbol, k }) => {
    const of = (step) => tokens[step].variants[k];
    const mark = (step) => (of(step)[same] || of(step)[about.value] === null ? "" : of(step)[tie] ? "tie" : "differs");
    // Only the building pass's token is known.
    const said = (step) => (about.value === "replay" || about.value === "held" ? "" : (of(step).said ?? ""));
    return { label: brief(label), color, dash, symbol, values: (step) => of(step)[about.value], mark, said };
  });
  return {
    about: { ...about, long: titleOf(run, about.title), file: fileName(run, about.key) },
    n: source.n,
    domain: domainFor(source),
    texts: (step) => tokens[step].text,
    lines,
    references: referencesOf(source, about),
    scale: "log",
  };
}

// What a figure is called in a file, where it stands alone.
export function titleOf(run, ...parts) {
  return [...parts, run.model, ...run.made_from].join(", ");
}

// What its file is called.
export function fileName(run, ...parts) {
  return [run.file, ...parts].join("-").replace(/[^a-z0-9.-]+/g, "-");
}

// Room for a legend is little: f32 for float32, bf16 for bfloat16.
export function brief(label) {
  return label.replace(/float(?=\d\d)/, "f");
}

// The noise floors and the unpatched model, as far as they were measured; of two dtypes told apart by their dashes.
function referencesOf({ run, referred }, { floor, unpatched }) {
  const kinds = [
    ["noise floor", floor, run.look.floor_styles],
    ["no patch", unpatched, run.look.unpatched_styles],
  ].filter(([, list]) => list);
  return kinds.flatMap(([kind, list, styles]) =>
    referred
      .map((lists, i) => {
        const [dash, width] = styles[run.dtypes[i]];
        const values = (step) => lists[list][step] ?? null;
        return { label: brief(`${kind} ${run.dtypes[i]}`), dash: dashes(dash), width, values };
      })
      .filter((_, i) => referred[i][list].length),
  );
}
