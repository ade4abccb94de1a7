"""A run in a few words, and what tells it from others."""

import pytest

from ctxviz.folds import Fold
from ctxviz.ui.run_words import described, fold_words, listed, summary
from tests.synthetic import synthetic_run

PLAIN = synthetic_run(3, 16, 4)
BEFORE = "Run 1 · As a slightly irritable robot on…"


def test_runs_of_other_settings_are_told_apart_by_them_and_by_nothing_else():
    rules = synthetic_run(3, 16, 4, updates=("stable",))
    folded = synthetic_run(3, 16, 4, fold=Fold("span", 1, 3))
    both = (PLAIN, rules)
    assert [described("Run 1", run, both).removeprefix(BEFORE) for run in both] == [
        " · direct, stable · 4 tokens",
        " · stable · 4 tokens",
    ]
    both = (PLAIN, folded)
    assert [described("Run 1", run, both).removeprefix(BEFORE) for run in both] == [
        " · all folded · 4 tokens",
        " · tokens 1 to 2 folded · 4 tokens",
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"dtypes": ("float32",)},
        {"arithmetics": ("factored",)},
        {"first_layer": 1},
        {"fold": Fold("all-but-bos")},
        {"replays": ("same",)},
        {"steps": 5},
        {"updates": ("floored",)},
    ],
)
def test_no_two_different_runs_have_one_name(other):
    runs = (PLAIN, synthetic_run(3, 16, **({"steps": 4} | other)))
    one, two = (described("", run, runs) for run in runs)
    assert one != two


def test_a_run_alone_tells_all_of_itself():
    told = described("Run 1", PLAIN)
    for words in ("Synthetic", "direct, stable", "float32, bfloat16", "all folded", "4 tokens"):
        assert words in told


def test_a_run_says_what_it_is():
    assert summary(PLAIN) == "Synthetic, 4 tokens, direct and stable in float32 and bfloat16"
    factored = synthetic_run(3, 16, 1, updates=("floored",), arithmetics=("factored",), dtypes=("float32",))
    assert summary(factored) == "Synthetic, 1 token, floored 0.6 in float32, run beside the weights"


@pytest.mark.parametrize(
    ("fold", "words"),
    [
        ("all", "all folded"),
        ("all-but-bos", "all but the start folded"),
        ("image", "pictures folded"),
        ("image:2", "picture 2 folded"),
        ("text", "text folded"),
        ("2:5", "tokens 2 to 4 folded"),
    ],
)
def test_every_fold_has_words(fold, words):
    assert fold_words(Fold.parse(fold)) == words


def test_lists_read_as_words():
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
