"""The settings in the sidebar and the prompt: widgets whose values make a ``Link``."""

from __future__ import annotations

from typing import Final

import streamlit as st

from ctxviz.figures.replay_words import KIND_WORDS
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.presets import EXAMPLES, begins_with_a_picture, presets_for
from ctxviz.settings import ARITHMETICS, DTYPES, REPLAYS, UPDATE_RULES
from ctxviz.shapes.gallery import GALLERY
from ctxviz.ui import fold_control, messages, popovers
from ctxviz.ui.components import Focus
from ctxviz.ui.memory_line import memory_line
from ctxviz.ui.picture_source import scene_picture, scenes_of, show
from ctxviz.ui.session import Session
from ctxviz.ui.url_state import MAX_TOKENS, VIEWS, Link, fits_in_link
from ctxviz.ui.worker import worker

OTHER: Final = "other"
_SELDOM: Final = ("arithmetics", "first_layer", "replays", "hold", "budget")
"""What is drawn under More."""
_RULES: Final = {
    "direct": "direct",
    "stable": "stable",
    "rescaled": "rescaled · derived",
    "floored": "floored · recommended",
}
_RULES_HELP: Final = (
    "How the output side is patched. direct divides by h and can blow up; stable solves a constrained least "
    "squares first. rescaled and floored were derived for this program; floored keeps denominators above τ, "
    "and with τ = 0.6 its weights still carry the context when they run again, so it is recommended."
)
_ARITHMETIC_HELP: Final = (
    "written: the patch is added to the weights and rounded, and the stock model runs on them. "
    "factored: the patch runs beside the weights, the way a LoRA does."
)
_REPLAYS_HELP: Final = (
    "Run each token's finished, written weights again: by the same kernel, in a batch of two, with the input "
    "moved by one unit in the last place, or with the weights rounded through another dtype. A patch "
    "corrects itself while it is built; only a replay tells whether the weights carry the context."
)
_HOLD_HELP: Final = "Keep one token's patch for all later tokens, and watch how far they drift apart."
_BUDGET_HELP: Final = (
    "Measure at some tokens what is there without any patch: eager against sdpa attention, and the same "
    "history in float32 and float64. Needs the model in both."
)
_DTYPE_HELP: Final = "All precisions follow one history: what the highest of them writes with the context."


def seed(link: Link) -> None:
    """Put a link's values into the widgets; call before they are drawn."""
    state = st.session_state
    state.prompt = link.prompt
    state.model = link.model if link.model in CATALOGUE else OTHER
    state.other_model = "" if link.model in CATALOGUE else link.model
    state.updates, state.arithmetics, state.dtypes = map(list, (link.updates, link.arithmetics, link.dtypes))
    state.floor, state.first_layer, state.tokens = link.floor, link.first_layer, link.tokens
    state.replays, state.budget = list(link.replays), link.budget
    state.holds, state.hold = link.hold is not None, link.hold or 0
    state.left, state.right = link.left, link.right
    state.chosen_coordinate, state.compare_view = link.coordinate, link.view
    fold_control.seed(link.fold)
    plain = Link()
    if any(getattr(link, name) != getattr(plain, name) for name in _SELDOM):
        state.more = True


def chosen(focus: Focus) -> Link:
    """What the widgets say now, with what is looked at."""
    state = st.session_state
    return Link(
        prompt=state.prompt,
        model=chosen_model(),
        scenes=scenes_of(state.session.used(chosen_model())),
        updates=_in_order(state.updates, UPDATE_RULES),
        floor=float(state.floor),
        arithmetics=_in_order(state.arithmetics, ARITHMETICS),
        dtypes=_in_order(state.dtypes, DTYPES),
        first_layer=int(state.first_layer),
        fold=fold_control.chosen(),
        tokens=int(state.tokens),
        replays=_in_order(state.replays, REPLAYS),
        hold=int(state.hold) if state.holds else None,
        budget=bool(state.budget),
        metric=focus.metric,
        variant=focus.variant,
        step=focus.step,
        layer=focus.layer,
        left=state.left,
        right=state.right,
        coordinate=state.chosen_coordinate,
        view=state.compare_view or VIEWS[0],
    )


def chosen_model() -> str:
    """The reference of the model: a catalogue key, or what was typed."""
    state = st.session_state
    return state.other_model.strip() if state.model == OTHER else state.model


