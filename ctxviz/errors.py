"""The errors people are shown. Every message is one sentence that says what is wrong and what to do.

Anything that is not a :class:`CtxvizError` is a bug of ctxviz and is reported as one.
"""

from __future__ import annotations


class CtxvizError(Exception):
    """Base of everything a person is told; ``str(error)`` is the sentence they read."""


class PromptError(CtxvizError):
    """The prompt cannot be used: empty, only special tokens, too long, or not valid text."""


class PictureError(CtxvizError):
    """A picture that cannot be read or used; the message says why and what to do."""


class SettingsError(CtxvizError):
    """A setting has no meaning: unknown rule, arithmetic or dtype, or a number outside its range."""


class ModelError(CtxvizError):
    """The model is unknown, broken, of an unsupported kind, or stored in an unsafe format."""


class ModelAccessError(ModelError):
    """The model exists elsewhere but cannot be fetched: no token, no licence, or no network."""


class MemoryRefusedError(CtxvizError):
    """Loading was refused beforehand because it would not fit in memory."""


class PrecisionError(CtxvizError):
    """The model overflows in the chosen dtype and has no next token; the steps made so far are kept."""


class OutOfMemoryError(CtxvizError):
    """Memory ran out in the middle of a run; the steps made so far are kept."""


class BundleError(CtxvizError):
    """A ``.ctxviz`` file is not one, is truncated, is too large, or has another schema version."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's own error, torch's (told by name), or its CPU allocator's words."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )


def reason(error: BaseException) -> str:
    """An exception's own words, without the paths of an OSError, on one short line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, KeyError):
        text = f"missing or unknown: {text}"
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    # A heading alone tells nothing.
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    first = first.encode("utf-8", "backslashreplace").decode("utf-8").rstrip(".:")
    return first if len(first) <= 200 else first[:199] + "…"
