"""Which positions a fold removes from the input, with and without pictures."""

from __future__ import annotations

import pytest

from ctxviz.errors import SettingsError
from ctxviz.folds import Context, Fold, ImageSpan

# <bos> boi 4 image tokens eoi text text boi 4 image tokens eoi text query
IMAGES = (ImageSpan(1, 7), ImageSpan(9, 15))
LENGTH = 17


@pytest.mark.parametrize(
    ("fold", "folded"),
    [
        ("all", [*range(16)]),
        ("all-but-bos", [*range(1, 16)]),
        ("image", [*range(1, 7), *range(9, 15)]),
        ("image:1", [*range(1, 7)]),
        ("image:2", [*range(9, 15)]),
        ("text", [0, 7, 8, 15]),
        ("3:11", [*range(3, 11)]),
        ("4:99", [*range(4, 16)]),
    ],
)
def test_folded_and_kept_positions(fold: str, folded: list[int]) -> None:
    parsed = Fold.parse(fold)
    assert parsed.folded(LENGTH, IMAGES) == tuple(folded)
    kept = parsed.kept(LENGTH, IMAGES)
    assert kept == tuple(p for p in range(LENGTH) if p not in folded)
    assert kept[-1] == LENGTH - 1
    context = Context("", tuple(range(LENGTH)), ("",) * LENGTH, parsed, ("a", "b"), IMAGES)
    assert (context.folded(LENGTH), context.kept(LENGTH)) == (parsed.folded(LENGTH, IMAGES), kept)
    longer = {p for p in range(LENGTH - 1, LENGTH + 2) if fold in ("image", "image:1", "image:2", "3:11")}
    assert longer <= set(context.kept(LENGTH + 2)), "new tokens are kept where the fold names a place"


def test_new_tokens_are_folded_where_the_fold_has_no_end() -> None:
    assert Fold("all").kept(LENGTH + 2, IMAGES) == (LENGTH + 1,)
    assert Fold("all-but-bos").kept(LENGTH + 2, IMAGES) == (0, LENGTH + 1)
    pictured = (*range(1, 7), *range(9, 15))
    assert Fold("text").kept(LENGTH + 2, IMAGES) == (*pictured, LENGTH + 1)


@pytest.mark.parametrize("text", ["all", "all-but-bos", "image", "image:1", "image:12", "text", "2:9"])
def test_a_fold_reads_what_it_writes(text: str) -> None:
    assert str(Fold.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["image:0", "image:", "image:-1", "image:a", "image:1:2", "image:12345", "image:00", "images", "image ",
     "text:1", "Image", "image:\u0661", "picture", "image\n"],
)  # fmt: skip
def test_folds_of_pictures_that_are_not_understood(text: str) -> None:
    with pytest.raises(SettingsError, match=r"not understood; use all.*image:N"):
        Fold.parse(text)


def test_a_span_of_a_picture() -> None:
    nine = ImageSpan(3, 14)
    assert nine.tokens == range(4, 13)
    assert nine.side == 3
    assert ImageSpan(0, 258).side == 16
