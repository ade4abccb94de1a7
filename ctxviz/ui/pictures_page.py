"""The Pictures page: a run without its pictures, with a part of one covered, another in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from ctxviz.errors import PictureError
from ctxviz.figures import before_after, swap
from ctxviz.figures.text import counted, quoted
from ctxviz.picture_findings import (
    Swap,
    WithoutPictures,
    folded_pictures,
)
from ctxviz.pictures import FORMATS, MAX_BYTES, Picture, read_bytes
from ctxviz.run import Run
from ctxviz.shapes.gallery import GALLERY
from ctxviz.ui import (
    answer_parts,
    components,
    messages,
    page,
    page_top,
    picture_asking,
    picture_cover,
    picture_ways,
    run_card,
)
from ctxviz.ui.picture_jobs import PictureRequest, Question
from ctxviz.ui.picture_panel import UPLOAD_LIMIT_MB
from ctxviz.ui.picture_source import scene_picture, words_of
from ctxviz.ui.references import reference_words
from ctxviz.ui.session import Session
from ctxviz.ui.shown_prompt import PICTURE_FILES, shown_width
from ctxviz.ui.special_tokens import specials_of

THUMBNAIL_PIXELS: Final = 132
NUMBER_PIXELS: Final = 160
OWN_FILE: Final = "a file of my own"
_INTRODUCTION: Final = (
    "A picture becomes image tokens, and folding turns what they do to the answer into weights. Take the "
    "picture away, cover a part of it, or put another in its place, and see what of it the weights hold."
)


def draw() -> None:
    """One run of the page's script."""
    session = page.begin()
    with st.sidebar:
        run_card.draw_sidebar(session)
    shown = page_top.draw("Pictures", session)
    if shown is not None:
        run, variant = shown
        why_not = missing(run)
        if why_not:
            messages.tell("note", why_not, "no-pictures")
            if not run.context.images:
                picture_ways.draw(session)
            elif folded_pictures(run.context):
                _draw_recorded(run, variant)
        else:
            _draw_tools(session, run, variant)
    page.end(session)


def missing(run: Run) -> str:
    """Why nothing can be asked about a run's pictures, and what to do; empty where it can."""
    context = run.context
    if not context.images:
        return (
            "The run on screen has no picture. Make one with a picture, by a model that reads pictures, or "
            "look at a recorded one."
        )
    if tuple(picture.sha256 for picture in run.pictures) != context.image_sha256:
        return (
            "The pictures are not in the file of this run, so nothing can be made again from it. Give the "
            "same pictures on the Live page and make a new run to ask about them."
        )
    if not folded_pictures(context):
        return (
            f"This run's fold ({context.fold}) keeps the picture in the input, so no weights stand for it. "
            "On the Live page fold all, or only the picture, and generate again."
        )
    return ""


def _draw_tools(session: Session, run: Run, variant: int) -> None:
    _draw_before_after(session, run, variant)
    _explain(run)
    messages.heading(2, "What in the picture do the patches carry?", "occlusion-head")
    picture, step = _draw_choice(session, run, variant)
    picture_cover.draw(session, run, Question("occlusion", picture, step, variant))
    messages.heading(2, "Another picture in its place", "swap-head")
    _draw_swap(session, run, Question("swap", picture, step, variant))


def _draw_recorded(run: Run, variant: int) -> None:
    """The answers that a file without its pictures holds, with nothing to look at or to ask."""
    answers, specials = before_after.answers(run, variant, None), specials_of(run)
    ids = answer_parts.ids_of(run, variant, None)
    parts = [answer_parts.parts_of(*one, specials) for one in zip(answers, ids, strict=True)]
    _draw_answers(answers, parts, ())
    components.figure(before_after.before_after(run, variant), key="before-after")


def _explain(run: Run) -> None:
    """What the page is for, and which model is asked; for who asks."""
    with st.expander("What is this?", key="pictures-explained"):
        messages.hint(_INTRODUCTION, "pictures-introduction")
        messages.hint(
            f"Questions about this run go to {reference_words(run)}. A model with another checksum than the "
            "run's is refused, or, where either has none, one with another name or shape.",
            "pictures-model",
        )


def _draw_before_after(session: Session, run: Run, variant: int) -> None:
    question = Question("without")
    request = session.answer_to(question, run)
    found = request.found if request is not None and isinstance(request.found, WithoutPictures) else None
    specials = specials_of(run, found)
    answers = before_after.answers(run, variant, found)
    ids = answer_parts.ids_of(run, variant, found)
    parts = [answer_parts.parts_of(*one, specials) for one in zip(answers, ids, strict=True)]
    _draw_answers(answers, parts, run.pictures)
    dropped = before_after.dropped_words(folded_pictures(run.context), len(run.context.images))
    cost = f"Reads the prompt without {dropped} once for each of {counted(len(run), 'token')}, at most."
    picture_asking.draw(session, run, question, f"Ask without {dropped}", cost)
    if found is not None:
        card = before_after.before_after(run, variant, found)
        components.figure(card, key="before-after")


