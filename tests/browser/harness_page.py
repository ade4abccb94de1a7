"""A page with nothing but one component on a synthetic run, and what was clicked."""

import harness
import streamlit as st

from ctxviz.figures.heatmap import heatmap
from ctxviz.figures.lines import tvd_lines
from ctxviz.ui import components
from ctxviz.ui.fields import FieldsEvent, fields
from ctxviz.ui.focus import Did, Focus
from ctxviz.ui.views import views

st.set_page_config(layout="wide")
query = st.query_params

if "view" not in st.session_state:
    view = views().create()
    st.session_state.view = view.id
    layers, count = int(query.get("layers", 18)), int(query.get("tokens", 32))
    rate = float(query.get("rate", 0))
    if rate:
        run = harness.empty_run(layers, harness.settings(count))
        view.show(run, "loading")
        harness.play(view, run, rate)
    elif query.get("sides"):
        sides, sizes = (
            tuple(map(int, query.get(k, "").split(",") if query.get(k) else ())) for k in ("sides", "sizes")
        )
        run = harness.pictured(sides, query.get("fold", "all"), not query.get("lost"), sizes)
        view.show(run, "done")
    else:
        kinds = {"replays": harness.replayed, "lost": harness.overflowed, "answers": harness.answered}
        make = kinds.get(query.get("kind", ""), harness.whole)
        view.show(make(layers, count), "done")

if query.get("fields"):
    metrics = tuple(query["fields"].split(","))
    state = st.session_state

    def hear(event: FieldsEvent) -> None:
        state.metrics = event.metrics
        state.cell = event.picked or state.get("cell")

    picked = state.get("cell")
    fields(
        state.view,
        variant=int(query.get("variant", 0)),
        selected=None if picked is None else (picked.step, picked.layer),
        metrics=metrics,
        told=hear,
    )
    st.text(f"cell {picked} metrics {state.get('metrics', metrics)}")
    st.stop()

state = st.session_state
state.setdefault("focus", Focus())


def follow(did: Did) -> None:
    state.focus, state.heard, state.to_layers = did.focus, max(state.get("heard", 0), did.count), did.layers


components.live(
    state.view, focus=state.focus, heard=state.get("heard", 0), note=query.get("note", ""), did=follow
)
focus = state.focus
st.text(f"looks at step {focus.step}, layer {focus.layer}, variant {focus.variant}, {focus.metric}")
st.text(f"layers {state.get('to_layers', False)}")


def another(same: bool) -> None:
    """Another run: other words, other numbers, fewer variants; in the same view or in one of its own."""
    run = harness.whole(5, int(query.get("next", 9)), ("floored",), seed=12)
    view = views().get(state.view) if same else views().create()
    view.show(run, "done")
    state.view, state.focus = view.id, Focus()


st.button("Another run", on_click=another, args=(False,))
st.button("Another run in this view", on_click=another, args=(True,))

if query.get("figure"):
    run = views().get(st.session_state.view).run
    card = {"heatmap": lambda: heatmap(run, 0), "lines": lambda: tvd_lines(run)}[query["figure"]]()
    clicked = components.figure(card, key="figure")
    if clicked is not None:
        st.session_state.clicked = clicked
    st.text(f"clicked {st.session_state.get('clicked')}")
