"""What is said beside a download is what was measured, and a failing one is refused with a remedy."""

from __future__ import annotations

import ast
import dataclasses
import math
import sys

import pytest

from ctxviz.exporting import ExportCheck, Trial
from ctxviz.figures.export_words import (
    adapter_sentence,
    patch_sentence,
    remedy,
    script_needs,
    trial_words,
)
from ctxviz.settings import Variant
from ctxviz.store import script

SOUND = ExportCheck(
    built=Trial(2e-7, True),
    written=Trial(3e-7, True),
    written_moved=Trial(2e-6, True),
    adapter=Trial(4e-6, True),
    adapter_moved=Trial(5e-6, True),
    margin=1.0,
    floor_tvd=1e-6,
    floor_linf=1e-4,
    context_moved_tvd=1e-6,
)
DIRECT = Variant("direct", "written", "float32", 0)
LOST = Trial(1.0, False)


def but(**changes: object) -> ExportCheck:
    return dataclasses.replace(SOUND, **changes)  # type: ignore[arg-type]


def test_a_sound_patch_and_adapter_have_their_figures() -> None:
    moved = "with the embeddings moved by one unit in the last place"
    assert patch_sentence(SOUND, DIRECT) == (
        "This patch, written as the script does: TVD 3·10⁻⁷, the same token; "
        f"{moved}: TVD 2·10⁻⁶, the same token."
    )
    assert adapter_sentence(SOUND, DIRECT) == (
        f"This adapter, run as PEFT runs it: TVD 4·10⁻⁶, the same token; {moved}: TVD 5·10⁻⁶, the same token."
    )


@pytest.mark.parametrize("pictures", [0, 2])
def test_what_the_script_needs_is_what_it_imports(pictures: int) -> None:
    tree = ast.parse(script("patch.safetensors", "model", pictures=pictures))
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    packages = {"PIL": "Pillow"}
    needed = {packages.get(str(name), str(name)) for name in (froms | plain) - sys.stdlib_module_names}
    assert needed == {"torch", "transformers", "safetensors"} | ({"Pillow"} if pictures else set())
    assert all(name in script_needs(pictures) for name in needed)
    assert ("Pillow" in script_needs(pictures)) == bool(pictures)


def test_a_patch_that_a_move_breaks_says_what_bit_for_bit_needs() -> None:
    check = but(written_moved=LOST)
    assert check.patch_carries
    assert not check.patch_survives
    said = patch_sentence(check, DIRECT)
    for words in ("TVD 3·10⁻⁷, the same token", "TVD 1, another token", "cloned to aligned memory"):
        assert words in said
    for words in ("same kernels", "same machine", "number of threads", "make the run with floored (τ 0.6)"):
        assert words in said


@pytest.mark.parametrize(
    ("changes", "patch", "adapter"),
    [
        ({}, True, True),
        ({"adapter": LOST}, True, False),
        ({"adapter_moved": LOST}, True, False),
        ({"written": LOST}, False, True),
        ({"written": Trial(math.inf, False)}, False, True),
        ({"adapter": Trial(math.inf, True)}, True, False),
        # The limits: ten times the building pass, ten times a floor, a thousandth.
        ({"adapter": Trial(9.9e-4, True)}, True, True),
        ({"adapter": Trial(1.1e-3, True)}, True, False),
        ({"adapter": Trial(0.09, True), "built": Trial(0.01, True)}, True, True),
        ({"adapter": Trial(0.09, True), "floor_tvd": 0.01}, True, True),
        ({"adapter": Trial(0.09, True), "context_moved_tvd": 0.01}, True, False),
        ({"adapter_moved": Trial(0.09, True), "context_moved_tvd": 0.01}, True, True),
        ({"adapter": Trial(0.09, True), "floor_tvd": math.nan}, True, False),
        # Another token is a failure however small the distance, unless it is a tie.
        ({"adapter": Trial(1e-9, False)}, True, False),
        ({"adapter": Trial(1e-9, False), "margin": 1e-5}, True, True),
        ({"adapter": Trial(1e-9, False), "margin": 1e-5, "floor_linf": math.nan}, True, False),
        # What is no number excuses nothing, and nothing excuses a tenth.
        ({"adapter": Trial(0.09, True), "floor_tvd": math.inf}, True, False),
        ({"adapter_moved": Trial(0.09, True), "context_moved_tvd": math.inf}, True, False),
        ({"adapter": Trial(0.09, True), "built": Trial(math.inf, False)}, True, False),
        ({"adapter": Trial(0.11, True), "built": Trial(0.15, True)}, True, False),
        ({"adapter": Trial(0.11, True), "floor_tvd": 0.9}, True, False),
        ({"adapter": Trial(1e-9, False), "floor_linf": math.inf}, True, False),
        # A patch that was no good when it was built is no better for staying so.
        ({"built": Trial(math.inf, False), "written": Trial(math.inf, False)}, False, True),
        ({"built": LOST, "written": LOST}, False, True),
    ],
)
def test_what_fails(changes: dict[str, object], patch: bool, adapter: bool) -> None:
    check = but(**changes)
    assert (check.patch_carries, check.adapter_carries) == (patch, adapter)
    assert ("No PEFT adapter is offered" in adapter_sentence(check, DIRECT)) == (not adapter)
    assert ("it does not carry its context" in patch_sentence(check, DIRECT)) == (not patch)


def test_no_number_and_ties_are_named() -> None:
    assert trial_words(SOUND, Trial(math.inf, False)) == "TVD no number, another token"
    assert trial_words(but(margin=1e-5), Trial(0.5, False)) == "TVD 0.5, a tie's other token"


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        (DIRECT, "make the run with floored (τ 0.6)"),
        (Variant("stable", "written", "bfloat16", 0), "make the run with floored (τ 0.6)"),
        (Variant("floored", "written", "bfloat16", 0, 0.6), "make the run in float32"),
        (Variant("floored", "written", "float32", 0, 0.1), "make the run with τ 0.6"),
        (Variant("floored", "written", "float32", 0, 0.6), "take another token's"),
    ],
)
def test_the_remedy_is_something_else_than_what_was_done(variant: Variant, words: str) -> None:
    assert remedy(variant) == words
