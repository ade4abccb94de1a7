"""A run in sentences: the verdict, where it is worst, and what deserves an alarm.

Recomputed for every token while a run grows, so all of it is a few numpy reductions. The sentences are text,
not HTML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.figures.palette import label
from ctxviz.figures.text import counted, quoted, sci
from ctxviz.records import Fold
from ctxviz.run import Run

BLOW_UP: Final = 100.0
"""||dm|| / ||m|| above which a layer's patch is called a blow-up."""
SWALLOWED_SHARE: Final = 0.5
"""Share of a layer's coordinates whose change rounding may undo before it is told."""
ALARMS_PER_KIND: Final = 3
ALARM_LIMIT: Final = 10

LAYERS_NAMED: Final = 6

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


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing worth a look; the place is None where it is not one place.

    ``kind`` is ``mismatch``, ``uncontrolled``, ``blow-up``, ``swallowed`` or ``dead``, worst first.
    """

    kind: str
    sentence: str
    step: int | None
    layer: int | None
    coordinate: int | None
    variant: int | None


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
    detail = [_differences(run, match, tie), _largest_change(run, n), _dead(run, n)]
    return Verdict(
        f"{_folded(run.context.fold)}, {headline}.", " ".join(part for part in detail if part), emphasis
    )


def _folded(fold: Fold) -> str:
    if fold.kind == "all":
        return "Without any context"
    if fold.kind == "span":
        one = fold.end - fold.start == 1
        what = f"prompt token {fold.start}" if one else f"prompt tokens {fold.start} to {fold.end - 1}"
    else:
        what = {"all-but-bos": "everything but the start token", "image": "the image"}[fold.kind]
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
    last = min(range(models), key=lambda i: (same[i] + ties[i], same[i]))
    count = "another" if n == 1 else str(same[last])
    if best < n:
        first = names[same.index(best)]
        who = f"the best of {_spelled(models)} patched models, {first},"
        return f"{who} said {emphasis}; the worst, {names[last]}, {count}", emphasis
    one = same.count(n) == models - 1
    if all(s + t == n for s, t in zip(same, ties, strict=True)):
        rest = f"the other{' differs' if one else 's differ'} only in ties inside the noise floor"
    else:
        rest = f"{names[last]} said {count}" if one else f"the worst, {names[last]}, said {count}"
    return f"{_spelled(same.count(n))} of {_spelled(models)} patched models said {emphasis}; {rest}", emphasis


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


def _largest_change(run: Run, n: int) -> str:
    """Where the patch is largest, with the smallest denominator of that layer and token."""
    tables = [run.field("scale_max_abs", i)[:, :n] for i in range(len(run.variants))]
    peaks = [float(np.fmax.reduce(table, axis=None)) for table in tables]
    if np.isnan(peaks).all():
        return ""
    i = int(np.nanargmax(peaks))
    layer, step = _place(tables[i] == np.float32(peaks[i]))
    where = f"token {step}" if len(tables) == 1 else f"{label(run.variants[i], run.variants)}, token {step}"
    j, low = (run.field(name, i)[layer, step] for name in ("scale_argmax", "h_abs_min"))
    return (
        f"Largest change: |Δm| = {sci(peaks[i])} at layer {layer}, coordinate {int(j)} ({where}), "
        f"where the smallest |h| is {sci(float(low))}."
    )


def _dead(run: Run, n: int) -> str:
    dead = int(_dead_by_layer(run, n).sum())
    return f"{counted(dead, 'dead coordinate')} (m\u00a0=\u00a00)." if dead else ""


def _dead_by_layer(run: Run, n: int) -> NDArray[np.int32]:
    counts = np.stack([run.field("dead", i)[:, n - 1] for i in range(len(run.variants))])
    return np.maximum(counts.max(axis=0), 0)


def alarms(run: Run) -> list[Alarm]:
    """What deserves a look, worst kind first, ALARMS_PER_KIND of each at most; cheap for every token."""
    n = len(run)
    if n == 0:
        return []
    kinds = (_mismatches, _uncontrolled, _blow_ups, _swallowed, _dead_alarm)
    found: list[Alarm] = []
    for kind in kinds:
        ranked = sorted(kind(run, n), key=lambda pair: -pair[0])
        found.extend(alarm for _, alarm in ranked[:ALARMS_PER_KIND])
    return found[:ALARM_LIMIT]


def _mismatches(run: Run, n: int) -> Iterator[tuple[float, Alarm]]:
    for i, variant in enumerate(run.variants):
        wrong = np.flatnonzero((run.series("match", i)[:n] == 0) & (run.series("tie", i)[:n] == 0))
        if not len(wrong):
            continue
        k = int(wrong[0])
        ours, theirs = run.baseline(k, variant.dtype).top.texts[:1], run.top(k, i).texts[:1]
        said = (
            f"said {quoted(theirs[0])} where the model with context said {quoted(ours[0])}"
            if ours and theirs
            else "differs"
        )
        times = "" if len(wrong) == 1 else f" (the first of {len(wrong)})"
        sentence = f"{_name(run, i)} {said}, at token {k}{times}."
        yield len(wrong), Alarm("mismatch", sentence, k, None, None, i)


def _uncontrolled(run: Run, n: int) -> Iterator[tuple[float, Alarm]]:
    for i, layer, step, count in _peaks(run, "uncontrolled", n):
        if count > 0:
            what = f"{counted(int(count), 'coordinate')} out of control; what the context adds there is lost"
            yield count, Alarm("uncontrolled", f"{_at(run, i, layer, step)}: {what}.", step, layer, None, i)


def _blow_ups(run: Run, n: int) -> Iterator[tuple[float, Alarm]]:
    for i in range(len(run.variants)):
        table = np.nan_to_num(run.field("scale_ratio", i)[:, :n], nan=-1.0)
        steps = table.argmax(axis=1)
        peaks = table[np.arange(len(table)), steps]
        for layer in np.argsort(-peaks)[:ALARMS_PER_KIND].tolist():
            if peaks[layer] > BLOW_UP:
                yield float(peaks[layer]), _blow_up(run, i, layer, int(steps[layer]))


def _blow_up(run: Run, i: int, layer: int, step: int) -> Alarm:
    ratio, dm, h = (
        float(run.field(m, i)[layer, step]) for m in ("scale_ratio", "scale_max_abs", "h_abs_min")
    )
    j, smallest = (int(run.field(m, i)[layer, step]) for m in ("scale_argmax", "h_argmin"))
    because = f", where |h| = {sci(h)}" if j == smallest else ""
    what = f"‖Δm‖ is {sci(ratio)} times ‖m‖; |Δm| = {sci(dm)} at coordinate {j}{because}"
    return Alarm("blow-up", f"{_at(run, i, layer, step)}: {what}.", step, layer, j, i)


def _swallowed(run: Run, n: int) -> Iterator[tuple[float, Alarm]]:
    width = run.model.width
    for i, layer, step, count in _peaks(run, "swallowed", n):
        if count > SWALLOWED_SHARE * width:
            what = f"rounding to {run.variants[i].dtype} undid {int(count)} of {width} changes of the scale"
            yield count, Alarm("swallowed", f"{_at(run, i, layer, step)}: {what}.", step, layer, None, i)


def _dead_alarm(run: Run, n: int) -> Iterator[tuple[float, Alarm]]:
    dead = _dead_by_layer(run, n)
    layers, total = np.flatnonzero(dead).tolist(), int(dead.sum())
    if not layers:
        return
    named = [str(layer) for layer in layers[:LAYERS_NAMED]]
    if len(layers) > LAYERS_NAMED:
        named.append(f"{len(layers) - LAYERS_NAMED} more")
    which = f"layer {named[0]}" if len(named) == 1 else f"layers {', '.join(named[:-1])} and {named[-1]}"
    verb, whose = ("is", "its") if total == 1 else ("are", "their")
    sentence = (
        f"{counted(total, 'coordinate')} of {which} {verb} dead (m = 0): all of {whose} output comes from Δm."
    )
    yield total, Alarm("dead", sentence, None, int(dead.argmax()), None, None)


def _peaks(run: Run, metric: str, n: int) -> Iterator[tuple[int, int, int, float]]:
    """The largest value of an integer metric per variant: (variant, layer, step, value)."""
    for i in range(len(run.variants)):
        table = run.field(metric, i)[:, :n]
        most = table.max()
        yield i, *_place(table == most), float(most)


def _place(hit: Flags) -> tuple[int, int]:
    """(layer, step) of the first true cell."""
    layer, step = np.unravel_index(int(hit.argmax()), hit.shape)
    return int(layer), int(step)


def _at(run: Run, variant: int, layer: int, step: int) -> str:
    return f"{_name(run, variant)}, layer {layer}, token {step} {_said(run, step)}"


def _name(run: Run, variant: int) -> str:
    words = label(run.variants[variant], run.variants)
    return words[0].upper() + words[1:]


def _said(run: Run, step: int) -> str:
    return quoted(run.token(step)[4])