def _in_order(values: list[str], known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(value for value in known if value in values)


def draw_model() -> None:
    """Which model, and whether it fits."""
    st.selectbox(
        "Model",
        [*CATALOGUE, OTHER],
        format_func=lambda key: "another: folder, file or Hub" if key == OTHER else CATALOGUE[key].title,
        key="model",
        on_change=_fit_examples,
        persist_state="session",
    )
    if st.session_state.model == OTHER:
        st.text_input(
            "Folder, .gguf file, or Hub id",
            key="other_model",
            max_chars=400,
            placeholder="org/name or a path on this machine",
            persist_state="session",
        )
    if not chosen_model():
        return
    usable, sentence = memory_line(chosen_model(), st.session_state.dtypes, worker().loaded(chosen_model()))
    if usable:
        messages.hint(sentence, "memory")
    else:
        messages.tell("warning", sentence, "memory")


def choose_model(key: str) -> None:
    """Take a model of the catalogue, and an example that fits it."""
    st.session_state.model = key
    _fit_examples()


def _fit_examples() -> None:
    """Have an example at hand that fits a model just chosen, as long as the prompt is an example anyway."""
    state, model = st.session_state, chosen_model()
    session: Session = state.session
    fitting = presets_for(model, pictures=bool(session.used(model)))
    if state.prompt not in EXAMPLES or state.prompt in (preset.prompt for preset in fitting):
        return
    state.prompt = fitting[0].prompt
    if begins_with_a_picture(model) and not session.pictures:
        show(session, [scene_picture(GALLERY[0].scene)])


def draw_rules() -> None:
    """Update rules, precision and arithmetic; several of each at once."""
    st.pills(
        "Update rule",
        UPDATE_RULES,
        selection_mode="multi",
        format_func=_RULES.__getitem__,
        help=_RULES_HELP,
        key="updates",
        persist_state="session",
    )
    if "floored" in st.session_state.updates:
        st.slider("Floor τ (RMS)", 0.01, 1.0, step=0.01, format="%.2f", key="floor", persist_state="session")
    st.pills(
        "Precision", DTYPES, selection_mode="multi", help=_DTYPE_HELP, key="dtypes", persist_state="session"
    )
    if "float16" in st.session_state.dtypes:
        messages.tell(
            "warning",
            "float16 overflows above 65504, which Gemma 3's activations can exceed; bfloat16 is safer.",
            "float16",
        )


def draw_tokens() -> str | None:
    """How many tokens. Returns a sentence where the first patched layer, under More, had to be another."""
    st.number_input(
        "Tokens", min_value=1, max_value=MAX_TOKENS, step=1, key="tokens", persist_state="session"
    )
    last, asked = _last_layer(), st.session_state.first_layer
    if last is None or asked <= last:
        return None
    st.session_state.first_layer = last
    return f"The model has no layer {asked}; the first patched layer is now its last one, {last}."


def _last_layer() -> int | None:
    entry = CATALOGUE.get(chosen_model())
    return entry.n_layers - 1 if entry else None


def draw_more() -> None:
    """What is seldom changed; open from the first where a link changes one of these."""
    with st.expander("More", key="more", on_change="rerun"):
        st.pills(
            "Applied as",
            ARITHMETICS,
            selection_mode="multi",
            help=_ARITHMETIC_HELP,
            key="arithmetics",
            persist_state="session",
        )
        last = _last_layer()
        st.number_input(
            "First patched layer",
            min_value=0,
            max_value=last,
            step=1,
            help="Layers before it are left as they are."
            + ("" if last is None else f" The last one is {last}."),
            key="first_layer",
            persist_state="session",
        )
        _draw_replays()


def _draw_replays() -> None:
    """What is measured of every token besides the run itself."""
    st.pills(
        "Replay each token's weights",
        REPLAYS,
        selection_mode="multi",
        format_func=lambda kind: KIND_WORDS[kind].short,
        help=_REPLAYS_HELP,
        key="replays",
        persist_state="session",
    )
    st.toggle("Hold one token's patch", help=_HOLD_HELP, key="holds", persist_state="session")
    if st.session_state.holds:
        last = int(st.session_state.tokens) - 1
        st.session_state.hold = min(int(st.session_state.hold), last)
        st.number_input("Hold the patch of token", 0, last, step=1, key="hold", persist_state="session")
    st.toggle("Error budget", help=_BUDGET_HELP, key="budget", persist_state="session")
    asked = st.session_state.replays or st.session_state.holds
    if asked and "written" not in st.session_state.arithmetics:
        messages.tell("warning", "Only written patches can be replayed; add “written” above.", "replays")


def draw_prompt() -> None:
    """The prompt."""
    st.text_area(
        "Prompt", key="prompt", height="content", label_visibility="collapsed", persist_state="session"
    )


def draw_examples() -> None:
    """Prompts that a click puts into the prompt."""
    with popovers.choices("Examples", "examples"):
        session: Session = st.session_state.session
        for k, preset in enumerate(presets_for(chosen_model(), pictures=bool(session.used(chosen_model())))):
            st.button(preset.title, key=f"preset{k}", type="tertiary", on_click=_use, args=(preset.prompt,))


def _use(prompt: str) -> None:
    st.session_state.prompt = prompt
    popovers.close("examples")


def draw_link_hint() -> None:
    """Say so where a copied link would lack the prompt."""
    if not fits_in_link(st.session_state.prompt):
        messages.hint("This prompt is too long for a link; a copied address carries the rest.", "link")
