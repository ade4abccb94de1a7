"""The unpatched model's own text in a run's file, which files of before lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctxviz.engine import MOST_WITHOUT
from ctxviz.errors import BundleError
from ctxviz.records import WithoutContext
from ctxviz.run import Run
from ctxviz.store import load_run
from ctxviz.ui.recorded import RECORDED
from tests.bundles import differences, packed, parts_of, saved
from tests.synthetic import synthetic_run

ASSETS = Path(__file__).parents[2] / "assets"
FOUND = WithoutContext("float32", (5, 1), (" \udcffdust<b>", "<eos>"), True)


def small() -> Run:
    return synthetic_run(3, 8, 2)


def test_it_comes_back_as_it_was_and_changes_nothing_else() -> None:
    run, bare = small(), small()
    run.without_context = FOUND
    again = load_run(saved(run))
    assert again.without_context == WithoutContext("float32", (5, 1), (" \ufffddust<b>", "<eos>"), True)
    assert differences(again, bare) == []
    assert load_run(saved(bare)).without_context is None
    parts, plain = parts_of(saved(run)), parts_of(saved(bare))
    assert json.loads(plain["run.json"]) == {
        key: value for key, value in json.loads(parts["run.json"]).items() if key != "without_context"
    }


@pytest.mark.parametrize("name", RECORDED)
def test_the_runs_that_come_with_ctxviz_tell_it(name: str) -> None:
    run = load_run(ASSETS / f"{name}.ctxviz")
    found = run.without_context
    assert found is not None
    assert found.dtype == run.dtypes[0]
    assert found.ended or len(found.ids) == min(len(run), MOST_WITHOUT)


BAD: dict[str, tuple[Any, str]] = {
    "null": (None, "not an object"),
    "a text": ("dust", "not an object"),
    "no tokens": ({"ids": [], "texts": []}, "no tokens"),
    "other numbers": ({"ids": [5]}, "other numbers"),
    "no numbers": ({"ids": [5, "1"]}, "whole numbers"),
    "no texts": ({"texts": [1, 2]}, "short texts"),
    "a dtype of no variant": ({"dtype": "float16"}, "dtype"),
    "no end": ({"ended": 1}, "true or false"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_makes_no_sense_is_refused_in_a_sentence(case: str) -> None:
    change, fragment = BAD[case]
    run = small()
    run.without_context = FOUND
    parts = parts_of(saved(run))
    described = json.loads(parts["run.json"])
    said = described["without_context"] | change if isinstance(change, dict) else change
    described["without_context"] = said
    with pytest.raises(BundleError, match=fragment) as refused:
        load_run(packed(parts | {"run.json": json.dumps(described).encode()}))
    assert len(str(refused.value).splitlines()) == 1
