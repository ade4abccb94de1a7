"""What in a run deserves a look: every place, worst first, and the few that are told while it grows.

Sentences are text, not HTML, and are made only for the places asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ctxviz.alarm_cells import (
    BLOW_UP,
    FLOAT16_MAX,
    NEAR_OVERFLOW,
    SWALLOWED_SHARE,
    Cells,
    cells,
    dead_by_layer,
)
from ctxviz.figures.palette import label
from ctxviz.figures.text import counted, equals, quoted, sci
from ctxviz.replaying import FAIL_LEAST_TVD, FAIL_OVER_BUILT, FAIL_OVER_FLOOR, SAME_WEIGHTS
from ctxviz.run import Run
from ctxviz.settings import HELD

ALARMS_PER_KIND: Final = 3
ALARM_LIMIT: Final = 10
LAYERS_NAMED: Final = 6

REPLAY_WORDS: Final = {
    "same": "same kernel",
    "batch": "batch of two",
    "ulp": "input moved by 1 ulp",
    "rounded": "rounded weights",
    HELD: "held weights",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What an alarm means, and when it fires."""

    meaning: str
    threshold: str


KINDS: Final = {
    "mismatch": Kind(
        "the patched model says another token than the model with context",
        "the most probable tokens differ, and it is no tie",
    ),
    "replay-failure": Kind(
        "finished weights, run again, do not give what they gave while they were built",
        "same kernel, batch of two and 1 ulp: "
        f"TVD above all of {FAIL_OVER_BUILT:g} times the building pass's, {FAIL_OVER_FLOOR:g} times the "
        f"noise floor's and {FAIL_LEAST_TVD:g}; another token that is no tie; by the same kernel, "
        "any other bit",
    ),
    "near-overflow": Kind(
        "float16 is close to its largest number or past it",
        f"float16 only: |Δm| or |x| of a layer's output above {NEAR_OVERFLOW:g}, half of {FLOAT16_MAX:g}; "
        "logits that are no numbers",
    ),
    "uncontrolled": Kind(
        "coordinates of a layer where what the context adds is lost", "one coordinate or more"
    ),
    "blow-up": Kind(
        "the change of a layer's scale vector is far larger than the vector",
        f"‖Δm‖ above {BLOW_UP:g} times ‖m‖",
    ),
    "swallowed": Kind(
        "rounding undid most changes of a layer's scale vector",
        f"more than {SWALLOWED_SHARE:.0%} of its coordinates",
    ),
    "dead": Kind("scales m of a layer that are exactly zero", "one coordinate or more"),
    "tie": Kind(
        "the patched model says another token, between two that rounding alone could swap",
        "a mismatch whose margin is below the noise floor's largest logit gap",
    ),
}
"""By key, worst first."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing worth a look; the place is None where it is not one place.

    ``kind`` is one of KINDS. ``value`` is what was measured and ``threshold`` what it passed: a ratio, a
    number of coordinates, a size, a TVD or, for a tie, a margin; None where there is none, infinite where it
    is no number.
    """

    kind: str
    sentence: str
    step: int | None
    layer: int | None
    coordinate: int | None
    variant: int | None
    value: float | None = None
    threshold: float | None = None


def find(run: Run, kinds: Sequence[str] | None = None, limit: int | None = None) -> list[Alarm]:
    """Every alarm of the given kinds, or of all; with a ``limit`` the first so many.

    They come in the order of KINDS, worst first within each.
    There is one for each variant, layer and token concerned; for each variant and token where the kind
    concerns no layer; for each kind of replay too; and one for each layer with dead coordinates.

    Raises:
        KeyError: an unknown kind.
    """
    words, found = _Words(run), []
    for kind in _ordered(kinds):
        room = None if limit is None else limit - len(found)
        found += [words.alarm(kind, cell) for cell in cells(run, kind)[:room]]
    return found


def count(run: Run, kinds: Sequence[str] | None = None) -> dict[str, int]:
    """How many alarms :func:`find` would give, by kind, without making sentences.

    Raises:
        KeyError: an unknown kind.
    """
    return {kind: len(cells(run, kind)) for kind in _ordered(kinds)}


def first(run: Run, kind: str) -> Alarm | None:
    """The earliest alarm of a kind, the worst of those at the same token; None where there is none.

    Raises:
        KeyError: an unknown kind.
    """
    table = cells(run, kind)
    return _Words(run).alarm(kind, table[table["step"].argmin()]) if len(table) else None


