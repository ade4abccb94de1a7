"""From a prompt to a stream of steps: context pass, patched pass, replays, references."""

from ctxviz.engine.prompt import prepare, tokenise
from ctxviz.engine.rebuild import Rebuilt, check_model, rebuild
from ctxviz.engine.streaming import Stream, stream

__all__ = ["Rebuilt", "Stream", "check_model", "prepare", "rebuild", "stream", "tokenise"]
