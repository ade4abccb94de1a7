"""Whether a variant's weights carry the context, in one line; ``replay_words`` has the whole sentence."""

from __future__ import annotations

from typing import Final

from ctxviz.figures.text import counted, sci
from ctxviz.no_number import is_lost, numbers
from ctxviz.replaying import carried, failed, measured, worst_kind
from ctxviz.run import Run

_HOW: Final = {"same": "by the same kernel", "batch": "in a batch of two", "ulp": "at 1 ulp"}


def verdict(run: Run, variant: int) -> str:
    """The line, with the worst kind of replay and its numbers beside those of the building pass."""
    answer, kind = carried(run, variant), worst_kind(run, variant)
    if answer is None or kind is None:
        return "Not run again, so whether the weights carry the context is not known."
    where = measured(run, variant, kind)
    building = numbers(run.series("tvd", variant)[: len(where)][where])
    again = run.replay(kind, "tvd", variant)[: len(where)][where]
    if not building.size:
        return "Whether the weights carry the context cannot be told: they were built to no numbers."
    lost, known, how = int(is_lost(again).sum()), numbers(again), _HOW[kind]
    if answer == "mostly":
        failures = int(failed(run, variant, kind)[: len(where)].sum())
        tokens = counted(int(where.sum()), "token")
        return f"The weights mostly carry the context: not at {failures} of {tokens}, {how}."
    does = "carry" if answer == "yes" else "do not carry"
    if lost:
        return (
            f"The weights {does} the context: no numbers at {lost} of {counted(len(again), 'token')}, {how}."
        )
    largest, built = sci(float(known.max())), sci(float(building.max()))
    return f"The weights {does} the context: TVD up to {largest} {how}, built to {built}."
