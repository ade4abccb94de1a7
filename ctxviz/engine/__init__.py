"""From a prompt to a stream of steps: context pass, patched pass, replays, references."""

from ctxviz.engine.blind import MOST_WITHOUT, without_context, without_pictures
from ctxviz.engine.occlusion import covered, occlude
from ctxviz.engine.prompt import prepare, tokenise
from ctxviz.engine.reading import Reading
from ctxviz.engine.rebuild import Rebuilt, check_model, rebuild
from ctxviz.engine.streaming import Stream, stream
from ctxviz.engine.swap import swap

__all__ = [
    "MOST_WITHOUT",
    "Reading",
    "Rebuilt",
    "Stream",
    "check_model",
    "covered",
    "occlude",
    "prepare",
    "rebuild",
    "stream",
    "swap",
    "tokenise",
    "without_context",
    "without_pictures",
]
