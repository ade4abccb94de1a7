"""Which weights a sweep is about, told without loading them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxviz.errors import ModelError

if TYPE_CHECKING:
    from ctxviz.models import Progress


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's key, its weights' revision or digest, and its number of layers.

    A plain folder names no digest of its own, so its digest here is that of the weight files' and of the
    configuration's and tokenizer's digests.
    """

    key: str
    n_layers: int
    revision: str | None = None
    sha256: str | None = None


def identify(reference: str, progress: Progress) -> Weights:
    """Make a model ready and say which weights it has.

    Raises:
        ModelError, ModelAccessError: as :func:`ctxviz.load_model`.
    """
    from ctxviz.models import cache
    from ctxviz.models.folders import inspect
    from ctxviz.models.preparing import prepare
    from ctxviz.models.sources import reason, resolve, show

    source = resolve(reference)
    ready = prepare(source, progress)
    facts = inspect(ready.folder)
    digest = ready.sha256
    if source.kind == "folder":
        whole = hashlib.sha256()
        try:
            for file in (*facts.weights, ready.folder / "config.json", ready.folder / "tokenizer.json"):
                known = cache.memo().sha256(file, lambda done: progress("checking the weights", done))
                whole.update(f"{file.name} {known}\n".encode())
        except OSError as error:
            raise ModelError(
                f"The weights of {show(ready.title)} cannot be read ({reason(error)}); check the permissions."
            ) from None
        digest = whole.hexdigest()
    return Weights(ready.key, facts.shape.n_layers, ready.revision, digest)
