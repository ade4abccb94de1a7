"""A page with nothing but one component on a synthetic run, and what was clicked."""

import harness
import streamlit as st

from ctxviz.figures.heatmap import heatmap
from ctxviz.figures.lines import tvd_lines
from ctxviz.ui import components
from ctxviz.ui.fields import fields
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
        make = harness.replayed if query.get("replays") else harness.whole
        view.show(make(layers, count), "done")

if query.get("fields"):
    metrics = tuple(query["fields"].split(","))
    picked = st.session_state.get("cell")
    told = fields(
        st.session_state.view,
        variant=int(query.get("variant", 0)),
        selected=None if picked is None else (picked.step, picked.layer),
        metrics=metrics,
    )
    if told.picked is not None:
        st.session_state.cell = told.picked
        st.rerun()
    st.text(f"cell {picked} metrics {told.metrics}")
    st.stop()

event = components.live(st.session_state.view, focus=components.Focus(step=3, layer=4))
if event.picked is not None:
    st.session_state.picked = event.picked
st.text(f"picked {st.session_state.get('picked')} field {event.metric} {event.variant}")

if query.get("figure"):
    run = views().get(st.session_state.view).run
    card = {"heatmap": lambda: heatmap(run, 0), "lines": lambda: tvd_lines(run)}[query["figure"]]()
    clicked = components.figure(card, key="figure", name="ctxviz-synthetic")
    if clicked is not None:
        st.session_state.clicked = clicked
    st.text(f"clicked {st.session_state.get('clicked')}")