def top(run: Run) -> list[Alarm]:
    """The short list for a growing run: worst kind first, ALARMS_PER_KIND of each at most, and no ties.

    Each variant is named once per kind, for a blow-up once per layer; a variant's mismatches are one alarm,
    at the first of them, and all dead coordinates are one.
    """
    words, found = _Words(run), []
    for kind in (kind for kind in KINDS if kind != "tie"):
        table = cells(run, kind)
        if kind == "mismatch":
            found += words.mismatches(table)
        elif kind == "dead":
            found += words.all_dead()
        else:
            found += [words.alarm(kind, cell) for cell in _one_each(table, by_layer=kind == "blow-up")]
    return found[:ALARM_LIMIT]


def _ordered(kinds: Sequence[str] | None) -> list[str]:
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown:
        raise KeyError(unknown[0])
    return [kind for kind in KINDS if kinds is None or kind in kinds]


def _one_each(table: Cells, *, by_layer: bool) -> Cells:
    """The worst place of each variant, or of each variant and layer; the worst ALARMS_PER_KIND of them."""
    key = table["variant"].astype(np.int64) << 32 | (table["layer"] if by_layer else 0)
    _, worst = np.unique(key, return_index=True)
    return table[np.sort(worst)[:ALARMS_PER_KIND]]


