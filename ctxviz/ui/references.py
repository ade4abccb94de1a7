"""Which model is asked about a run that is there: its own, where the catalogue has it."""

from __future__ import annotations

from ctxviz.figures.text import readable
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.run import Run
from ctxviz.ui import controls
from ctxviz.ui.tab_pictures import MODEL_SHOWN


def reference_of(run: Run) -> str:
    """The model to ask: the one that made the run where its name tells it, else the one that is chosen."""
    return run.model.key if run.model.key in CATALOGUE else controls.chosen_model()


def reference_words(run: Run) -> str:
    """That model inside a sentence."""
    reference = reference_of(run)
    name = f"“{readable(reference, MODEL_SHOWN)}”" if reference else "no model"
    return f"{name}, {'which made it' if run.model.key in CATALOGUE else 'the model chosen on the Live page'}"
