"""The form that makes a sweep: what to vary, a bar while it runs, and a way to stop and go on."""

from __future__ import annotations

from typing import Final

import streamlit as st

from ctxviz.errors import SettingsError
from ctxviz.figures.replay_words import KIND_WORDS
from ctxviz.figures.text import counted, readable
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.presets import PRESETS
from ctxviz.settings import DTYPES, REPLAYS, UPDATE_RULES, RunSettings
from ctxviz.sweep.prompts import Prompt
from ctxviz.sweep.spec import SweepSpec
from ctxviz.sweep.words import how_it_ended
from ctxviz.ui import choice, controls, messages, page, watching
from ctxviz.ui.session import Session
from ctxviz.ui.sweeping import SweepRequest, checked, folder_of
from ctxviz.ui.worker import worker

TOKENS: Final = 64
MODEL_SHOWN: Final = 80
"""Characters of the name that a person typed."""
FAULTS_SHOWN: Final = 5
_LAYERS: Final = {"first": "layer 0 only", "some": "every third layer", "all": "every layer"}
_MINE: Final = "The prompt of the Live page"


def draw(session: Session) -> None:
    """The form, and how the sweep that was asked for goes."""
    messages.hint(
        "Every combination becomes one run; finished ones are kept in a folder of the sweep's own, so the "
        "same sweep goes on where it ended. A sweep stops about three minutes after its last tab is closed, "
        "and goes on when it is started again. The command line does the same: "
        "python -m ctxviz sweep SPEC.toml.",
        "sweep-form",
    )
    _draw_model(session)
    _draw_choices(session)
    spec = checked(lambda: _spec(session))
    if isinstance(spec, str):
        messages.tell("warning", spec, "sweep-spec")
    else:
        many = spec.first_layers is None
        layers = "every first layer" if many else counted(len(spec.first_layers or ()), "first layer")
        messages.hint(
            f"{counted(len(spec.prompts), 'prompt')} × {layers} × "
            f"{counted(len(spec.floors), 'floor')}, {spec.settings.max_new_tokens} tokens each.",
            "sweep-size",
        )
        messages.hint(f"Its runs are kept in {folder_of(spec)}", "sweep-folder")
    under_way = session.sweep is not None and worker().holds(session.sweep.view.id)
    with st.container(horizontal=True, key="sweep-buttons"):
        st.button(
            "Start the sweep",
            type="primary",
            key="start_sweep",
            disabled=under_way or isinstance(spec, str),
            on_click=page.attempt(lambda _: session.start_sweep(spec))
            if isinstance(spec, SweepSpec)
            else None,
        )
        st.button("Stop the sweep", key="stop_sweep", disabled=not under_way, on_click=session.stop_sweep)
    _draw_progress(session)


def _draw_model(session: Session) -> None:
    """Which model the sweep is of, and which pictures it shows."""
    model = controls.chosen_model()
    if not model:
        return
    title = CATALOGUE[model].title if model in CATALOGUE else readable(model, MODEL_SHOWN)
    shown = counted(len(session.used(model)), "picture")
    pictures = f" The prompt of the Live page brings its {shown}." if session.used(model) else ""
    messages.hint(f"The model is {title}, as chosen on the Live page.{pictures}", "sweep-model")