class _Words:
    """Sentences about one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        names = [label(variant, run.variants) for variant in run.variants]
        self._names = [name[0].upper() + name[1:] for name in names]

    def alarm(self, kind: str, cell: Any) -> Alarm:
        """The alarm of a row of a table of cells."""
        variant, layer, step, value, threshold, *_ = cell.item()
        coordinate = self._coordinate(kind, variant, layer, step)
        if kind == "dead":
            what = _dead(int(value), f"layer {layer}")
        elif kind == "mismatch":
            what = self._said(variant, step) + f", at token {step}."
        else:
            where = self._at(variant, -1 if kind == "replay-failure" else layer, step)
            what = f"{where}: {self._what(kind, cell, coordinate)}."
        return Alarm(
            kind,
            what,
            step=_place(step),
            layer=_place(layer),
            coordinate=_place(coordinate),
            variant=_place(variant),
            value=_known(value),
            threshold=_known(threshold),
        )

    def mismatches(self, table: Cells) -> list[Alarm]:
        """One alarm per variant at its first mismatch; the variant with most of them first."""
        found = []
        for variant in np.unique(table["variant"]).tolist():
            steps = np.sort(table["step"][table["variant"] == variant])
            k, times = int(steps[0]), "" if len(steps) == 1 else f" (the first of {len(steps)})"
            sentence = f"{self._said(variant, k)}, at token {k}{times}."
            found.append((len(steps), Alarm("mismatch", sentence, k, None, None, variant)))
        ranked = sorted(found, key=lambda pair: -pair[0])
        return [alarm for _, alarm in ranked[:ALARMS_PER_KIND]]

    def all_dead(self) -> list[Alarm]:
        """All dead coordinates as one alarm, at the layer with most of them."""
        dead = dead_by_layer(self._run, len(self._run)) if len(self._run) else np.zeros(0, np.int32)
        layers, total = np.flatnonzero(dead).tolist(), int(dead.sum())
        if not layers:
            return []
        named = [str(layer) for layer in layers[:LAYERS_NAMED]]
        if len(layers) > LAYERS_NAMED:
            named.append(f"{len(layers) - LAYERS_NAMED} more")
        which = f"layer {named[0]}" if len(named) == 1 else f"layers {', '.join(named[:-1])} and {named[-1]}"
        return [Alarm("dead", _dead(total, which), None, int(dead.argmax()), None, None, float(total), 0.0)]

    def _coordinate(self, kind: str, variant: int, layer: int, step: int) -> int:
        """Where the largest change is, for the kinds that are about one coordinate; else -1."""
        if layer < 0 or kind not in ("blow-up", "near-overflow"):
            return -1
        if kind == "near-overflow" and not self._layer("scale_max_abs", variant, layer, step) > NEAR_OVERFLOW:
            return -1
        return int(self._layer("scale_argmax", variant, layer, step))

    def _layer(self, metric: str, variant: int, layer: int, step: int) -> float:
        return float(self._run.field(metric, variant)[layer, step])

    def _what(self, kind: str, cell: Any, j: int) -> str:
        variant, layer, step, value, threshold, _, replay = cell.item()
        if kind == "uncontrolled":
            return f"{counted(int(value), 'coordinate')} out of control; what the context adds there is lost"
        if kind == "swallowed":
            dtype, width = self._run.variants[variant].dtype, self._run.model.width
            return f"rounding to {dtype} undid {int(value)} of {width} changes of the scale"
        if kind == "blow-up":
            h = equals("|h|", self._layer("h_abs_min", variant, layer, step))
            because = f", where {h}" if j == self._layer("h_argmin", variant, layer, step) else ""
            dm = equals("|Δm|", self._layer("scale_max_abs", variant, layer, step))
            times = f"‖Δm‖ is {sci(value)} times ‖m‖" if math.isfinite(value) else equals("‖Δm‖ / ‖m‖", value)
            return f"{times}; {dm} at coordinate {j}{because}"
        if kind == "near-overflow":
            return self._overflow(variant, layer, step, j)
        if kind == "tie":
            floor = "" if math.isnan(threshold) else f" of {sci(threshold)}"
            return f"another token, but the margin of {sci(value)} is inside the noise floor{floor}"
        return self._replay(SAME_WEIGHTS[replay], variant, layer, step)

    def _overflow(self, variant: int, layer: int, step: int, j: int) -> str:
        if layer < 0:
            return f"{self._without_numbers(variant, step)}; float16 overflowed"
        out = self._layer("output_max_abs", variant, layer, step)
        change = equals("|Δm|", self._layer("scale_max_abs", variant, layer, step))
        sizes = [f"{change} at coordinate {j}"] * (j >= 0) + [equals("|x|", out)] * (out > NEAR_OVERFLOW)
        return f"{' and '.join(sizes)}, where float16 ends at {FLOAT16_MAX:.0f}"

    def _without_numbers(self, variant: int, step: int) -> str:
        """Whose logits give no distribution."""
        ours, theirs = self._tops(variant, step)
        if theirs and not ours:
            return "the logits of the model with context are no numbers"
        return "the logits are no numbers"

    def _replay(self, kind: str, variant: int, layer: int, step: int) -> str:
        tvd, shift = (self._run.replay(kind, metric, variant)[step] for metric in ("tvd", "shift"))
        built = self._run.series("tvd", variant)[step]
        if not math.isfinite(tvd):
            return f"run again ({REPLAY_WORDS[kind]}), the logits are no numbers"
        differs = ", another token" if self._run.replay(kind, "match", variant)[step] == 0 else ""
        gap = f"moved by {sci(shift)}" if math.isfinite(shift) else "moved to what is no number"
        moved = f", logits {gap}" if kind == "same" else ""
        from_layer = "" if layer < 0 else f"; it drifts from layer {layer} on"
        how = f"run again ({REPLAY_WORDS[kind]})"
        return f"{how}, TVD {sci(tvd)} instead of {sci(built)}{differs}{moved}{from_layer}"

    def _said(self, variant: int, step: int) -> str:
        """Who said what instead of what."""
        ours, theirs = (quoted(texts[0]) if texts else "" for texts in self._tops(variant, step))
        nothing = "nothing, since its logits are no numbers"
        if not (ours or theirs):
            return f"{self._names[variant]} said {nothing}, nor did the model with context"
        said = theirs or f"{nothing},"
        return f"{self._names[variant]} said {said} where the model with context said {ours or nothing}"

    def _tops(self, variant: int, step: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The most probable token with context and patched, none where there is no distribution."""
        dtype = self._run.variants[variant].dtype
        return self._run.baseline(step, dtype).top.texts[:1], self._run.top(step, variant).texts[:1]

    def _at(self, variant: int, layer: int, step: int) -> str:
        where = "" if layer < 0 else f", layer {layer}"
        return f"{self._names[variant]}{where}, token {step} {quoted(self._run.token(step)[4])}"


def _dead(total: int, which: str) -> str:
    verb, whose = ("is", "its") if total == 1 else ("are", "their")
    return (
        f"{counted(total, 'coordinate')} of {which} {verb} dead (m = 0): all of {whose} output comes from Δm."
    )


def _place(number: int) -> int | None:
    return None if number < 0 else number


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
