"""A run in sentences: the verdict, and where it is worst; what deserves an alarm is told by ctxviz.alarms.

Recomputed for every token while a run grows, so all of it is a few numpy reductions. The sentences are text,
not HTML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.alarm_cells import BLOW_UP, dead_by_layer
from ctxviz.alarms import ALARM_LIMIT, ALARMS_PER_KIND, Alarm
from ctxviz.alarms import top as alarms
from ctxviz.figures.palette import label
from ctxviz.figures.text import counted, equals, quoted, sci
from ctxviz.folds import Context
from ctxviz.no_number import is_lost
from ctxviz.run import Run

__all__ = ["ALARMS_PER_KIND", "ALARM_LIMIT", "BLOW_UP", "Alarm", "Verdict", "alarms", "verdict"]

Flags = NDArray[np.bool_]

_NUMBER_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Verdict:
    """``headline`` answers whether the patched model says the same, ``detail`` where it is worst.

    ``emphasis`` is the part of the headline to set off, or empty.
    """

    headline: str
    detail: str
    emphasis: str = ""


def verdict(run: Run) -> Verdict:
    """The run in two lines; cheap enough for every token."""
    n = len(run)
    if n == 0:
        return Verdict("Nothing has been written yet.", "The verdict comes with the first token.")
    match = np.stack([run.series("match", i)[:n] for i in range(len(run.variants))]) > 0
    tie = np.stack([run.series("tie", i)[:n] for i in range(len(run.variants))]) > 0
    same = match.sum(axis=1).tolist()
    headline, emphasis = _headline(run, same, tie.sum(axis=1).tolist(), n)
    if len(same) == 1 and 0 < n - same[0] == tie.sum():
        one = n - same[0] == 1
        headline += "; the other is a tie inside" if one else "; the others are ties inside"
        headline += " the noise floor"
    detail = [_differences(run, match, tie), _lost(run, n), _largest_change(run, n), _dead(run, n)]
    return Verdict(
        f"{_folded(run.context)}, {headline}.", " ".join(part for part in detail if part), emphasis
    )


def _folded(context: Context) -> str:
    fold = context.fold
    if fold.kind == "all":
        return "Without any context"
    pictures = "pictures" if len(context.images) > 1 else "picture"
    if fold.kind == "span":
        one = fold.end - fold.start == 1
        what = f"prompt token {fold.start}" if one else f"prompt tokens {fold.start} to {fold.end - 1}"
    elif fold.kind == "image" and fold.number and len(context.images) > 1:
        what = f"picture {fold.number}"
    else:
        what = {
            "all-but-bos": "everything but the start token",
            "image": f"the {pictures}",
            "text": f"everything but the {pictures}",
        }[fold.kind]
    return f"With {what} folded into weights"


def _headline(run: Run, same: list[int], ties: list[int], n: int) -> tuple[str, str]:
    """The headline after its opening words, and the part to set off, from matches and ties per variant."""
    best, models, emphasis = max(same), len(same), _same(max(same), n)
    if models == 1:
        return f"the patched model said {emphasis}", emphasis
    if best == min(same):
        who = "both patched models" if models == 2 else f"all {_spelled(models)} patched models"
        return f"{who} said {emphasis}", emphasis
    names = [label(v, run.variants) for v in run.variants]
    worth = [(same[i] + ties[i], same[i]) for i in range(models)]
    last = min(range(models), key=worth.__getitem__)
    worst = _listed([name for name, one in zip(names, worth, strict=True) if one == worth[last]])
    count = "another" if n == 1 else str(same[last])
    if best < n:
        first = names[same.index(best)]
        who = f"the best of {_spelled(models)} patched models, {first},"
        return f"{who} said {emphasis}; the worst, {worst}, {count}", emphasis
    one = same.count(n) == models - 1
    if all(s + t == n for s, t in zip(same, ties, strict=True)):
        rest = f"the other{' differs' if one else 's differ'} only in ties inside the noise floor"
    else:
        rest = f"{names[last]} said {count}" if one else f"the worst, {worst}, said {count}"
    return f"{_spelled(same.count(n))} of {_spelled(models)} patched models said {emphasis}; {rest}", emphasis


def _listed(names: list[str]) -> str:
    """Two names, or one and how many are like it."""
    if len(names) <= 2:
        return " and ".join(names)
    return f"{names[0]} and {_spelled(len(names) - 1)} others"


def _spelled(n: int) -> str:
    return _NUMBER_WORDS[n] if n < len(_NUMBER_WORDS) else str(n)


def _same(same: int, n: int) -> str:
    if n == 1:
        return "the same token" if same else "another token"
    return f"the same {same} of {n} tokens"


def _differences(run: Run, match: Flags, tie: Flags) -> str:
    """Who differs first and where, and how many ties there are, for flags [variants, steps]."""
    sentences = []
    wrong = ~match & ~tie
    if wrong.any():
        first = int(wrong.any(axis=0).argmax())
        i = int(wrong[:, first].argmax())
        name = "It" if len(wrong) == 1 else _name(run, i)
        count = int(wrong[i].sum())
        if wrong.any(axis=1).sum() > 1:
            how = "differs first,"
        else:
            how = "differs once," if count == 1 else f"differs {count} times, first"
        sentences.append(f"{name} {how} at token {first} {_said(run, first)}.")
    if tie.any():
        sentences.append(f"{counted(int(tie.sum()), 'tie')} inside the noise floor.")
    return " ".join(sentences)


def _lost(run: Run, n: int) -> str:
    """Where logits are no numbers, for the variant that has most such tokens."""
    lost = np.stack([is_lost(run.series("tvd", i)[:n]) for i in range(len(run.variants))])
    if not lost.any():
        return ""
    i = int(lost.sum(axis=1).argmax())
    count, first = int(lost[i].sum()), int(lost[i].argmax())
    of = "" if len(lost) == 1 else f" of {label(run.variants[i], run.variants)}"
    where = f"at token {first}" if count == 1 else f"at {count} tokens, first at token {first}"
    return f"The logits{of} are no numbers {where} {_said(run, first)}."


def _largest_change(run: Run, n: int) -> str:
    """Where the patch is largest, with the denominator of that coordinate, or if it was not kept with the
    smallest of that layer and token."""
    tables = [run.field("scale_max_abs", i)[:, :n] for i in range(len(run.variants))]
    peaks = [float(np.fmax.reduce(table, axis=None)) for table in tables]
    if np.isnan(peaks).all():
        return ""
    i = int(np.nanargmax(peaks))
    layer, step = _place(tables[i] == np.float32(peaks[i]))
    where = f"token {step}" if len(tables) == 1 else f"{label(run.variants[i], run.variants)}, token {step}"
    j, vectors = int(run.field("scale_argmax", i)[layer, step]), run.vectors(step, i)
    if vectors is not None and j >= 0:
        beside = f"where {equals('|h|', abs(float(vectors.h[layer, j])))}"
    else:
        low = float(run.field("h_abs_min", i)[layer, step])
        beside = f"in a layer whose smallest |h| is {sci(low)}"
    return f"Largest change: {equals('|Δm|', peaks[i])} at layer {layer}, coordinate {j} ({where}), {beside}."


def _dead(run: Run, n: int) -> str:
    dead = int(dead_by_layer(run, n).sum())
    return f"{counted(dead, 'dead coordinate')} (m\u00a0=\u00a00)." if dead else ""


def _place(hit: Flags) -> tuple[int, int]:
    """(layer, step) of the first true cell."""
    layer, step = np.unravel_index(int(hit.argmax()), hit.shape)
    return int(layer), int(step)


def _name(run: Run, variant: int) -> str:
    words = label(run.variants[variant], run.variants)
    return words[0].upper() + words[1:]


def _said(run: Run, step: int) -> str:
    return quoted(run.token(step)[4])
