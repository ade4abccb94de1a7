"""The main script: what every page shares, and the navigation between them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st

from ctxviz.ui import page_title, tab

SIDEBAR_PIXELS: Final = 230
_ROOT: Final = Path(__file__).parents[2]
_ICON: Final = str(Path(__file__).parent / "icon.svg")
_STYLES: Final = [Path(__file__).parent / name for name in ("page.css", "sidebar.css")]

st.set_page_config(page_icon=_ICON, layout="wide", initial_sidebar_state=SIDEBAR_PIXELS)
for style in _STYLES:
    st.html(style)

pages = [
    st.Page(_ROOT / "pages" / "live.py", title="Live", default=True),
    st.Page(_ROOT / "pages" / "layers.py", title="Layers"),
    st.Page(_ROOT / "pages" / "replay.py", title="Replay"),
    st.Page(_ROOT / "pages" / "pictures.py", title="Pictures"),
    st.Page(_ROOT / "pages" / "compare.py", title="Compare"),
]
page = st.navigation(pages, position="hidden")
st.session_state.page = page.title

with st.sidebar:
    with st.container(key="brand", horizontal=True):
        st.text("ctxviz")
        st.text("context as weights")
    with st.container(key="pages", horizontal=True):
        for entry in pages:
            st.page_link(entry)

if not tab.greet():
    st.stop()
if (elsewhere := st.session_state.pop("go_to", None)) is not None:
    st.switch_page(_ROOT / elsewhere)
page.run()
st.set_page_config(page_title=page_title.of(page.title))
