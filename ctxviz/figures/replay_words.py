"""Replays in words: what each kind is, whether bits came back, and whether the weights carry the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ctxviz.figures.metrics import Values
from ctxviz.figures.palette import label
from ctxviz.figures.text import counted, sci
from ctxviz.no_number import NO_NUMBER, is_lost, is_measured, numbers
from ctxviz.replaying import SAME_WEIGHTS, carried, failed, measured, worst_kind
from ctxviz.run import Run
from ctxviz.settings import HELD


@dataclass(frozen=True, slots=True)
class KindWords:
    """A kind of replay in words: ``short`` for a legend, ``phrase`` to follow “run again”."""

    short: str
    phrase: str


KIND_WORDS: Final = {
    "same": KindWords("same kernel", "by the same kernel"),
    "batch": KindWords("batch of two", "in a batch of two"),
    "ulp": KindWords(
        "1 ulp", "with the input embedding moved by one unit in the last place (the worst of several seeds)"
    ),
    "rounded": KindWords("rounded weights", "with the patched weights rounded through another dtype"),
    HELD: KindWords("held weights", "with an earlier token's weights"),
}


def bits_sentence(run: Run, variant: int) -> str:
    """Whether the same kernel gave the same logits, bit for bit."""
    shift = run.replay("same", "shift", variant)
    shift = shift[measured(run, variant, "same")[: len(shift)]]
    if not len(shift):
        return "The weights were not run again by the same kernel."
    same = int((shift == 0).sum())
    if same == len(shift):
        where = "the one token" if same == 1 else f"all {same} tokens"
        return f"By the same kernel the weights gave the same logits bit for bit, at {where}."
    n = counted(len(shift), "token")
    known, lost = numbers(shift), int(is_lost(shift).sum())
    gaps = [f"a logit moved by up to {sci(float(known.max()))}"] if known.size else []
    gaps += [f"logits are no numbers at {counted(lost, 'token')}"] if lost else []
    return f"By the same kernel the weights gave the same logits at {same} of {n}; {', and '.join(gaps)}."


def meaning(run: Run, variant: int) -> str:
    """One sentence on whether a variant's weights carry the context, from the replays of SAME_WEIGHTS."""
    answer, kind = carried(run, variant), worst_kind(run, variant)
    if answer is None or kind is None:
        return "The weights were not run again, so whether they carry the context is not known."
    where = measured(run, variant, kind)
    building = run.series("tvd", variant)[: len(where)][where]
    again = run.replay(kind, "tvd", variant)[: len(where)][where]
    if not numbers(building).size:
        return (
            "The logits were no numbers already while the patch was built, so whether the weights carry the"
            " context cannot be told."
        )
    built, replayed, phrase = _largest(building), _largest(again), KIND_WORDS[kind].phrase
    if answer == "yes":
        return (
            f"The weights carry the context: even run {phrase}, they stay within TVD {replayed} of the model"
            f" with context, built to {built}."
        )
    if answer == "mostly":
        failures = int(failed(run, variant, kind)[: len(where)].sum())
        return (
            f"The weights mostly carry the context: run {phrase}, they give another distribution at"
            f" {failures} of {counted(int(where.sum()), 'token')} ({_up_to(again)}), though the patch"
            f" was built to {built}."
        )
    if not numbers(again).size:
        return (
            f"The weights do not carry the context: run {phrase}, they give logits that are no numbers,"
            f" though the patch was built to {built}."
        )
    return (
        f"The weights do not carry the context: run {phrase}, they give another distribution"
        f" ({_up_to(again)}), though the patch was built to {built}."
    )


def control_sentence(run: Run, variant: int) -> str:
    """What the same move does to the model with its context; empty where that was not measured."""
    moved = run.reference("ulp_tvd", run.variants[variant].dtype)
    known = moved[is_measured(moved)]
    if not known.size:
        return ""
    change = f"changes by TVD {_largest(known)} at most" if numbers(known).size else f"gives {_up_to(known)}"
    return (
        f"The model with its context, its kept tokens moved in the same way, {change}"
        f" ({counted(len(known), 'token')} measured)."
    )


def replays_sentence(run: Run) -> str:
    """Whose weights carry the context, in one sentence for all variants; empty where nothing was replayed.

    Variants whose logits were no numbers while they were built are left out: nothing can be told of them.
    """
    groups: dict[str, list[int]] = {}
    for i in range(len(run.variants)):
        answer = carried(run, i) if numbers(run.series("tvd", i)).size else None
        if answer is not None:
            groups.setdefault(answer, []).append(i)
    parts = []
    for answer, verb in (("yes", "carry"), ("mostly", "mostly carry"), ("no", "do not carry")):
        if answer in groups:
            whose = "those of" if parts else "the finished weights of"
            what = "it" if parts else "the context"
            how = _lapses(run, groups[answer]) if answer == "mostly" else _reach(run, groups[answer])
            parts.append(f"{whose} {_names(run, groups[answer])} {verb} {what}{how}")
    return f"That was while the patches were built; run again, {'; '.join(parts)}." if parts else ""


def _names(run: Run, variants: list[int]) -> str:
    names = [label(run.variants[i], run.variants) for i in variants]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _lapses(run: Run, variants: list[int]) -> str:
    """At how many tokens the worst kind of replay of these variants fails, in brackets."""
    kinds = [worst_kind(run, i) for i in variants]
    lost = [int(failed(run, i, kind).sum()) for i, kind in zip(variants, kinds, strict=True) if kind]
    return f" (not at {max(lost, default=0)} of {counted(len(run), 'token')})"


def _reach(run: Run, variants: list[int]) -> str:
    """The largest TVD of the variants' replays, in brackets."""
    done = []
    for i in variants:
        for kind in SAME_WEIGHTS:
            where = measured(run, i, kind)
            done.append(run.replay(kind, "tvd", i)[: len(where)][where])
    return f" ({_up_to(np.concatenate(done), 'replay')})"


def _up_to(values: Values, noun: str = "token") -> str:
    """The largest of the TVDs that are numbers, and how many ``noun`` gave no distribution."""
    lost = int(is_lost(values).sum())
    if lost == len(values):
        return "logits that are no numbers"
    more = f", and {counted(lost, noun)} gave logits that are no numbers" if lost else ""
    return f"TVD up to {sci(float(numbers(values).max()))}{more}"


def _largest(values: Values) -> str:
    """The largest number, and in brackets at how many tokens there is none."""
    known, lost = numbers(values), int(is_lost(values).sum())
    if not known.size:
        return NO_NUMBER
    return sci(float(known.max())) + (f" ({NO_NUMBER} at {counted(lost, 'token')})" if lost else "")
