"""From a prompt to a stream of steps: context pass, patched pass, references."""

from ctxviz.engine.prompt import prepare, tokenise
from ctxviz.engine.streaming import Stream, stream

__all__ = ["Stream", "prepare", "stream", "tokenise"]
