"""What a reader is told when something went wrong, and what the terminal is told."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Final

from ctxviz.errors import CtxvizError, is_out_of_memory

OUT_OF_MEMORY: Final = (
    "Memory ran out; the tokens made so far are kept. "
    "Choose fewer precisions, a shorter prompt or a smaller model, and generate again."
)


def explain(error: BaseException) -> str:
    """One sentence. What is not a :class:`CtxvizError` is a bug and goes to stderr with its traceback."""
    if isinstance(error, CtxvizError):
        return str(error)
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    traceback.print_exception(error, file=sys.stderr)
    return (
        f"This is a bug of ctxviz ({type(error).__name__}), not a fault in what you asked for; the terminal "
        "shows the details to report, what was made so far is kept, and you can go on."
    )


def guarded(call: Callable[[], object]) -> None:
    """Call, and send any exception to stderr."""
    try:
        call()
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
