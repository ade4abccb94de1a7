"""What a browser says its reader did in the live view is checked before any of it is followed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxviz.ui.delta import METRICS
from ctxviz.ui.focus import DEFAULT_METRIC, MANY, Did, Focus, did, index

SIZE = (9, 5, 2)
"""Steps, layers, variants."""
SAID = {
    "count": 3,
    "step": 8,
    "layer": 4,
    "variant": 1,
    "metric": "scale_ratio",
    "picked": True,
    "layers": False,
}


def test_what_was_done_is_read_as_it_was_said():
    assert did(SAID, SIZE) == Did(3, Focus(8, 4, 1, "scale_ratio"), picked=True, layers=False)
    assert did(SAID | {"layers": True, "picked": False}, SIZE) == Did(
        3, Focus(8, 4, 1, "scale_ratio"), picked=False, layers=True
    )


def test_a_token_alone_has_no_layer():
    assert did(SAID | {"layer": None}, SIZE) == Did(3, Focus(8, None, 1, "scale_ratio"), True, False)


@pytest.mark.parametrize(
    "value",
    [
        None, 3, "did", [], ["count", 3], {}, SAID | {"count": None}, SAID | {"count": -1},
        SAID | {"count": "3"}, SAID | {"count": True}, SAID | {"count": 3.0}, SAID | {"count": MANY},
        SAID | {"metric": None}, SAID | {"metric": "multiplier"}, SAID | {"metric": "__class__"},
        SAID | {"metric": ["scale_ratio"]},
        {name: value for name, value in SAID.items() if name != "metric"},
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_not_heard(value):
    assert did(value, SIZE) is None


@pytest.mark.parametrize("bad", [9, -1, 10**30, 2.0, math.nan, math.inf, True, "2", None, [2], {"x": 2}])
def test_a_token_that_the_run_lacks_picks_nothing(bad):
    assert did(SAID | {"step": bad}, SIZE) == Did(3, Focus(None, None, 1, "scale_ratio"), False, False)


@pytest.mark.parametrize("bad", [5, -1, 2.0, False, "2", [2]])
def test_a_layer_that_the_run_lacks_is_left_out(bad):
    assert did(SAID | {"layer": bad}, SIZE) == Did(3, Focus(8, None, 1, "scale_ratio"), True, False)


@pytest.mark.parametrize("bad", [2, -1, 1.0, True, "1", None])
def test_a_variant_that_the_run_lacks_becomes_the_first(bad):
    assert did(SAID | {"variant": bad}, SIZE) == Did(3, Focus(8, 4, 0, "scale_ratio"), True, False)


def test_nothing_is_picked_in_a_view_without_a_run():
    assert did(SAID, (0, 0, 0)) == Did(3, Focus(None, None, 0, "scale_ratio"), False, False)


@pytest.mark.parametrize("true", [1, "yes", [0]])
def test_only_a_picked_token_is_picked(true):
    found = did(SAID | {"picked": true}, SIZE)
    assert found is not None
    assert found.picked is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(SAID, JSON | st.integers(-1, 9))))
def test_whatever_a_browser_says_is_refused_or_inside_the_run(value):
    found = did(value, SIZE)
    if found is None:
        return
    focus = found.focus
    assert focus.step is None or (type(focus.step) is int and 0 <= focus.step < SIZE[0])
    assert focus.layer is None or (type(focus.layer) is int and 0 <= focus.layer < SIZE[1])
    assert type(focus.variant) is int
    assert 0 <= focus.variant < SIZE[2]
    assert focus.metric in METRICS
    assert type(found.picked) is type(found.layers) is bool
    assert focus.layer is None or focus.step is not None
    assert not found.picked or focus.step is not None


@given(st.fixed_dictionaries({"count": st.integers(0, 5), "metric": st.just(DEFAULT_METRIC)}, optional={
    "step": st.integers(-2, 12), "layer": st.integers(-2, 7), "variant": st.integers(-2, 4)
}))  # fmt: skip
def test_every_place_of_the_run_can_be_looked_at(value):
    found = did(value, SIZE)
    assert found is not None
    step, layer, variant = (value.get(name) for name in ("step", "layer", "variant"))
    there = step is not None and 0 <= step < SIZE[0]
    assert found.focus.step == (step if there else None)
    assert found.focus.layer == (layer if there and layer is not None and 0 <= layer < SIZE[1] else None)
    assert found.focus.variant == (variant if variant in range(SIZE[2]) else 0)


@pytest.mark.parametrize(
    ("value", "found"), [(0, 0), (2, 2), (3, None), (-1, None), (True, None), (1.0, None)]
)
def test_an_index_is_a_whole_number_below_its_limit(value, found):
    assert index(value, 3) == found
