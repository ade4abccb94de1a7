"""The one line on whether weights carry the context, against the replays it is made from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxviz.figures.replay_verdict import verdict
from ctxviz.run import Run
from ctxviz.settings import REPLAYS
from tests.synthetic import synthetic_run

LINE = 90


@pytest.fixture
def run() -> Run:
    """Twelve tokens that replay as they were built, in every variant."""
    run = synthetic_run(replays=REPLAYS, hold=3, budget=True)
    for v in range(len(run.variants)):
        write(run, "tvd", v, slice(None), 2e-7)
        for kind in REPLAYS:
            write(run, f"replay_{kind}_tvd", v, slice(None), 3e-7)
            write(run, f"replay_{kind}_match", v, slice(None), 1)
            write(run, f"replay_{kind}_shift", v, slice(None), 0)
    return run


def write(run: Run, column: str, variant: int, steps: int | slice, value: float) -> None:
    run._series[column].array[steps, variant] = value


def test_it_names_the_worst_replay_and_what_was_built(run: Run) -> None:
    write(run, "replay_ulp_tvd", 0, 4, 5e-7)
    assert verdict(run, 0) == "The weights carry the context: TVD up to 5·10⁻⁷ at 1 ulp, built to 2·10⁻⁷."
    write(run, "replay_batch_tvd", 0, slice(None), 0.9)
    assert verdict(run, 0) == (
        "The weights do not carry the context: TVD up to 0.9 in a batch of two, built to 2·10⁻⁷."
    )
    write(run, "replay_batch_tvd", 0, slice(3, None), 3e-7)
    assert (
        verdict(run, 0) == "The weights mostly carry the context: not at 3 of 12 tokens, in a batch of two."
    )


def test_no_number_is_told_and_never_a_largest_one(run: Run) -> None:
    write(run, "replay_ulp_tvd", 0, slice(0, 8), math.inf)
    assert verdict(run, 0) == "The weights do not carry the context: no numbers at 8 of 12 tokens, at 1 ulp."
    write(run, "tvd", 0, slice(None), math.inf)
    assert verdict(run, 0) == (
        "Whether the weights carry the context cannot be told: they were built to no numbers."
    )


def test_what_was_not_run_again_is_not_known() -> None:
    said = verdict(synthetic_run(), 0)
    assert said == "Not run again, so whether the weights carry the context is not known."


def test_it_is_one_line(run: Run) -> None:
    write(run, "replay_batch_tvd", 0, slice(None), 0.123)
    write(run, "tvd", 0, slice(None), 1.1e-6)
    assert all(len(verdict(run, v)) <= LINE for v in range(len(run.variants)))
    assert np.isfinite(run.series("tvd", 1)).all()
