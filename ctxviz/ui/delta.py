"""What is new in a view, as plain JSON values; what is sent per token does not grow with those before it.

A browser says how many tokens and references it has, and of which run (``epoch``). It is sent the rest, and
one column per new token of the heat map that it shows.

A number is sent as itself, as None where nothing was measured, and as NO_NUMBER where something was computed
and is no finite number. Heat maps are float32: NaN is not measured, infinite is no number.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.alarms import KINDS, count
from ctxviz.figures import metrics, subject
from ctxviz.figures.card import join
from ctxviz.figures.palette import as_json
from ctxviz.figures.replay_words import replays_sentence
from ctxviz.figures.text import readable
from ctxviz.figures.words import alarms, verdict
from ctxviz.replaying import SAME_WEIGHTS, margins
from ctxviz.run import REFERENCE_METRICS, Run
from ctxviz.settings import HELD
from ctxviz.ui import field_values, shown_prompt, without_context
from ctxviz.ui.views import ACTIVE, View

METRICS: Final = {key: metrics.METRICS[key] for key in metrics.LIVE_METRICS}
"""What the live view's heat map can show."""

NO_NUMBER: Final = "no number"
"""Stands on the wire for what was computed and is no finite number."""
ALARMS_EVERY: Final = 8
"""Alarms are sent with every so many tokens while a run grows."""
ALARMING: Final = tuple(kind for kind in KINDS if kind != "tie")
ALARMS_AT_WORK: Final = 5
"""So many of them, and how many more there are; all of them once it stands still."""
_MATCH, _TIE, _REPLAY_MATCH, _HELD_MATCH = 1, 2, 4, 8
_REPLAY_TIE, _HELD_TIE = 16, 32
"""The replay's other token is a tie."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a browser has: so many tokens and references of the run with that epoch."""

    tokens: int = 0
    references: int = 0
    epoch: int = 0


def delta(view: View, held: Held, metric: str, variant: int) -> dict[str, Any]:
    """Everything in a view that a browser lacks.

    A browser that holds another run, or more than there is, is sent the whole run: ``from`` is then 0 and
    ``run`` describes it. A ``variant`` that the run lacks becomes 0; ``metric`` must be one of METRICS.
    """
    now = view.snapshot()
    run = now.run
    answer: dict[str, Any] = {
        "epoch": now.epoch,
        "state": now.state,
        "stage": now.stage,
        "message": now.message,
        "progress": number(now.progress),
    }
    if run is None:
        return answer | {"n": 0, "from": 0, "references": 0, "run": None}
    n = len(run)
    log = now.references.notice(run)
    stale = held.epoch != now.epoch or held.tokens > n or held.references > len(log)
    start, references = (0, 0) if stale else (held.tokens, held.references)
    variant = variant if variant < len(run.variants) else 0
    answer |= {"n": n, "from": start, "references": len(log)}
    if stale or (start == 0 and n):
        answer["run"] = describe(run, view.id) | {"notes": list(now.notes)}
    if n > start:
        answer["tokens"] = _tokens(run, start, n)
        values = field_values.encoded(run, metric, variant, start, n)
        answer["field"] = {"metric": metric, "variant": variant, "values": values}
    if references < len(log):
        fresh = list(dict.fromkeys(log[references:]))
        answer["referred"] = [_reference(run, *entry) for entry in fresh]
        if extras(run):
            answer["flags"] = _flags_since(run, fresh, start)
    if n and (n > start or references < len(log)):
        answer["verdict"] = _verdict(run)
    at_work = now.state in ACTIVE
    if not at_work or n // ALARMS_EVERY > start // ALARMS_EVERY or 0 == start < n:
        answer["alarms"] = _alarms(run, ALARMS_AT_WORK if at_work else None)
    if not at_work or stale:
        answer["without"] = _without(run)
        answer["writing"] = without_context.is_written(run)
        answer["fault"] = without_context.fault_of(run)
    return answer


def describe(run: Run, view_id: str = "") -> dict[str, Any]:
    """What a browser needs to know once: variants, dtypes, layers, metrics, prompt.

    ``made_from`` is what its figures say of it in a file, ``file`` how their names begin. ``metrics`` are
    those of the live view, ``fields`` all that can be drawn layer by layer. ``view_id`` is that of the view
    whose route has the pictures; without it the prompt names no address for them.
    """
    return {
        "model": run.model.name,
        "made_from": subject.circumstances(run),
        "file": subject.stem(run),
        "layers": run.model.n_layers,
        "asked": run.settings.max_new_tokens,
        "dtypes": list(run.dtypes),
        "variant_dtypes": [run.dtypes.index(v.dtype) for v in run.variants],
        "look": as_json(run.variants),
        "metrics": {key: asdict(metric) for key, metric in METRICS.items()},
        "extras": extras(run),
        "hold": run.settings.hold,
        "fields": {key: asdict(metric) for key, metric in metrics.METRICS.items()},
        "prompt": shown_prompt.describe(run, view_id),
    }


def _tokens(run: Run, start: int, end: int) -> list[list[Any]]:
    """Per step the text, the seconds, and per variant what :func:`_variant` says."""
    variants = zip(*(_variant(run, k, start, end) for k in range(len(run.variants))), strict=True)
    tokens = (run.token(step) for step in range(start, end))
    return [[readable(t[4]), number(t[5]), *entries] for t, entries in zip(tokens, variants, strict=True)]


