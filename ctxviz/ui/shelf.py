"""The models kept loaded, shared by everyone; used by the worker's thread only."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ctxviz.errors import MemoryRefusedError

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel
    from ctxviz.models.progress import Progress

KEPT: Final = 2
"""How many models stay loaded once nobody uses them."""

Loader = Callable[[str, Sequence[str], "Progress"], "LoadedModel"]


def load(reference: str, dtypes: Sequence[str], progress: Progress) -> LoadedModel:
    """Load a model, importing torch and transformers first if nothing has yet."""
    progress("starting torch", None)
    warm()
    from ctxviz.models import load_model

    return load_model(reference, dtypes=dtypes, progress=progress)


def warm() -> None:
    """Import what a run needs, and spare later collections the walk over it."""
    import_module("ctxviz.engine")
    import_module("ctxviz.models.loading")
    gc.freeze()


class Shelf:
    """Loaded models by reference, the least recently used one first."""

    def __init__(self, load: Loader = load, warm: Callable[[], Any] = warm) -> None:
        self._load = load
        self.warm = warm
        self._models: OrderedDict[str, LoadedModel] = OrderedDict()

    def has(self, reference: str) -> bool:
        return reference in self._models

    def dtypes(self, reference: str) -> tuple[str, ...]:
        """The dtypes in which a model is loaded; may be called from any thread."""
        model = self._models.get(reference)
        return () if model is None else tuple(model.dtypes)

    def fetch(
        self, reference: str, dtypes: Sequence[str], progress: Progress, needed: Set[str]
    ) -> LoadedModel:
        """A model with these dtypes ready; others that are not ``needed`` are given up for room.

        Raises:
            CtxvizError: the model cannot be loaded.
        """
        model = self._models.get(reference)
        if model is None:
            self._make_room(needed, KEPT - 1)
            model = self._with_room(lambda: self._load(reference, dtypes, progress), needed)
            self._models[reference] = model
        self._models.move_to_end(reference)
        for dtype in dtypes:
            self._with_room(lambda name=dtype: model.in_dtype(name, progress), needed | {reference})
        # Everything loaded so far lives long: later collections need not walk it.
        gc.collect()
        gc.freeze()
        return model

    def clear(self) -> None:
        self._make_room(frozenset(), 0)

    def _with_room(self, call: Callable[[], Any], needed: Set[str]) -> Any:
        try:
            return call()
        except MemoryRefusedError:
            if not self._make_room(needed, 0):
                raise
        return call()

    def _make_room(self, needed: Set[str], limit: int) -> bool:
        """Close unused models, oldest first, until at most ``limit`` are left; whether any was closed."""
        idle = [r for r in self._models if r not in needed]
        doomed = idle[: max(0, len(self._models) - limit)]
        for reference in doomed:
            self._models.pop(reference).close()
        if doomed:
            gc.unfreeze()
            gc.collect()
        return bool(doomed)
