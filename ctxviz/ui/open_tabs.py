"""Which browser tabs are open: a reloaded tab has left its session behind, a duplicated one has not."""

from __future__ import annotations

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx


def own() -> str:
    """The name of the session whose script runs; empty outside of one."""
    context = get_script_run_ctx()
    return "" if context is None else context.session_id


def is_open(session: str) -> bool:
    """Whether a browser tab still holds that session."""
    return bool(session) and runtime.exists() and runtime.get_instance().is_active_session(session)
