// The line charts of the live view: where a token's entry holds the value, which flags count, and the words.

export const CHARTS = [
  {
    key: "tvd",
    at: 1,
    title: "Total-variation distance",
    axis: "TVD (0 to 1)",
    caption: "Half the summed difference of the two next-token distributions: 0 is the same, 1 is disjoint.",
    noise: "tvd",
    unpatched: "unpatched",
  },
  {
    key: "logit_linf",
    at: 2,
    title: "Largest logit gap",
    axis: "max |Δ logit|",
    caption: "The largest difference of one token's logit, with the context and patched without it.",
    noise: "gap",
    unpatched: "unpatchedGap",
  },
  {
    key: "patch_ratio",
    at: 3,
    title: "Patch over scale vector",
    axis: "‖Δm‖ / ‖m‖, largest over layers",
    caption:
      "Size of the change of the scale vector beside the vector itself; above 1 the patch outweighs it.",
  },
  {
    key: "replay_tvd",
    at: 4,
    bits: { same: 4, tie: 16, lost: 64 },
    extra: "replay",
    title: "TVD when replayed",
    axis: "TVD (0 to 1), worst replay",
    caption:
      "The finished weights run again, without the help that building gave them: low means that the weights themselves carry the context. ✗ above the top edge: the logits are no numbers.",
    noise: "tvd",
    unpatched: "unpatched",
  },
  {
    key: "held_tvd",
    at: 5,
    bits: { same: 8, tie: 32, lost: 128 },
    extra: "held",
    title: "TVD, one patch held",
    axis: "TVD (0 to 1)",
    caption:
      "One token's weights kept for all later tokens: the theorem gives every token weights of its own. ✗ above the top edge: the logits are no numbers.",
    unpatched: "unpatched",
  },
];