def _draw_choices(session: Session) -> None:
    state = st.session_state
    # Whoever shows a picture means to ask about it.
    state.setdefault("sweep_prompts", [_MINE if session.used(controls.chosen_model()) else PRESETS[0].title])
    state.setdefault("sweep_updates", ["direct", "stable", "floored"])
    state.setdefault("sweep_dtypes", ["float32"])
    state.setdefault("sweep_floors", [0.6])
    state.setdefault("sweep_replays", ["batch"])
    titles = [*(preset.title for preset in PRESETS), _MINE]
    st.pills("Prompts", titles, selection_mode="multi", key="sweep_prompts", persist_state="session")
    left, right = st.columns(2)
    with left:
        st.pills(
            "Update rule", UPDATE_RULES, selection_mode="multi", key="sweep_updates", persist_state="session"
        )
        st.pills("Precision", DTYPES, selection_mode="multi", key="sweep_dtypes", persist_state="session")
        st.pills(
            "Replays",
            REPLAYS,
            selection_mode="multi",
            format_func=lambda kind: KIND_WORDS[kind].short,
            key="sweep_replays",
            persist_state="session",
        )
    with right:
        st.pills(
            "Floor τ (floored only)",
            [0.03, 0.1, 0.3, 0.6, 1.0],
            selection_mode="multi",
            key="sweep_floors",
            persist_state="session",
        )
        st.segmented_control(
            "First patched layer",
            list(_LAYERS),
            format_func=_LAYERS.__getitem__,
            default="first",
            key="sweep_layers",
            persist_state="session",
        )
        st.number_input("Tokens per run", 1, TOKENS, 12, key="sweep_tokens", persist_state="session")


def _spec(session: Session) -> SweepSpec:
    """What the form says; the prompt of the Live page has its pictures where the model reads them.

    Raises:
        SettingsError: something is not chosen.
    """
    state = st.session_state
    model = controls.chosen_model()
    prompts = [Prompt(preset.prompt) for preset in PRESETS if preset.title in state.sweep_prompts]
    mine = Prompt(state.prompt, session.used(model))
    if _MINE in state.sweep_prompts and mine.key not in [prompt.key for prompt in prompts]:
        prompts.append(mine)
    if not prompts:
        raise SettingsError("No prompt is chosen; choose at least one.")
    settings = RunSettings(
        updates=tuple(rule for rule in UPDATE_RULES if rule in state.sweep_updates),
        dtypes=tuple(dtype for dtype in DTYPES if dtype in state.sweep_dtypes),
        max_new_tokens=int(state.sweep_tokens),
        replays=tuple(kind for kind in REPLAYS if kind in state.sweep_replays),
        vector_budget=0,
    )
    floors = tuple(sorted(state.sweep_floors)) if "floored" in settings.updates else ()
    return SweepSpec(
        model=model,
        prompts=tuple(prompts),
        settings=settings,
        floors=floors or (settings.floor,),
        first_layers=_layers(str(state.sweep_layers)),
    )


def _layers(choice: str) -> tuple[int, ...] | None:
    if choice == "all":
        return None
    entry = CATALOGUE.get(controls.chosen_model())
    if choice == "some" and entry is not None:
        return tuple(range(0, entry.n_layers, 3))
    return (0,)


def _draw_progress(session: Session) -> None:
    request = session.sweep
    if request is None:
        return
    view = request.view
    if watching.changes(view):
        session.watches.bar(view)
    elif view.state == "failed":
        messages.tell("error", view.message, "sweep")
    else:
        done, failed, total = request.done, len(request.faults), request.total
        stopped = view.state == "stopped"
        ended = how_it_ended(done, failed, total, stopped=stopped, again="start it again")
        messages.tell("note", ended, "sweep-done")
        if done:
            st.button("See the results", key="sweep_results", on_click=_show_results, args=(request,))
    for k, fault in enumerate(request.faults[:FAULTS_SHOWN]):
        messages.tell("warning", fault, f"sweep-fault{k}")
    if (more := len(request.faults) - FAULTS_SHOWN) > 0:
        messages.tell("warning", f"{counted(more, 'more cell')} failed.", "sweep-faults")


def _show_results(request: SweepRequest) -> None:
    """Go to the view of Compare that says most about a sweep, with it chosen there."""
    view = _telling(request.spec)
    choice.make(f"compare_sweep_{view}", str(request.folder))
    st.session_state.compare_view = view


def _telling(spec: SweepSpec) -> str:
    """The view of Compare that shows what a sweep varies."""
    if spec.first_layers is None or len(spec.first_layers) > 1:
        return "layers"
    return "prompts" if len(spec.prompts) > 1 else "rules"
