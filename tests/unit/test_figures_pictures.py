"""The figures about pictures: their data, marks, words and tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from ctxviz.figures import occlusion as occlusion_module
from ctxviz.figures.before_after import MOST_ROWS, answers, before_after
from ctxviz.figures.card import to_csv
from ctxviz.figures.occlusion import (
    FAINT,
    LEAST_TOP,
    MOST_ENCODED,
    ON_BRIGHT,
    ON_DARK,
    data_uri,
    field,
    occlusion,
    short,
    strongest,
)
from ctxviz.figures.palette import DARK, LIGHT
from ctxviz.figures.swap import crosswise, swap_distances, verdict
from ctxviz.folds import ImageSpan
from ctxviz.picture_findings import PARTS, Occlusion, Square, Swap, Voice, WithoutPictures
from ctxviz.pictures import from_image
from ctxviz.records import TopTokens
from ctxviz.settings import Variant
from tests.synthetic import synthetic_run
from tests.tables import read_csv

VARIANT = Variant("floored", "written", "float32", 0, 0.6)
PICTURE = from_image(Image.new("RGB", (64, 64), (10, 200, 10)), "green.png")
MARKUP = "<b>$x$ &"


def occluded(tvds: list[float], grid: int = 2, token: str = " red") -> Occlusion:
    squares = tuple(
        Square(k // grid, k % grid, tvd, 0.5, " blue", tvd + 1e-7, 0.5) for k, tvd in enumerate(tvds)
    )
    return Occlusion(0, 3, VARIANT, grid, token, 0.98, 0.98, squares)


def traces(figure, meta: str) -> list:
    return [trace for trace in figure.data if trace.meta == meta]


class TestOcclusion:
    def test_the_field_has_every_square_in_its_place(self) -> None:
        card = occlusion(occluded([0.1, 0.2, 0.9, 0.0]), PICTURE)
        (heat,) = [t for t in card.figure.data if t.type == "heatmap"]
        assert np.array(heat.z).tolist() == [[0.1, 0.2], [0.9, 0.0]]
        assert (heat.zmin, heat.zmax) == (0, 0.9)
        assert heat.colorbar.title.text == "TVD"
        # Row 1 is above row 2, as in the picture.
        assert list(card.figure.layout.yaxis2.range) == [2, 0]
        assert card.table["tvd"] == [0.1, 0.2, 0.9, 0.0]
        assert (card.table["row"], card.table["column"]) == ([1, 1, 2, 2], [1, 2, 1, 2])

    def test_the_strongest_square_is_starred_and_told(self) -> None:
        card = occlusion(occluded([0.1, 0.2, 0.9, 0.0]), PICTURE)
        (star,) = traces(card.figure, "strongest")
        assert (0 < star.x[0] < 1, 1 < star.y[0] < 2) == (True, True)
        outlines = [s for s in card.figure.layout.shapes if s.type == "rect"]
        assert {(s.xref, s.x0, s.y0) for s in outlines} == {("x", 0, 1), ("x2", 0, 1)}
        assert "row 2, column 1, TVD 0.9" in card.caption
        assert "from 0.98 to 0.5 and they say “·blue”" in card.caption
        assert "in its context differ from these by at most 1·10⁻⁷." in card.more

    def test_the_control_tells_what_could_not_be_compared(self) -> None:
        found = occluded([0.1, 0.2, np.nan, 0.0])
        far = replace(found.squares[0], context_tvd=0.4)
        lost = replace(found.squares[1], context_tvd=np.nan)
        caption = occlusion(replace(found, squares=(far, lost, *found.squares[2:])), PICTURE).more
        assert "differ from these by at most 0.3; 2 squares could not be compared." in caption
        none = occlusion(occluded([np.nan] * 4), PICTURE).more
        assert "cannot be compared with these for any square" in none
        assert "at most" not in none

    def test_where_nothing_was_measured_nothing_is_said_to_stay_the_same(self) -> None:
        lost = occlusion(occluded([np.nan] * 4), PICTURE)
        assert "No square" not in lost.caption + lost.alt
        assert "4 squares gave no distribution" in lost.caption
        some = "whose patches give a distribution moves"
        assert f"No square covered so far {some}" in occlusion(occluded([0.0, np.nan]), PICTURE).caption
        assert f"No square {some}" in occlusion(occluded([0.0, np.nan, 0.0, 0.0]), PICTURE).caption
        assert "No square moves" in occlusion(occluded([0.0] * 4), PICTURE).caption

    def test_rounding_is_not_called_strong(self) -> None:
        card = occlusion(occluded([FAINT / 2] * 4), PICTURE)
        assert traces(card.figure, "strongest") == []
        assert "No square" in card.caption
        assert strongest(np.array([[np.nan, 0.0]])) is None

    def test_a_square_that_hardly_matters_is_not_a_bright_one(self) -> None:
        (heat,) = (t for t in occlusion(occluded([1e-3] * 4), PICTURE).figure.data if t.type == "heatmap")
        assert (heat.zmin, heat.zmax) == (0, LEAST_TOP)

    def test_a_star_is_seen_on_a_dark_square_and_on_a_bright_one(self) -> None:
        for tvd, ink in ((1e-3, ON_DARK), (0.9, ON_BRIGHT)):
            (star,) = traces(occlusion(occluded([tvd, 0.0, 0.0, 0.0]), PICTURE).figure, "strongest")
            assert star.marker.color == ink

    def test_what_covers_is_told(self) -> None:
        assert "covered with mid grey (127)" in occlusion(occluded([0.5] * 4), PICTURE).more
        white = replace(occluded([0.5] * 4), colour=(255, 255, 255))
        told = "covered with the picture's ground (red 255, green 255, blue 255)"
        assert told in occlusion(white, PICTURE).more

    def test_squares_to_come_and_squares_without_a_value_are_counted(self) -> None:
        card = occlusion(occluded([0.5, np.inf]), PICTURE)
        assert "✕ 1 square gave no distribution" in card.caption
        assert "2 squares not covered yet" in card.caption
        assert card.table["tvd"] == [0.5, np.inf]
        assert np.isnan(field(occluded([0.5]))).sum() == 3
        (numbers,) = traces(card.figure, "numbers")
        assert list(numbers.text) == ["0.50", "✕", "–", "–"]
        assert "NaN" not in card.figure.to_json()

    def test_fine_grids_have_no_numbers_on_their_squares(self) -> None:
        assert traces(occlusion(occluded([0.5] * 64, 8), PICTURE).figure, "numbers") == []
        assert len(traces(occlusion(occluded([0.5] * 16, 4), PICTURE).figure, "numbers")) == 1
        # Nor where two decimals would say nothing.
        assert traces(occlusion(occluded([0.004] * 16, 4), PICTURE).figure, "numbers") == []

    @pytest.mark.parametrize(("grid", "size"), [(2, 14), (8, 14), (16, 9)])
    def test_a_star_leaves_something_of_its_square(self, grid: int, size: int) -> None:
        (star,) = traces(occlusion(occluded([0.5] * grid**2, grid), PICTURE).figure, "strongest")
        assert star.marker.size == size

    def test_the_picture_is_inside_the_figure(self) -> None:
        (image,) = occlusion(occluded([0.5] * 4), PICTURE).figure.layout.images
        assert image.source.startswith("data:image/png;base64,")
        assert (image.sizex, image.sizey, image.xref) == (2, 2, "x")

    def test_a_picture_is_encoded_once_and_only_so_many_are_kept(self, monkeypatch) -> None:
        made: list[str] = []
        encode = occlusion_module._encoded
        monkeypatch.setattr(occlusion_module, "_ENCODED", {})
        monkeypatch.setattr(occlusion_module, "_encoded", lambda p: made.append(p.name) or encode(p))
        pictures = [from_image(Image.new("RGB", (8, 8), (k, 0, 0)), str(k)) for k in range(MOST_ENCODED + 1)]
        for tvds in ([0.5], [0.5, 0.1]):
            (image,) = occlusion(occluded(tvds), pictures[0]).figure.layout.images
            assert image.source == encode(pictures[0])
        assert made == ["0"]
        for picture in (*pictures[1:-1], pictures[0], pictures[-1], pictures[0]):
            occlusion(occluded([0.5]), picture)
        # The one unused for longest was let go of.
        assert made == [str(k) for k in range(MOST_ENCODED + 1)]
        assert len(occlusion_module._ENCODED) == MOST_ENCODED
        occlusion(occluded([0.5]), pictures[1])
        assert made[-1] == "1"

    def test_pictures_without_a_checksum_are_not_taken_for_each_other(self) -> None:
        red, blue = (replace(PICTURE, image=Image.new("RGB", (8, 8), c), sha256="") for c in ("red", "blue"))
        assert data_uri(red) != data_uri(blue)

    def test_a_picture_that_is_not_square_is_said_to_be_drawn_so(self) -> None:
        wide = from_image(Image.new("RGB", (64, 32)), "wide.png")
        assert "drawn square" in occlusion(occluded([0.5] * 4), wide).caption
        assert "drawn square" not in occlusion(occluded([0.5] * 4), PICTURE).caption

    def test_a_token_is_drawn_as_it_is(self) -> None:
        figure = occlusion(occluded([0.5] * 4, token=MARKUP), PICTURE).figure
        assert "&lt;b&gt;&#36;x&#36; &amp;" in str(figure.data[1].customdata)

    @pytest.mark.parametrize(
        ("value", "words"), [(0.0, "0.00"), (0.004, "<.01"), (0.934, "0.93"), (np.nan, "–")]
    )
    def test_numbers_are_short(self, value: float, words: str) -> None:
        assert short(value) == words


def top(*pairs: tuple[int, str, float]) -> TopTokens:
    ids, texts, probabilities = zip(*pairs, strict=True)
    return TopTokens(np.array(ids, np.int32), np.array(probabilities, np.float32), texts)


RED, BLUE = (1, " red", 0.9), (2, " blue", 0.8)


NOTHING = TopTokens(np.array([], np.int32), np.array([], np.float32), ())


def swapped(one: TopTokens, other: TopTokens, **distances: list[float]) -> Swap:
    found = {part: np.array(distances.get(part, [0.5, 0.25]), np.float32) for part in PARTS}
    voices = (Voice(top(RED), one, 1e-7, 0.8), Voice(top(BLUE), other, 2e-7, 0.7))
    made = {part: np.ones(len(values), bool) for part, values in found.items()}
    return Swap(0, 2, VARIANT, ("a red circle", "<b>.png"), found, voices, 0.75, made)


class TestSwap:
    def test_lines_hold_each_parts_distances(self) -> None:
        card = swap_distances(swapped(top(RED), top(BLUE), gate=[0.1, 1.5]))
        lines = {t.name: t for t in card.figure.data}
        assert list(lines["ΔW_gate"].y) == pytest.approx([0.1, 1.5])
        assert (
            len({t.marker.symbol for t in lines.values()}) == len({t.line.dash for t in lines.values()}) == 4
        )
        assert card.figure.layout.yaxis.type == "log"
        assert card.table["gate"] == pytest.approx([0.1, 1.5])
        assert card.table["layer"] == [0, 1]

    def test_zeros_and_gaps_are_counted_and_zeros_drawn(self) -> None:
        card = swap_distances(swapped(top(RED), top(BLUE), up=[0.0, 0.5], down=[np.inf, 1.0]))
        assert "1 value is exactly 0." in card.caption
        why = "where A's update is zero or one is no number itself"
        assert f"✗ on the top row: 1 value is no number, {why}." in card.caption
        [lost] = [t for t in card.figure.data if t.meta == "lost"]
        assert list(lost.x) == [0]
        assert card.table["down"] == [np.inf, 1.0]

    def test_bars_stand_beside_each_other_and_are_named(self) -> None:
        card = crosswise(swapped(top(RED), top(BLUE)))
        bars = {t.name: t for t in card.figure.data}
        assert list(bars["model with picture A"].x) == pytest.approx([0.9, None])
        assert list(bars["patches of B, no picture"].x) == [None, pytest.approx(0.8)]
        assert list(bars["patches of A, no picture"].text) == ["ΔA  0.9", ""]
        assert "4 bars are missing, where a token is not among the most probable" in card.caption
        fills = {name: bar.marker.color == "rgba(0,0,0,0)" for name, bar in bars.items()}
        assert [fills[name] for name in bars] == [False, True, False, True]
        assert "to the model with A 1·10⁻⁷, with B 0.8" in card.more
        assert card.table["tvd patches B, model A"] == pytest.approx([0.7, 0.7])

    @pytest.mark.parametrize(
        ("one", "other", "words"),
        [
            (RED, BLUE, "A's patches say “·red” and B's say “·blue”: each as the model does"),
            (BLUE, BLUE, "Both pictures' patches say “·blue”: only B's as the model does"),
            (BLUE, RED, "A's patches say “·blue” and B's say “·red”: neither as the model does"),
        ],
    )
    def test_the_verdict_names_what_is_said(self, one: tuple, other: tuple, words: str) -> None:
        assert verdict(swapped(top(one), top(other))).startswith(words)

    @pytest.mark.parametrize(
        ("one", "other", "words"),
        [
            (NOTHING, NOTHING, "Neither picture's patches give a distribution: their logits are no numbers."),
            (
                NOTHING,
                top(BLUE),
                "A's patches give no distribution and B's say “·blue”: B's as the model does with B.",
            ),
            (
                top(BLUE),
                NOTHING,
                "A's patches say “·blue” and B's give no distribution: A's not as the model does with A.",
            ),
        ],
    )
    def test_the_verdict_claims_nothing_of_logits_that_are_no_numbers(
        self, one: TopTokens, other: TopTokens, words: str
    ) -> None:
        assert verdict(swapped(one, other)) == words

    def test_the_verdict_compares_with_no_model_that_says_nothing(self) -> None:
        found = swapped(top(RED), top(BLUE))
        mute = replace(found.voices[1], context=NOTHING)
        assert verdict(replace(found, voices=(found.voices[0], mute))) == (
            "A's patches say “·red” and B's say “·blue”: A's as the model does with A;"
            " the model gives no distribution with B."
        )

    def test_the_verdict_compares_tokens_and_not_their_cut_texts(self) -> None:
        long = "x" * 40
        one, other = top((3, long + "1", 0.9)), top((4, long + "2", 0.9))
        shown = f"“{'x' * 24}…”"
        assert verdict(swapped(one, other)).startswith(
            f"A's patches say {shown} (token id 3) and B's say {shown} (token id 4): neither"
        )

    def test_both_pictures_are_named(self) -> None:
        found = swapped(top(RED), top(BLUE))
        for card in (crosswise(found), swap_distances(found)):
            assert card.more.startswith("A is “a red circle”, B is “<b>.png”.")
            assert card.table["picture A"] == ["a red circle"] * 2
            assert card.table["picture B"] == ["<b>.png"] * 2
            assert "<b>.png" not in card.figure.to_json()
        nameless = crosswise(replace(found, names=("", "cat.png")))
        assert nameless.more.startswith("A is a picture without a name, B is “cat.png”.")

    def test_the_distance_of_the_two_models_is_in_the_table(self) -> None:
        assert crosswise(swapped(top(RED), top(BLUE))).table["tvd model A, model B"] == [0.75, 0.75]

    def test_each_kind_of_gap_has_its_own_reason(self) -> None:
        nan = np.nan
        found = swapped(top(RED), top(BLUE), gate=[nan, 0.5, np.inf, nan], up=[nan, 0.5, 0.5, nan],
                        down=[nan] * 4, scale=[nan, 0.5, 0.5, 0.5])  # fmt: skip
        made = {
            "gate": np.array([False, True, True, False]),
            "up": np.array([False, True, True, False]),
            "down": np.zeros(4, bool),
            "scale": np.array([False, True, True, True]),
        }
        late = replace(found, made=made, variant=replace(VARIANT, first_layer=1))
        caption = swap_distances(late).caption
        assert "Layers before 1 are not patched." in caption
        assert "These patches have no ΔW_down for both pictures." in caption
        assert "2 values are missing, where A or B gives no such update in that layer." in caption
        assert "✗ on the top row: 1 value is no number, where A's update is zero or one is no" in caption
        whole = swap_distances(swapped(top(RED), top(BLUE))).caption
        assert "missing" not in whole
        assert "not patched" not in whole

    def test_an_empty_figure_says_so(self) -> None:
        found = swapped(NOTHING, NOTHING, **{part: [np.nan, np.nan] for part in PARTS})
        mute = tuple(replace(voice, context=NOTHING) for voice in found.voices)
        card = crosswise(replace(found, voices=mute))
        assert card.figure.layout.annotations[0].text == "no distribution: the logits are no numbers"
        assert "no numbers: model with picture A; patches of A, no picture; model" in card.caption
        assert "bars are missing" not in card.caption
        distances = swap_distances(found)
        assert distances.figure.layout.annotations[0].text == "no distance could be measured"
        assert swap_distances(swapped(top(RED), top(BLUE))).figure.layout.annotations == ()
        # One that is silent beside others that are not.
        some = crosswise(swapped(NOTHING, top(BLUE)))
        assert some.figure.layout.annotations == ()
        assert "no numbers: patches of A, no picture." in some.caption
        assert set(some.table["patches of A, no picture"]) == {np.inf}
        assert None not in some.table["patches of A, no picture"]


class TestBeforeAfter:
    run = synthetic_run(6, 8, 8)

    def without(self, ids: list[int], texts: list[str], ended: bool = False) -> WithoutPictures:
        return WithoutPictures("float32", (0,), tuple(ids), tuple(texts), ended)

    def test_tokens_that_differ_are_enclosed_and_those_that_do_not_are_not(self) -> None:
        ids = [self.run.token(k)[3] for k in range(3)]
        found = self.without([ids[0], -1, -2, ids[0]], [" a", " b", " c", " d"])
        _, without, _ = answers(self.run, 0, found)
        assert without.differs[:3] == (False, True, True)
        assert without.marked.startswith("a ⟦b c")
        assert replace(without, differs=(False, True, False, True)).marked == "a ⟦b⟧ c ⟦d⟧"

    def test_what_was_not_asked_has_no_column(self) -> None:
        card = before_after(self.run, 0)
        assert [t.name for t in card.figure.data] == [a.title for a in answers(self.run, 0, None)]
        assert len(card.figure.data) == 2

    def test_boxes_and_crosses_mark_what_differs(self) -> None:
        found = self.without([-1, self.run.token(1)[3]], [MARKUP, "same"])
        card = before_after(self.run, 0, found)
        column = card.figure.data[1]
        assert column.text[0] == "✗ <b>&lt;b&gt;&#36;x&#36; &amp;</b>"
        assert column.text[1] == "same"
        boxes = [s for s in card.figure.layout.shapes if s.x0 < 1 < s.x1]
        assert len(boxes) == 1
        assert "“Without the picture”: 2 tokens so far." in card.caption
        assert card.table["Without the picture"][:3] == [MARKUP, "same", None]
        assert card.table["Without the picture: same"][:3] == [False, True, None]

    def test_a_long_answer_is_drawn_in_part_and_said_so(self) -> None:
        run = synthetic_run(2, 8, MOST_ROWS + 5, vectors=False)
        card = before_after(run, 0)
        assert f"first {MOST_ROWS} of {MOST_ROWS + 5} tokens" in card.caption
        assert len(card.figure.data[0].y) == MOST_ROWS
        assert len(card.table["step"]) == MOST_ROWS + 5

    def test_an_answer_has_ended_only_where_it_wrote_its_end(self) -> None:
        ids = [self.run.token(0)[3], -1]
        for ended, words in ((True, "ended after 2"), (False, "2 so far")):
            found = self.without(ids, [" a", " b"], ended)
            _, without, patched = answers(self.run, 0, found)
            assert without.agreement == f"1 of 8 tokens as with the picture, {words}"
            assert "so far" not in patched.agreement
            caption = before_after(self.run, 0, found).caption
            assert ("“Without the picture” ended after 2 tokens." in caption) == ended
            assert ("so far" in caption) != ended
        whole = self.without([self.run.token(k)[3] for k in range(8)], ["x"] * 8)
        assert answers(self.run, 0, whole)[1].agreement == "8 of 8 tokens as with the picture"

    @pytest.mark.parametrize(
        ("dropped", "titles"),
        [
            ((0, 1, 2), ["With the pictures", "Without the pictures", "Patched, without the pictures"]),
            ((1,), ["With the pictures", "Without picture 2", "Patched, without picture 2"]),
            ((0, 2), ["With the pictures", "Without pictures 1 and 3", "Patched, without pictures 1 and 3"]),
        ],
    )
    def test_the_dropped_pictures_are_named_where_others_stay(
        self, dropped: tuple[int, ...], titles: list[str]
    ) -> None:
        run = synthetic_run(2, 8, 3)
        spans = tuple(ImageSpan(4 * k, 4 * k + 3) for k in range(3))
        run.context = replace(run.context, images=spans, image_sha256=("0", "1", "2"))
        found = WithoutPictures("float32", dropped, (-1,), ("x",), False)
        made = answers(run, 0, found)
        assert [a.title.split(" (")[0] for a in made] == titles
        assert made[1].agreement == "0 of 3 tokens as with the pictures, 1 so far"

    def test_a_patched_token_without_a_distribution_is_told_and_not_left_empty(self) -> None:
        run = synthetic_run(2, 8, 3)
        honest = run.top
        run.top = lambda step, variant: NOTHING if step == 1 else honest(step, variant)
        patched = answers(run, 0, None)[1]
        assert (patched.texts[1], patched.differs[1], patched.silent) == (None, True, 1)
        assert "⟨no distribution⟩" in patched.marked
        assert patched.agreement.endswith(", 1 without a distribution")
        card = before_after(run, 0)
        assert card.figure.data[1].text[1] == "✗ <i>no distribution</i>"
        assert card.figure.data[1].customdata[1] == "no distribution"
        assert "has no distribution at 1 token, where its logits are no numbers" in card.caption
        rows = read_csv(to_csv(card.table))
        texts, same = (rows[0].index(name) for name in (patched.title, f"{patched.title}: same"))
        assert (rows[2][texts], rows[2][same]) == ("no distribution", "no number")
        assert rows[2][rows[0].index(f"patched, {run.variants[0].label}")] == "no distribution"
        assert "no distribution" not in before_after(self.run, 0).caption

    def test_an_empty_run_says_so(self) -> None:
        card = before_after(synthetic_run(2, 8, 0), 0)
        assert card.figure.layout.annotations[0].text == "no token yet"


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_both_themes_are_drawn_on_their_paper(theme) -> None:
    for card in (
        occlusion(occluded([0.5] * 4), PICTURE, theme),
        swap_distances(swapped(top(RED), top(BLUE)), theme),
        crosswise(swapped(top(RED), top(BLUE)), theme),
        before_after(TestBeforeAfter.run, 0, None, theme),
    ):
        assert card.figure.layout.paper_bgcolor == theme.background
