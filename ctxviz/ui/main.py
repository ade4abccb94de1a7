"""The main script: what every page shares, and the navigation between them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st

SIDEBAR_PIXELS: Final = 290
_ROOT: Final = Path(__file__).parents[2]
_ICON: Final = str(Path(__file__).parent / "icon.svg")
_STYLE: Final = Path(__file__).parent / "page.css"

st.set_page_config(page_title="ctxviz", page_icon=_ICON, layout="wide", initial_sidebar_state=SIDEBAR_PIXELS)
st.html(_STYLE)

pages = [
    st.Page(_ROOT / "pages" / "live.py", title="Live", default=True),
    st.Page(_ROOT / "pages" / "layers.py", title="Layers"),
    st.Page(_ROOT / "pages" / "replay.py", title="Replay"),
    st.Page(_ROOT / "pages" / "pictures.py", title="Pictures"),
    st.Page(_ROOT / "pages" / "compare.py", title="Compare"),
]
page = st.navigation(pages, position="hidden")

with st.sidebar:
    with st.container(key="brand"):
        st.text("ctxviz")
        st.text("what a context does, as weights")
    with st.container(key="pages"):
        for entry in pages:
            st.page_link(entry)

page.run()
