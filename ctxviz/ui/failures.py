"""What a reader is told when something went wrong, and what the terminal is told."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Final

from ctxviz.errors import CtxvizError

OUT_OF_MEMORY: Final = (
    "Memory ran out; the tokens made so far are kept. "
    "Choose fewer precisions, a shorter prompt or a smaller model, and generate again."
)


def explain(error: BaseException) -> str:
    """One sentence. What is not a :class:`CtxvizError` is a bug and goes to stderr with its traceback."""
    if isinstance(error, CtxvizError):
        return str(error)
    if _is_out_of_memory(error):
        return OUT_OF_MEMORY
    traceback.print_exception(error, file=sys.stderr)
    return (
        f"This is a bug of ctxviz ({type(error).__name__}), not a fault in what you asked for; the terminal "
        "shows the details to report, what was made so far is kept, and you can go on."
    )


def _is_out_of_memory(error: BaseException) -> bool:
    # torch's own class is told by its name, since torch may not be imported here.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def guarded(call: Callable[[], object]) -> None:
    """Call, and send any exception to stderr."""
    try:
        call()
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