def _draw_answers(
    answers: tuple[before_after.Answer, ...],
    parts: list[tuple[answer_parts.Part, ...]],
    pictures: Sequence[Picture],
) -> None:
    if any(True in answer.differs for answer in answers):
        messages.hint(
            f"{before_after.OPEN} {before_after.CLOSE} enclose what is not as written with "
            f"{answers[0].whole}.",
            "answer-marks",
        )
    for k, (place, answer) in enumerate(zip(st.columns(len(answers)), answers, strict=True)):
        with place, st.container(border=True, key=f"answer{k}"):
            messages.heading(3, answer.title, f"answer-head{k}")
            if k == 0 and pictures:
                with st.container(horizontal=True, key="answer-pictures"):
                    for number, picture in enumerate(pictures, 1):
                        _draw_thumbnail(picture, f"Picture {number}: {words_of(picture)}")
            with st.container(key=f"verdict-answer{k}"):
                components.text_with_tokens([(p.text, p.about) for p in parts[k]], key=f"answer-text{k}")
            if k:
                messages.hint(f"{answer.agreement}.", f"agreement{k}")


def _draw_thumbnail(picture: Picture, alt: str) -> None:
    st.image(PICTURE_FILES.png(picture), width=shown_width(picture, THUMBNAIL_PIXELS), alt=alt)


def _draw_choice(session: Session, run: Run, variant: int) -> tuple[int, int]:
    """Which picture and which token the two tools below are about."""
    state = st.session_state
    chosen = session.focus.step
    step = telling(run, variant) if chosen is None or chosen >= len(run) else chosen
    state.picture_step = step
    choices = folded_pictures(run.context)
    with st.container(horizontal=True, key="picture-choice", vertical_alignment="bottom"):
        picture = choices[0]
        if len(choices) > 1:
            if state.get("picture_looked_at") not in choices:
                state.picture_looked_at = choices[0]
            picture = st.selectbox(
                "Picture",
                choices,
                format_func=lambda k: f"{k + 1}",
                width=NUMBER_PIXELS,
                key="picture_looked_at",
                persist_state="session",
            )
        st.number_input(
            "Token",
            0,
            len(run) - 1,
            width=NUMBER_PIXELS,
            key="picture_step",
            on_change=lambda: session.pick(int(state.picture_step), session.focus.layer, variant),
        )
        # Not in the label, which is read as Markdown.
        messages.hint(quoted(run.token(step)[4]), "picture-token")
    return picture, step


def telling(run: Run, variant: int) -> int:
    """The token to look at first: the one for which the folded picture is worth most, as far as was measured.

    Where text is folded too, its worth is not the picture's: then the one that the model is least sure of.
    """
    dtype = run.variants[variant].dtype
    worth = run.reference("unpatched_tvd", dtype)
    if run.context.fold.kind != "image":
        worth = -np.array([run.baseline(k, dtype).margin for k in range(len(run))])
    return int(np.nanargmax(worth)) if np.isfinite(worth).any() else 0


def _draw_swap(session: Session, run: Run, asked: Question) -> None:
    first = run.pictures[asked.picture]
    messages.hint(
        f"A is picture {asked.picture + 1} of the run ({words_of(first)}); choose B.",
        "swap-a",
    )
    other = _other_picture(first)
    with st.container(horizontal=True, key="swap-pictures", vertical_alignment="center"):
        for name, picture in (("A", first), ("B", other)):
            if picture is not None:
                with st.container(key=f"swap-picture-{name}", width="content"):
                    _draw_thumbnail(picture, f"Picture {name}: {words_of(picture)}")
                    messages.hint(f"{name}: {words_of(picture)}", f"swap-words-{name}")
    if other is None:
        return
    if other.sha256 == first.sha256:
        messages.hint("B is the same picture as A: every distance below is to be 0.", "swap-same")
    question = Question("swap", asked.picture, asked.step, asked.variant, other=other.sha256)

    def show(request: PictureRequest) -> None:
        if isinstance(request.found, Swap):
            messages.verdict(swap.verdict(request.found), "swap-verdict")
            for key, card in swap.cards(request.found, run).items():
                components.figure(card, key=key)

    cost = "Reads the prompt with A and with B, and builds and replays the token's patches of each."
    picture_asking.draw(session, run, question, "Swap the pictures", cost, show, other)


def _other_picture(first: Picture) -> Picture | None:
    """Picture B: one of the drawn samples, or a file; at first a sample that is not A."""
    titles = [*(sample.title for sample in GALLERY), OWN_FILE]
    same = [scene_picture(sample.scene).sha256 == first.sha256 for sample in GALLERY]
    title = st.selectbox(
        "Picture B",
        titles,
        index=same.index(False),
        width=320,
        key="swap_sample",
        persist_state="session",
    )
    if title != OWN_FILE:
        return scene_picture(GALLERY[titles.index(title)].scene)
    given = st.file_uploader(
        f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}, at most {MAX_BYTES // 10**6} MB",
        max_upload_size=UPLOAD_LIMIT_MB,
        key="swap_file",
    )
    return None if given is None else _read_once(given)


def _read_once(given: UploadedFile) -> Picture | None:
    """The picture in a file, decoded when it is new; a sentence where there is none in it."""
    state = st.session_state
    if state.get("swap_read", ("", None))[0] != given.file_id:
        try:
            state.swap_read = given.file_id, read_bytes(given.getvalue(), given.name)
        except PictureError as error:
            state.swap_read = given.file_id, str(error)
    read: Picture | str = state.swap_read[1]
    if isinstance(read, Picture):
        return read
    messages.tell("error", read, "swap-file")
    return None
