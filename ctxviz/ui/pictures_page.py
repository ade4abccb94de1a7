"""The Pictures page: a run without its pictures, with a part of one covered, another in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import streamlit as st
from PIL.Image import Image

from ctxviz.errors import PictureError
from ctxviz.figures import before_after, occlusion, swap
from ctxviz.figures.text import counted, quoted
from ctxviz.picture_findings import Occlusion, Swap, WithoutPictures, folded_pictures, grids
from ctxviz.pictures import FORMATS, MAX_BYTES, Picture, read_bytes
from ctxviz.run import Run
from ctxviz.shapes.gallery import GALLERY
from ctxviz.ui import components, controls, messages, page, picture_jobs, run_card
from ctxviz.ui.picture_jobs import PictureRequest, Question
from ctxviz.ui.picture_source import scene_picture, words_of
from ctxviz.ui.session import Session
from ctxviz.ui.views import ACTIVE, views
from ctxviz.ui.worker import worker

THUMBNAIL_PIXELS: Final = 132
NUMBER_PIXELS: Final = 160
PROGRESS_SECONDS: Final = 1.0
OWN_FILE: Final = "a file of my own"
_INTRODUCTION: Final = (
    "A picture becomes image tokens, and folding turns what they do to the answer into weights. Take the "
    "picture away, cover a part of it, or put another in its place, and see what of it the weights hold."
)


def draw() -> None:
    """One run of the page's script."""
    session = page.begin()
    state, changing = session.view.state, page.changes(session.view)
    picture_jobs.forget_others(session)
    with st.sidebar:
        run_card.draw_sidebar(session)
    messages.heading(2, "Pictures: what of them is in the weights?", "page-head")
    messages.hint(_INTRODUCTION, "pictures-introduction")
    page.draw_notices(session)
    run = run_card.finished(session)
    if run is not None:
        why_not = missing(run)
        if why_not:
            messages.tell("note", why_not, "no-pictures")
        else:
            _draw_tools(session, run)
    page.end(session, state, changing)


def missing(run: Run) -> str:
    """Why nothing can be asked about a run's pictures, and what to do; empty where it can."""
    context = run.context
    if not context.images:
        return (
            "The run on screen has no picture. On the Live page choose a model that reads pictures, such as "
            "tiny-shapes, give it a picture, and generate; then come back."
        )
    if tuple(picture.sha256 for picture in run.pictures) != context.image_sha256:
        return (
            "The file of this run does not hold its pictures, so nothing can be made again from it. Give the "
            "same pictures on the Live page and make a new run."
        )
    if not folded_pictures(context):
        return (
            f"This run's fold ({context.fold}) keeps the picture in the input, so no weights stand for it. "
            "On the Live page fold all, or only the picture, and generate again."
        )
    return ""


def _draw_tools(session: Session, run: Run) -> None:
    variant = run_card.draw_variant(session, run)
    _draw_before_after(session, run, variant)
    messages.heading(2, "What in the picture do the patches carry?", "occlusion-head")
    picture, step = _draw_choice(session, run, variant)
    _draw_occlusion(session, run, Question("occlusion", picture, step, variant))
    messages.heading(2, "Another picture in its place", "swap-head")
    _draw_swap(session, run, Question("swap", picture, step, variant))


def _draw_before_after(session: Session, run: Run, variant: int) -> None:
    messages.heading(2, "With the picture, and without it", "before-head")
    question = Question("without")
    request = session.looks.get(question)
    found = request.found if request is not None and isinstance(request.found, WithoutPictures) else None
    _draw_answers(run, before_after.answers(run, variant, found))
    cost = f"Reads the prompt without its picture once for each of {counted(len(run), 'token')}, at most."
    _draw_asking(session, question, "Ask without the picture", cost)
    if found is not None:
        card = before_after.before_after(run, variant, found)
        components.figure(card, key="before-after", name="before-after")


def _draw_answers(run: Run, answers: tuple[before_after.Answer, ...]) -> None:
    if any(True in answer.differs for answer in answers):
        messages.hint(
            f"{before_after.OPEN} {before_after.CLOSE} enclose what is not as written with the picture.",
            "answer-marks",
        )
    for k, (place, answer) in enumerate(zip(st.columns(len(answers)), answers, strict=True)):
        with place, st.container(border=True, key=f"answer{k}"):
            messages.heading(3, answer.title, f"answer-head{k}")
            if k == 0:
                with st.container(horizontal=True, key="answer-pictures"):
                    for number, picture in enumerate(run.pictures, 1):
                        st.image(_thumbnail(picture), alt=f"Picture {number}: {words_of(picture)}")
            with st.container(key=f"verdict-answer{k}"):
                st.text(answer.marked)
            if k:
                messages.hint(f"{answer.agreement}.", f"agreement{k}")


