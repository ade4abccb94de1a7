"""The Replay page: do the finished weights carry the context, and how much of a gap was there anyway?"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import streamlit as st

from ctxviz.figures.budget import budget
from ctxviz.figures.replay_verdict import verdict
from ctxviz.figures.replay_words import KIND_WORDS, bits_sentence, control_sentence, meaning
from ctxviz.figures.replays import drift_lines, held_lines, replay_lines
from ctxviz.figures.text import quoted
from ctxviz.run import Run
from ctxviz.settings import HELD, REPLAYS, RunSettings
from ctxviz.ui import components, looked_at, messages, page, page_top, run_card, watching, way_back
from ctxviz.ui.references import reference_of, reference_words
from ctxviz.ui.session import Session

_INTRODUCTION: Final = (
    "While a patch is built, every layer starts from what the layers before it really gave, so it absorbs "
    "their rounding: a match there is self-correcting. A replay runs the finished, written weights again "
    "without that help."
)
_FLOAT64: Final = (
    "transformers computes Gemma's norms, the rotary angles and the softmax of eager attention in float32 "
    "whatever the dtype, so a float64 model is not float64 all the way: two of its ways can differ by 1e-7."
)


def draw() -> None:
    """One run of the page's script."""
    session = page.begin()
    with st.sidebar:
        run_card.draw_sidebar(session)
    shown = page_top.draw("Replay", session)
    if shown is not None:
        run, variant = shown
        _draw_replays(session, run, variant)
        _draw_budget(run, variant)
        _draw_again(session, run)
    page.end(session)


def _draw_replays(session: Session, run: Run, variant: int) -> None:
    if run.variants[variant].arithmetic != "written":
        messages.tell(
            "note", "This variant is factored: nothing is written, so nothing can be replayed.", "f"
        )
        return
    kinds = [kind for kind in run.replayed if kind != HELD]
    if kinds:
        messages.verdict(verdict(run, variant), "meaning")
        components.figure(replay_lines(run, variant), key="replay-lines")
        messages.hint(bits_sentence(run, variant), "bits")
        _explain(run, variant)
        _draw_drift(session, run, variant)
    else:
        messages.tell("note", "This run was made without replays; make it again with them below.", "none")
    if HELD in run.replayed:
        components.figure(held_lines(run, variant), key="held-lines")


def _explain(run: Run, variant: int) -> None:
    """What a replay is, what this one means, and what the same move does without a patch; for who asks."""
    with st.expander("What is this?", key="replay-explained"):
        said = (_INTRODUCTION, meaning(run, variant), control_sentence(run, variant))
        for k, sentence in enumerate(filter(None, said)):
            messages.hint(sentence, f"replay-explained{k}")


def _draw_drift(session: Session, run: Run, variant: int) -> None:
    """How a small difference grows from layer to layer, at one token."""
    focus = looked_at.inspected(run, session.focus, still=True)
    step = 0 if focus is None or focus.step is None else focus.step
    state = st.session_state
    state.replay_step = step
    with st.container(horizontal=True, key="replay-token", vertical_alignment="center"):
        messages.heading(2, "How fast a small difference grows", "drift-head")
        st.number_input(
            "Token",
            0,
            len(run) - 1,
            key="replay_step",
            on_change=lambda: session.pick(int(state.replay_step), None, variant),
        )
        # Not in the label, which is read as Markdown.
        messages.hint(quoted(run.token(step)[4]), "replay-token")
    components.figure(drift_lines(run, step, variant), key="drift-lines")


def _draw_budget(run: Run, variant: int) -> None:
    card = budget(run, variant)
    card = replace(card, more=f"{card.more} {_FLOAT64}".strip())
    components.figure(card, key="error-budget")


def _draw_again(session: Session, run: Run) -> None:
    """Controls that make the run again with replays; the history is the recorded one."""
    messages.heading(2, "Replay this run", "again-head")
    messages.hint(
        f"Builds every patch of the run again along its recorded tokens with {reference_words(run)}, and "
        f"replays each. The run on screen is kept; “{way_back.BACK}” returns to it.",
        "again",
    )
    state = st.session_state
    state.setdefault("again_kinds", ["same", "batch", "ulp"])
    last = max(0, len(run) - 1)
    state.again_hold = min(int(state.get("again_hold", 0)), last)
    st.pills(
        "Replays",
        REPLAYS,
        selection_mode="multi",
        format_func=lambda kind: KIND_WORDS[kind].short,
        key="again_kinds",
        persist_state="session",
    )
    with st.container(horizontal=True, key="again-row", vertical_alignment="bottom"):
        st.toggle("Error budget", key="again_budget", persist_state="session")
        st.toggle("Hold a patch", key="again_holds", persist_state="session")
        st.number_input(
            "from token",
            0,
            last,
            disabled=not state.again_holds,
            key="again_hold",
            persist_state="session",
        )
        reference, why_not = reference_of(run), _why_not(session, run)
        st.button(
            "Replay this run",
            type="primary",
            key="again",
            disabled=bool(why_not),
            on_click=page.attempt(lambda _: session.replay(reference, _settings(run))),
        )
    if why_not:
        messages.hint(why_not, "again-why")


def _why_not(session: Session, run: Run) -> str:
    """Why the run cannot be replayed as things are chosen; empty where it can."""
    state = st.session_state
    if watching.changes(session.view):
        return "The run is still being made; it can be replayed once it has ended."
    if not any(variant.arithmetic == "written" for variant in run.variants):
        return "No variant of this run is written, so there are no weights to run again."
    if not (state.again_kinds or state.again_budget or state.again_holds):
        return "Nothing is chosen: choose a replay, the error budget, or a patch to hold."
    return ""


def _settings(run: Run) -> RunSettings:
    state = st.session_state
    return replace(
        run.settings,
        replays=tuple(kind for kind in REPLAYS if kind in state.again_kinds),
        budget=bool(state.again_budget),
        hold=int(state.again_hold) if state.again_holds else None,
        max_new_tokens=len(run),
    )
