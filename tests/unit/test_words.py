"""What a run says of itself in sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ctxviz.figures.text import equals, quoted, readable, sci
from ctxviz.figures.words import ALARM_LIMIT, ALARMS_PER_KIND, BLOW_UP, Alarm, alarms, verdict
from ctxviz.folds import Fold
from ctxviz.run import Run
from tests.browser import harness
from tests.synthetic import WORDS, synthetic_run

ONE: dict[str, Any] = {"updates": ["direct"], "dtypes": ["float32"]}
SMALL: dict[str, Any] = {"n_layers": 6, "width": 16}


def told(run: Run, variant: int, match: list[int], tie: list[int] | None = None) -> Run:
    """``run`` with other matches and ties for one of its variants."""
    n = len(run)
    run._series["match"].array[:n, variant] = match
    run._series["tie"].array[:n, variant] = tie or [0] * n
    return run


def one(match: list[int], tie: list[int] | None = None) -> str:
    return verdict(told(synthetic_run(**SMALL, **ONE, steps=len(match)), 0, match, tie)).headline


def test_one_variant() -> None:
    assert one([1] * 31 + [0]) == "Without any context, the patched model said the same 31 of 32 tokens."
    assert one([1] * 4) == "Without any context, the patched model said the same 4 of 4 tokens."
    assert one([0, 0]) == "Without any context, the patched model said the same 0 of 2 tokens."
    assert one([1]) == "Without any context, the patched model said the same token."
    assert one([0]) == "Without any context, the patched model said another token."


def test_ties_are_told_apart_from_mismatches() -> None:
    assert one([1, 0, 1], [0, 1, 0]).endswith(
        "the same 2 of 3 tokens; the other is a tie inside the noise floor."
    )
    assert one([1, 0, 0], [0, 1, 1]).endswith("the others are ties inside the noise floor.")
    assert one([1, 0, 0], [0, 1, 0]).endswith("the same 1 of 3 tokens.")
    detail = verdict(told(synthetic_run(**SMALL, **ONE, steps=3), 0, [1, 0, 0], [0, 1, 0])).detail
    assert detail.startswith("It differs once, at token 2 “·for”. 1 tie inside the noise floor.")


def test_ties_alone_are_not_held_against_a_variant() -> None:
    run = synthetic_run(**SMALL, steps=2, faults=False)
    start = "Without any context, three of four patched models said the same 2 of 2 tokens; "
    assert verdict(told(run, 2, [1, 0], [0, 1])).headline == (
        f"{start}the other differs only in ties inside the noise floor."
    )
    assert verdict(told(run, 2, [1, 0])).headline == f"{start}direct bfloat16 said 1."
    told(run, 1, [1, 0], [0, 1])
    worst = "two of four patched models said the same 2 of 2 tokens; the worst, direct bfloat16, said 1."
    assert verdict(run).headline.endswith(worst), "not the one with a tie"
    assert verdict(told(run, 2, [1, 0], [0, 1])).headline.endswith(
        "; the others differ only in ties inside the noise floor."
    )


def several(*matches: list[int]) -> str:
    steps = len(matches[0])
    run = synthetic_run(**SMALL, steps=steps, faults=False)
    for i, match in enumerate(matches):
        told(run, i, match)
    return verdict(run).headline.removeprefix("Without any context, ").removesuffix(".")


def test_several_variants() -> None:
    good, bad, worse = [1, 1, 1], [1, 0, 1], [0, 0, 1]
    assert several(good, good, good, good) == "all four patched models said the same 3 of 3 tokens"
    assert several(bad, bad, bad, bad) == "all four patched models said the same 2 of 3 tokens"
    assert several(good, good, bad, good) == (
        "three of four patched models said the same 3 of 3 tokens; direct bfloat16 said 2"
    )
    assert several(good, worse, bad, good) == (
        "two of four patched models said the same 3 of 3 tokens; the worst, stable float32, said 1"
    )
    assert several(bad, worse, bad, worse) == (
        "the best of four patched models, direct float32, said the same 2 of 3 tokens;"
        " the worst, stable float32 and stable bfloat16, 1"
    )
    assert several(good, worse, worse, worse).endswith("; the worst, stable float32 and two others, said 1")
    assert several([1], [1], [0], [1]) == (
        "three of four patched models said the same token; direct bfloat16 said another"
    )
    two = synthetic_run(**SMALL, steps=2, dtypes=["float32"], faults=False)
    assert verdict(two).headline == "Without any context, both patched models said the same 2 of 2 tokens."


def test_the_emphasis_is_a_part_of_the_headline() -> None:
    for steps in (1, 3, 12):
        said = verdict(synthetic_run(**SMALL, steps=steps))
        assert said.emphasis
        assert said.emphasis in said.headline


@pytest.mark.parametrize(
    ("fold", "words"),
    [
        ("all", "Without any context"),
        ("all-but-bos", "With everything but the start token folded into weights"),
        ("image", "With the picture folded into weights"),
        ("image:1", "With the picture folded into weights"),
        ("text", "With everything but the picture folded into weights"),
        ("1:5", "With prompt tokens 1 to 4 folded into weights"),
        ("3:4", "With prompt token 3 folded into weights"),
    ],
)
def test_what_was_folded_is_said(fold: str, words: str) -> None:
    said = verdict(synthetic_run(**SMALL, **ONE, steps=3, faults=False, fold=Fold.parse(fold)))
    assert said.headline == f"{words}, the patched model said the same 3 of 3 tokens."


@pytest.mark.parametrize(
    ("fold", "words"),
    [
        ("all", "Without any context"),
        ("image", "With the pictures folded into weights"),
        ("image:2", "With picture 2 folded into weights"),
        ("text", "With everything but the pictures folded into weights"),
        ("3:9", "With prompt tokens 3 to 8 folded into weights"),
    ],
)
def test_of_several_pictures_it_is_said_which_were_folded(fold: str, words: str) -> None:
    assert verdict(harness.pictured((2, 2), fold)).headline.startswith(f"{words}, ")


def test_the_detail_says_who_differs_first_and_where_it_is_worst() -> None:
    assert verdict(synthetic_run()).detail == (
        "Direct bfloat16 differs once, at token 6 “⏎”. 1 tie inside the noise floor."
        " Largest change: |Δm| = 1.9·10⁸ at layer 4, coordinate 63 (direct float32, token 6),"
        " where |h| = 3·10⁻⁸. 8 dead coordinates (m\u00a0=\u00a00)."
    )
    assert " in a layer whose smallest |h| is 3·10⁻⁸. 8 dead" in verdict(synthetic_run(vectors=False)).detail
    # The coordinate that changes most is not always the one with the smallest denominator.
    run = synthetic_run()
    vectors = run.vectors(6, 0)
    assert vectors is not None
    vectors.h[4, 63] = -0.5
    assert "coordinate 63 (direct float32, token 6), where |h| = 0.5." in verdict(run).detail
    run = told(synthetic_run(faults=False, steps=4), 1, [1, 1, 0, 0])
    assert verdict(run).detail.startswith("Stable float32 differs 2 times, first at token 2 “·for”. Largest")
    told(run, 2, [1, 0, 0, 1])
    assert verdict(run).detail.startswith("Direct bfloat16 differs first, at token 1 “·forecast”. Largest")


def test_an_empty_run_and_one_without_patched_layers_have_words() -> None:
    assert verdict(synthetic_run(steps=0)).headline == "Nothing has been written yet."
    assert alarms(synthetic_run(steps=0)) == []
    run = synthetic_run(4, 8, 2, first_layer=3, faults=False)
    for name in ("h_abs_min", "scale_ratio", "scale_max_abs"):
        run._fields[name].array[:] = np.nan
    for name in ("dead", "uncontrolled", "swallowed"):
        run._fields[name].array[:] = -1
    assert verdict(run).detail == ""
    assert alarms(run) == []


def test_token_text_is_readable_and_unescaped() -> None:
    run = synthetic_run(**SMALL, **ONE, steps=3, texts=["<b>\u202e"])
    assert "“<b>⟨U+202E⟩”" in verdict(run).detail


def kinds(found: list[Alarm]) -> list[str]:
    return [alarm.kind for alarm in found]


def test_alarms_name_the_place() -> None:
    found = alarms(synthetic_run())
    assert kinds(found) == ["mismatch", "blow-up", "blow-up", "blow-up", "dead"]
    assert found[0] == Alarm(
        "mismatch",
        "Direct bfloat16 said “·sand” where the model with context said “⏎”, at token 6.",
        6, None, None, 2,
    )  # fmt: skip
    assert found[1].sentence.startswith(
        "Direct float32, layer 4, token 6 “⏎”: ‖Δm‖ is 3.9·10⁵ times ‖m‖; |Δm| = "
    )
    assert found[1].sentence.endswith("at coordinate 63, where |h| = 3·10⁻⁸.")
    assert (found[1].step, found[1].layer, found[1].coordinate, found[1].variant) == (6, 4, 63, 0)
    assert found[-1].sentence == (
        "8 coordinates of layers 1 and 4 are dead (m = 0): all of their output comes from Δm."
    )


def test_each_threshold_decides() -> None:
    def alarmed(metric: str, value: float) -> list[str]:
        run = synthetic_run(**SMALL, **ONE, steps=3, faults=False)
        for name, level in (("scale_ratio", 0.0), ("dead", 0), ("uncontrolled", 0), ("swallowed", 0)):
            run._fields[name].array[:] = level
        run._fields[metric].array[1, 0, 2] = value
        found = alarms(run)
        assert all((a.step, a.layer) in {(1, 2), (None, 2)} for a in found)
        return kinds(found)

    assert alarmed("scale_ratio", BLOW_UP) == []
    assert alarmed("scale_ratio", BLOW_UP * 1.01) == ["blow-up"]
    assert alarmed("uncontrolled", 1) == ["uncontrolled"]
    assert alarmed("swallowed", 8) == []
    assert alarmed("swallowed", 9) == ["swallowed"]
    assert alarmed("dead", 0) == []


def test_alarms_are_few_and_the_largest_come_first() -> None:
    run = synthetic_run(steps=4, faults=False)
    run._fields["scale_ratio"].array[:4, 0] = np.geomspace(200, 9000, 18)
    found = [alarm for alarm in alarms(run) if alarm.kind == "blow-up"]
    assert len(found) == ALARMS_PER_KIND
    assert found[0].layer == 4, "the run's own blow-up of 10⁵ and more"
    for name in ("uncontrolled", "swallowed"):
        run._fields[name].array[:4] = 60
    for i in range(4):
        told(run, i, [0] * 4)
    found = alarms(run)
    assert len(found) == ALARM_LIMIT
    assert kinds(found)[::3] == ["mismatch", "uncontrolled", "blow-up", "swallowed"]
    assert found[0].sentence.endswith("at token 0 (the first of 4).")


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (0.0, "0"), (3e-8, "3·10⁻⁸"), (2.1e4, "2.1·10⁴"), (0.031, "0.031"), (1.0, "1"), (99.7, "100"),
        (640, "640"), (9999.4, "9999"), (9999.9, "1·10⁴"), (9.99e-4, "1·10⁻³"), (-3e-9, "−3·10⁻⁹"),
        (-0.5, "−0.5"), (1e-300, "1·10⁻³⁰⁰"), (float("inf"), "no number"), (float("-inf"), "no number"),
        (float("nan"), "not measured"),
    ],
)  # fmt: skip
def test_numbers_in_words(x: float, words: str) -> None:
    assert sci(x) == words
    verb = "=" if np.isfinite(x) else "was" if np.isnan(x) else "is"
    assert equals("|h|", x) == f"|h| {verb} {words}"


def test_the_verdict_tells_where_logits_are_no_numbers() -> None:
    run = synthetic_run(dtypes=["float32", "float16"], vectors=False)
    run._series["tvd"].array[[3, 5], 2] = np.inf
    run._fields["h_abs_min"].array[:] = np.inf
    detail = verdict(run).detail
    said = f"The logits of direct float16 are no numbers at 2 tokens, first at token 3 {quoted(WORDS[3])}. "
    assert said in detail
    assert ", in a layer whose smallest |h| is no number." in detail
    one = synthetic_run(updates=["direct"], dtypes=["float32"])
    assert "no number" not in verdict(one).detail
    one._series["tvd"].array[0, 0] = np.inf
    assert "The logits are no numbers at token 0" in verdict(one).detail


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "⟨empty⟩"), (" ", "·"), ("  a b ", "··a b·"), ("\n\n\t", "⏎⏎⇥"), ("\r", "⟨U+000D⟩"),
        ("<0xE2>", "<0xE2>"), ("\x00", "⟨U+0000⟩"), ("\u202eabc", "⟨U+202E⟩abc"), ("a\u2066b", "a⟨U+2066⟩b"),
        ("\u200b", "⟨U+200B⟩"), ("\ufeff", "⟨U+FEFF⟩"), ("\u00a0", "⟨U+00A0⟩"), ("\ud800", "⟨U+D800⟩"),
        ("\u3164", "⟨U+3164⟩"), ("\U000e0041", "⟨U+E0041⟩"), ("\u0301", "◌\u0301"), ("e\u0301", "e\u0301"),
        (" 世界", "\u2068·世界\u2069"), ("שלום", "\u2068שלום\u2069"), ("مرحبا", "\u2068مرحبا\u2069"),
        ("a" * 24, "a" * 24), ("a" * 25, "a" * 24 + "…"), (" " * 500, "·" * 24 + "…"),
        ("\u202e" * 9, "⟨U+202E⟩" * 3 + "…"),
    ],
)  # fmt: skip
def test_token_text_made_readable(text: str, shown: str) -> None:
    assert readable(text) == shown
