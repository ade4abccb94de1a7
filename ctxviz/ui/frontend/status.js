// What is going on, in words.

import { counted, seconds } from "./words.js";

const WAITING = {
  queued: "Waiting for a turn.",
  loading: "Getting the model ready.",
  running: "Reading the prompt.",
};

// The first line, and the part of it to set off.
export function headline(source) {
  if (source.verdict) return [source.verdict[0], source.verdict[2]];
  const { state, stage } = source.status;
  // A long prompt is read in parts, and how many of them is worth more than that it is read.
  const reading = state === "running" && stage ? sentence(stage) : "";
  return [reading || (WAITING[state] ?? "Nothing has been written yet."), ""];
}

function sentence(words) {
  return `${words[0].toUpperCase()}${words.slice(1)}.`;
}

// How far: "12 of 32 tokens", or nothing before there is a run.
function progress(source) {
  if (!source.run) return "";
  const { asked } = source.run;
  const whole = source.n === asked || source.ended;
  return whole ? counted(source.n, "token") : `${source.n} of ${counted(asked, "token")}`;
}

function pace(rate) {
  if (rate === null) return "";
  return rate < 1 ? `${seconds(1 / rate)} per token` : `${Number(rate.toPrecision(2))} tokens/s`;
}

function meanSeconds(source) {
  const spent = source.tokens.map((token) => token.seconds).filter(Number.isFinite);
  return spent.length ? `${seconds(spent.reduce((a, b) => a + b, 0) / spent.length)} each` : "";
}

export function statusOf(source) {
  const { state, stage, progress: share } = source.status;
  const parts = {
    empty: [],
    queued: ["Waiting", stage],
    loading: ["Loading", stage, share === null ? "" : `${Math.round(100 * share)} %`],
    running: ["Writing", progress(source), pace(source.rate), stage],
    paused: ["Paused", progress(source)],
    done: ["Finished", progress(source), meanSeconds(source)],
    stopped: ["Stopped", progress(source)],
    failed: ["Stopped by an error", progress(source)],
  }[state];
  return parts.filter(Boolean).join(" · ");
}

// null: no bar; undefined: a bar without an end; otherwise 0 to 1.
export function shareOf(source) {
  const { state, progress: share } = source.status;
  if (state === "loading") return share ?? undefined;
  if (state === "running" && share !== null) return share;
  if (state === "running" && source.run) return source.n / source.run.asked;
  return null;
}