def _variant(run: Run, k: int, start: int, end: int) -> list[list[Any]]:
    """Per step [flags, TVD, largest logit gap, patch ratio, worst replay's TVD, held patch's TVD, and the
    patched model's token if it differs]."""
    flags, match = _flags(run, k, start, end), run.series("match", k)[start:end] == 1
    columns = [
        run.series("tvd", k)[start:end],
        run.series("logit_linf", k)[start:end],
        patch_ratio(run, k, start, end),
        worst_replay(run, k, start, end),
        run.replay(HELD, "tvd", k)[start:end],
    ]
    entries = []
    for i in range(end - start):
        entry = [int(flags[i]), *(number(float(column[i])) for column in columns)]
        entries.append(entry if match[i] else [*entry, readable(said(run, start + i, k))])
    return entries


def _flags(run: Run, k: int, start: int, end: int) -> NDArray[np.int64]:
    """What a browser marks a variant's tokens by, [steps]: sums of _MATCH and the like."""
    match, own_tie = (run.series(name, k)[start:end].astype(bool) for name in ("match", "tie"))
    tie = own_tie | (margins(run, run.variants[k].dtype)[start:end] < _floors(run, k, start, end))
    flags = _MATCH * match + _TIE * own_tie
    for kinds, bits in (
        (drawn_kinds(run), (_REPLAY_MATCH, _REPLAY_TIE)),
        ((HELD,), (_HELD_MATCH, _HELD_TIE)),
    ):
        differs = np.any([run.replay(kind, "match", k)[start:end] == 0 for kind in kinds], axis=0)
        flags = flags + bits[0] * ~differs + bits[1] * (differs & tie)
    return flags


def _floors(run: Run, k: int, start: int, end: int) -> NDArray[np.float64]:
    """The noise floor that holds at each step, [steps]: the latest measured, NaN before the first."""
    known = run.reference("noise_floor_linf", run.variants[k].dtype)[:end]
    steps = np.flatnonzero(np.isfinite(known))
    latest = max(0, int(np.searchsorted(steps, start, "right")) - 1)
    floors = np.full(end - start, np.nan)
    for step in steps[latest:].tolist():
        floors[max(0, step - start) :] = known[step]
    return floors


def _flags_since(run: Run, referred: list[tuple[int, int]], start: int) -> list[list[Any]]:
    """[step, flags per variant] of tokens sent before whose ties a noise floor of ``referred`` decides.

    A floor is measured after its token, so these are seldom more than one.
    """
    floors = [
        step
        for step, dtype in referred
        if step < start and np.isfinite(run.reference("noise_floor_linf", run.dtypes[dtype])[step])
    ]
    first = min(floors, default=start)
    flags = [_flags(run, k, first, start).tolist() for k in range(len(run.variants))]
    return [[first + i, list(row)] for i, row in enumerate(zip(*flags, strict=True))]


def worst_replay(
    run: Run, variant: int, start: int, end: int, kinds: tuple[str, ...] = ()
) -> NDArray[np.float64]:
    """The largest TVD over ``kinds``, else :func:`drawn_kinds`, [steps].

    Infinite where one was measured whose TVD is no number, NaN where none was measured.
    """
    return np.fmax.reduce([run.replay(kind, "tvd", variant)[start:end] for kind in kinds or drawn_kinds(run)])


def drawn_kinds(run: Run) -> tuple[str, ...]:
    """The replays of the live chart: those of the very weights, or of rounded ones where only they are."""
    return ("rounded",) if run.settings.replays == ("rounded",) else SAME_WEIGHTS


def extras(run: Run) -> list[str]:
    """The further charts of a run: ``replay``, ``held``."""
    if "written" not in run.settings.arithmetics:
        return []
    asked = {"replay": bool(run.settings.replays), "held": run.settings.hold is not None}
    return [name for name, wanted in asked.items() if wanted]


def said(run: Run, step: int, variant: int) -> str:
    """The patched model's token; a model that overflowed has none."""
    return next(iter(run.top(step, variant).texts), "no token")


def patch_ratio(run: Run, variant: int, start: int, end: int) -> NDArray[np.float64]:
    """The largest ||dm|| / ||m|| over the layers, [steps]; NaN where no layer was patched."""
    return np.fmax.reduce(run.field("scale_ratio", variant)[:, start:end]).astype(np.float64)


def _reference(run: Run, step: int, dtype: int) -> list[Any]:
    """[step, dtype index, and what run.REFERENCE_METRICS names, in that order]."""
    measured = (run.reference(name, run.dtypes[dtype])[step] for name in REFERENCE_METRICS)
    return [step, dtype, *map(number, measured)]


def _without(run: Run) -> dict[str, Any] | None:
    """What the unpatched model wrote by itself from the kept tokens; None where it was not asked."""
    found = run.without_context
    if found is None:
        return None
    return {"texts": [readable(text) for text in found.texts], "ended": found.ended, "dtype": found.dtype}


def _verdict(run: Run) -> list[str]:
    said = verdict(run)
    return [said.headline, join([said.detail, replays_sentence(run)]), said.emphasis]


def _alarms(run: Run, limit: int | None) -> dict[str, Any]:
    """``list`` holds [kind, sentence, step, layer, variant] each, worst first: the few that are told of each
    kind. ``count`` counts all, as the page Layers does; ties are no alarm here."""
    found = alarms(run)
    rows = [[a.kind, a.sentence, a.step, a.layer, a.variant] for a in found[:limit]]
    return {"count": sum(count(run, ALARMING).values()), "list": rows}


def number(value: float | None) -> float | str | None:
    """Four significant digits; None where nothing was measured, NO_NUMBER where it is infinite."""
    if value is None or math.isnan(value):
        return None
    return float(f"{value:.4g}") if math.isfinite(value) else NO_NUMBER
