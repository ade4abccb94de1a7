"""The cells of a sweep: one run each, told apart by a digest of what decides it."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Final

from ctxviz.errors import SettingsError
from ctxviz.presets import PRESETS
from ctxviz.settings import RunSettings
from ctxviz.sweep.prompts import Prompt
from ctxviz.sweep.spec import SweepSpec, check_size

SUFFIX: Final = ".ctxviz"
DIGITS: Final = 8
"""Of the digest, in a cell's file name."""
WORDS: Final = 24
"""Characters of the prompt, in a cell's file name."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a sweep; ``number`` counts from 1, ``model`` is the key that names it in records."""

    number: int
    title: str
    """The preset's title, or the prompt's number in the sweep."""
    model: str
    prompt: Prompt
    settings: RunSettings

    @property
    def digest(self) -> str:
        """SHA-256 of model, prompt, its pictures and settings, whatever the other cells are."""
        settings = asdict(self.settings) | {"fold": str(self.settings.fold)}
        decides: dict[str, object] = {"model": self.model, "prompt": self.prompt.text, "settings": settings}
        if self.prompt.pictures:
            decides["pictures"] = self.prompt.hashes
        text = json.dumps(decides, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    @property
    def stem(self) -> str:
        """The name of its file, less the suffix."""
        titled = self.title if not self.title.isdecimal() else self.prompt.text
        parts = [f"{self.number:03d}", _words(titled)]
        if self.settings.first_layer:
            parts.append(f"from{self.settings.first_layer}")
        if "floored" in self.settings.updates:
            parts.append(f"floor{self.settings.floor:g}")
        return "-".join((*parts, self.digest[:DIGITS]))

    @property
    def file_name(self) -> str:
        return self.stem + SUFFIX


def cells_of(spec: SweepSpec, model: str, n_layers: int | None = None) -> tuple[Cell, ...]:
    """The cells, by prompt, then first layer, then floor.

    Only the floored rule reads the floor, so the other rules are run with the first floor alone.

    Args:
        spec: what is asked for.
        model: the model's key.
        n_layers: of the model; needed where the specification asks for all first layers.

    Raises:
        SettingsError: there are too many, or a first layer lies outside the model.
    """
    first_layers = spec.first_layers
    if first_layers is None:
        if n_layers is None:
            raise ValueError("all first layers are asked for and the number of layers is not given")
        first_layers = tuple(range(n_layers))
    if n_layers is not None and max(first_layers) >= n_layers:
        raise SettingsError(
            f"The sweep's first_layers hold {max(first_layers)}; they must be from 0 to {n_layers - 1}, "
            "the layers of the model."
        )
    check_size(len(spec.prompts) * len(first_layers) * len(spec.floors))
    titles = {preset.prompt: preset.title for preset in PRESETS}
    found = product(enumerate(spec.prompts, 1), first_layers, enumerate(spec.floors))
    return tuple(
        Cell(
            number,
            titles.get(prompt.text, str(n)),
            model,
            prompt,
            replace(
                spec.settings,
                updates=("floored",) if k else spec.settings.updates,
                first_layer=first_layer,
                floor=floor,
            ),
        )
        for number, ((n, prompt), first_layer, (k, floor)) in enumerate(found, 1)
    )


def _words(text: str) -> str:
    """The beginning of a text in letters that every file system takes."""
    plain = unicodedata.normalize("NFKD", text[: 8 * WORDS]).encode("ascii", "ignore").decode("ascii").lower()
    words = "-".join(re.findall(r"[a-z0-9]+", plain))
    return words[:WORDS].strip("-") or "prompt"
