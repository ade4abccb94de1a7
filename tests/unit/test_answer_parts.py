"""Answers in parts: special tokens are set off from words, by their ids and not by how they are spelt."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ctxviz.figures.before_after import LONGEST_ANSWER, Answer, answers
from ctxviz.folds import ImageSpan
from ctxviz.picture_findings import WithoutPictures
from ctxviz.ui.answer_parts import Part, ids_of, parts_of
from ctxviz.ui.special_tokens import Specials, learn, specials_of
from tests.synthetic import synthetic_run

END = "<end_of_turn>"
KNOWN = Specials(frozenset({9}), frozenset({7, 9}))


def answer(*texts: str | None, differs: tuple[int, ...] = ()) -> Answer:
    flags = tuple(k in differs for k in range(len(texts)))
    return Answer("With it", texts, flags, len(texts), "the picture", True)


def told(parts: tuple[Part, ...]) -> str:
    return "".join(f"[{part.text}]" if part.about else part.text for part in parts)


def test_an_end_is_set_off_and_the_same_letters_as_words_are_not() -> None:
    parts = parts_of(answer(" a", " circle", END), (1, 2, 9), KNOWN)
    assert parts == (Part("a circle"), Part(" "), Part(END, "the end of the text"))
    assert parts_of(answer(" a", END), (1, 2), KNOWN) == (Part(f"a{END}"),)


def test_other_special_tokens_are_set_off_wherever_they_stand() -> None:
    parts = parts_of(answer("<pad>", " a", "<pad>", "\n", "<pad>", " b"), (7, 1, 7, 2, 7, 3), KNOWN)
    assert told(parts) == "[<pad>] a [<pad>] [<pad>] b"
    assert {part.about for part in parts} == {"", "a special token"}


def test_what_differs_keeps_its_marks() -> None:
    parts = parts_of(answer(" a", " b", END, differs=(1, 2)), (1, 2, 9), KNOWN)
    assert told(parts) == f"a ⟦b⟧ ⟦[{END}]⟧"
    assert told(parts_of(answer(" a", None, differs=(1,)), (1, None), KNOWN)) == "a⟦⟨no distribution⟩⟧"


def test_an_answer_of_nothing_but_an_end_or_of_spaces_is_not_empty() -> None:
    assert told(parts_of(answer("\n"), (9,), KNOWN)) == "[⏎]"
    assert told(parts_of(answer(" "), (1,), KNOWN)) == "⟨empty⟩"


def test_a_very_long_answer_is_cut_and_says_so() -> None:
    texts = [f" {'x' * 50}", "<pad>"] * 40
    parts = parts_of(answer(*texts), (1, 7) * 40, KNOWN)
    assert told(parts).endswith(" …")
    assert LONGEST_ANSWER < len(told(parts)) < 2 * LONGEST_ANSWER


def test_ids_are_those_of_the_answers() -> None:
    run = synthetic_run(2, 8, 5)
    found = WithoutPictures("float32", (0,), (3, 4), (" a", " b"), False)
    for asked in (None, found):
        made, ids = answers(run, 0, asked), ids_of(run, 0, asked)
        assert [len(one) for one in ids] == [len(one.texts) for one in made]
        for one, of in zip(made, ids, strict=True):
            same = tuple(k >= 5 or i != run.token(k)[3] for k, i in enumerate(of))
            assert same == one.differs


class TestWhatIsKnown:
    def test_a_file_tells_its_end_and_what_stands_for_its_pictures(self) -> None:
        run = synthetic_run(2, 8, 4)
        last = run.token(3)[3]
        assert specials_of(run) == Specials()
        run.outcome = "end of text"
        assert specials_of(run) == Specials(frozenset({last}), frozenset({last}))
        run.context = replace(run.context, images=(ImageSpan(1, 4),))
        assert specials_of(run).all == {last, *run.context.token_ids[1:4]}

    def test_an_answer_that_ended_tells_its_end(self) -> None:
        run = synthetic_run(2, 8, 4)
        found = WithoutPictures("float32", (0,), (3, 77), (" a", END), True)
        assert specials_of(run, found).ends == {77}
        assert specials_of(run, replace(found, ended=False)) == Specials()

    def test_a_model_tells_all(self) -> None:
        run, other = synthetic_run(2, 8, 4), synthetic_run(2, 8, 4)
        model: Any = SimpleNamespace(eos_ids=frozenset({1}), special_ids=frozenset({5}))
        learn(run, model)
        assert specials_of(run) == Specials(frozenset({1}), frozenset({1, 5}))
        assert specials_of(other) == Specials()