def _thumbnail(picture: Picture) -> Image:
    small = picture.image.copy()
    small.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
    return small


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
            picture = st.selectbox(
                "Picture",
                choices,
                format_func=lambda k: f"{k + 1}",
                width=NUMBER_PIXELS,
                key="picture_looked_at",
            )
        st.number_input(
            "Token",
            0,
            len(run) - 1,
            width=NUMBER_PIXELS,
            key="picture_step",
            on_change=lambda: session.pick(int(state.picture_step), None, variant),
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


def _draw_occlusion(session: Session, run: Run, asked: Question) -> None:
    choices = [g for g in grids(run, asked.picture) if g > 1] or [1]
    grid = st.segmented_control(
        "Squares a side", choices, default=choices[-1], required=True, key=f"grid-{asked.picture}"
    )
    question = Question("occlusion", asked.picture, asked.step, asked.variant, int(grid or choices[-1]))
    squares = counted(question.grid**2, "square")
    cost = (
        f"{squares}: for each, and once for the whole picture, the prompt is read with the picture and the "
        "token's patches are built."
    )

    def show(request: PictureRequest) -> None:
        if isinstance(request.found, Occlusion) and request.found.squares:
            card = occlusion.occlusion(request.found, run.pictures[asked.picture])
            components.figure(card, key="occlusion", name="occlusion")

    _draw_asking(session, question, f"Cover {squares}", cost, show)


def _draw_swap(session: Session, run: Run, asked: Question) -> None:
    messages.hint(
        f"A is picture {asked.picture + 1} of the run ({words_of(run.pictures[asked.picture])}); choose B.",
        "swap-a",
    )
    other = _other_picture(run.pictures[asked.picture])
    if other is None:
        return
    if other.sha256 == run.pictures[asked.picture].sha256:
        messages.hint("B is the same picture as A: every distance below is to be 0.", "swap-same")
    question = Question("swap", asked.picture, asked.step, asked.variant, other=other.sha256)

    def show(request: PictureRequest) -> None:
        if isinstance(request.found, Swap):
            messages.verdict(swap.verdict(request.found), "swap-verdict")
            components.figure(swap.crosswise(request.found), key="crosswise", name="swap-answers")
            components.figure(swap.swap_distances(request.found), key="distances", name="swap-distances")

    cost = "Reads the prompt with A and with B, and builds and replays the token's patches of each."
    _draw_asking(session, question, "Swap the pictures", cost, show, other)


def _other_picture(first: Picture) -> Picture | None:
    """Picture B: one of the drawn samples, or a file; at first a sample that is not A."""
    titles = [*(sample.title for sample in GALLERY), OWN_FILE]
    same = [scene_picture(sample.scene).sha256 == first.sha256 for sample in GALLERY]
    with st.container(horizontal=True, key="swap-b", vertical_alignment="bottom"):
        title = st.selectbox(
            "Picture B",
            titles,
            index=same.index(False),
            width=320,
            key="swap_sample",
            persist_state="session",
        )
        if title != OWN_FILE:
            scene = GALLERY[titles.index(title)].scene
            st.image(_thumbnail(scene_picture(scene)), alt=f"Picture B: {scene.caption()}")
            return scene_picture(scene)
    given = st.file_uploader(
        f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}, at most {MAX_BYTES // 10**6} MB", key="swap_file"
    )
    if given is None:
        return None
    try:
        picture = read_bytes(given.getvalue(), given.name)
    except PictureError as error:
        messages.tell("error", str(error), "swap-file")
        return None
    st.image(_thumbnail(picture), alt="Picture B")
    return picture


def _draw_asking(
    session: Session,
    question: Question,
    words: str,
    cost: str,
    show: Callable[[PictureRequest], None] = lambda _: None,
    other: Picture | None = None,
) -> None:
    """A button with what it costs; then how far it is, with a way to stop; then what was found."""
    request = session.looks.get(question)
    state = None if request is None else request.view.state
    if request is None or state in ("failed", "stopped"):
        reference = controls.chosen_model()
        st.button(
            words,
            key=f"ask-{question.kind}",
            on_click=page.attempt(lambda _: picture_jobs.ask(session, reference, question, other)),
        )
        messages.hint(cost, f"cost-{question.kind}")
    if request is None:
        return
    if state in ACTIVE:
        _going(request, show)
        return
    if state == "failed":
        messages.tell("error", request.view.message, f"ask-{question.kind}")
    elif state == "stopped":
        messages.tell("note", "Stopped before it was finished; what was found so far stays.", question.kind)
    show(request)


@st.fragment(run_every=PROGRESS_SECONDS)
def _going(request: PictureRequest, show: Callable[[PictureRequest], None]) -> None:
    """What is found so far, drawn again while there is more to come."""
    view, kind = request.view, request.question.kind
    # Says that somebody still waits for it.
    views().get(view.id)
    if view.state not in ACTIVE:
        st.rerun()
    with st.container(horizontal=True, key=f"going-{kind}", vertical_alignment="center"):
        st.progress(min(1.0, view.progress or 0.0), width=NUMBER_PIXELS * 2)
        messages.hint(f"{view.stage or 'waiting for a turn'} …", f"stage-{kind}")
        st.button("Stop", key=f"stop-{kind}", on_click=lambda: worker().stop(view.id))
    show(request)
