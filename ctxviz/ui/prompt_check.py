"""What can be told about a prompt before any model reads it."""

from __future__ import annotations

from typing import Final

from ctxviz.errors import PromptError

MAX_PROMPT: Final = 20_000
"""Characters; more than any window of the models offered here is used for."""


def check_prompt(prompt: str) -> None:
    """What can be told about a prompt without a model.

    Raises:
        PromptError: it is empty, far too long, or not valid text.
    """
    if not prompt.strip():
        raise PromptError("The prompt is empty; type a few words or choose one of the examples.")
    if len(prompt) > MAX_PROMPT:
        raise PromptError(f"The prompt has {len(prompt)} characters; shorten it to at most {MAX_PROMPT}.")
    if "\0" in prompt or any("\ud800" <= c <= "\udfff" for c in prompt):
        raise PromptError("The prompt holds a NUL or half of a character; remove it and try again.")
