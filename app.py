"""The server: ``streamlit run app.py``."""

import streamlit as st

from ctxviz.ui import probes, watching
from ctxviz.ui.routes import middleware, routes
from ctxviz.ui.serving import lifespan

app = st.App(
    "ctxviz/ui/main.py",
    routes=[*routes(), *watching.routes(), *probes.routes()],
    middleware=middleware(),
    lifespan=lifespan,
)
