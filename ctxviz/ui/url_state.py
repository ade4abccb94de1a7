"""Everything a link carries, as query parameters and back.

A link names settings only: it never starts a run, and holds nothing by which another reader's run could be
found. Values equal to the page's defaults are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final
from urllib.parse import quote

from ctxviz.errors import SettingsError
from ctxviz.figures.metrics import METRICS as FIELDS
from ctxviz.folds import Fold
from ctxviz.presets import PRESETS
from ctxviz.settings import ARITHMETICS, DTYPES, REPLAYS, UPDATE_RULES, RunSettings
from ctxviz.shapes.writing import read, write
from ctxviz.ui.delta import METRICS
from ctxviz.ui.picture_source import MOST_PICTURES, reads_pictures

PROMPT_IN_LINK: Final = 1500
"""Characters the prompt may take in an address, escapes counted."""
MAX_TOKENS: Final = 512
VECTOR_BYTES: Final = 48 * 2**20
"""Room for the coordinates of one run: its file then stays below the limit for opening files, and a server
holds the runs of several tabs."""
MAX_INDEX: Final = 100_000
DEFAULT_MODEL: Final = "gemma-3-270m"
VIEWS: Final = ("variants", "prompts", "layers", "rules", "pair", "sweep")
"""What the Compare page can show."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a link carries; from ``metric`` on it is what is looked at.

    ``scenes`` are the drawn pictures of the prompt, each as :func:`ctxviz.shapes.writing.write` has it.
    ``left`` and ``right`` are the metrics of the Layers page, ``coordinate`` the one that it follows
    everywhere, None for one that stands out there; ``view`` is what the Compare page shows.
    """

    prompt: str = PRESETS[0].prompt
    model: str = DEFAULT_MODEL
    scenes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ("direct", "floored")
    floor: float = 0.6
    arithmetics: tuple[str, ...] = ("written",)
    dtypes: tuple[str, ...] = ("float32",)
    first_layer: int = 0
    fold: Fold = field(default_factory=Fold)
    tokens: int = 32
    replays: tuple[str, ...] = ()
    hold: int | None = None
    budget: bool = False
    metric: str = "h_abs_min"
    variant: int = 0
    step: int | None = None
    layer: int | None = None
    left: str = "scale_ratio"
    right: str = "output_error"
    coordinate: int | None = None
    view: str = VIEWS[0]

    def settings(self) -> RunSettings:
        """The settings of a run.

        Raises:
            SettingsError: nothing is chosen somewhere.
        """
        return RunSettings(
            updates=self.updates,
            arithmetics=self.arithmetics,
            dtypes=self.dtypes,
            first_layer=self.first_layer,
            fold=self.fold,
            floor=self.floor,
            max_new_tokens=self.tokens,
            vector_budget=VECTOR_BYTES,
            replays=self.replays,
            hold=self.hold,
            budget=self.budget,
        )


def fits_in_link(prompt: str) -> bool:
    """Whether a prompt is short enough, and plain enough, to be part of an address."""
    try:
        return len(quote(prompt, safe="")) <= PROMPT_IN_LINK
    except UnicodeEncodeError:
        return False


def to_query(link: Link) -> dict[str, str]:
    """The query parameters of a link, defaults left out; a prompt too long for an address is left out too."""
    plain = Link()
    query = {
        _NAMES[f.name]: _write(getattr(link, f.name))
        for f in fields(Link)
        if getattr(link, f.name) != getattr(plain, f.name)
    }
    if not fits_in_link(link.prompt):
        query.pop(_NAMES["prompt"], None)
    return query


def from_query(query: Mapping[str, str]) -> tuple[Link, list[str]]:
    """A link, and what was ignored: a sentence for each setting, and one for all unknown names."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    unknown: list[str] = []
    known = {name: field for field, name in _NAMES.items()}
    for name, text in query.items():
        if name not in known:
            unknown.append(name)
            continue
        try:
            values[known[name]] = _READERS[known[name]](text)
        except (ValueError, SettingsError):
            problems.append(f"The link's {name} {text[:60]!r} cannot be used and was ignored.")
    if len(unknown) == 1:
        problems.append(f"The link's setting {unknown[0][:40]!r} is unknown and was ignored.")
    elif unknown:
        problems.append(
            f"{len(unknown)} settings of the link are unknown and were ignored, {unknown[0][:40]!r} for one."
        )
    return Link(**values), problems


def unseen_scenes(link: Link) -> str:
    """What to say where a link holds scenes and its model reads text only; empty where it does not."""
    if not link.scenes or not link.model or reads_pictures(link.model):
        return ""
    one = len(link.scenes) == 1
    what, they = ("scene is", "it is") if one else (f"{len(link.scenes)} scenes are", "they are")
    return (
        f"The link's {what} not used, since its model reads text only; {they} there once you choose one that "
        "reads pictures."
    )


def _write(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _several(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        chosen = set(text.split(",")) if text else set()
        if not chosen <= set(known):
            raise ValueError
        return tuple(value for value in known if value in chosen)

    return read


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise ValueError
        return int(text)

    return read


def _floor(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError
    return round(value, 2) or 0.01


def _one_of(known: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise ValueError
        return text

    return read


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError
    return text == "yes"


def _scenes(text: str) -> tuple[str, ...]:
    parts = text.split(",", MOST_PICTURES) if text else []
    if len(parts) > MOST_PICTURES:
        raise ValueError
    return tuple(write(read(part)) for part in parts)


def _text(limit: int) -> Callable[[str], str]:
    def read(text: str) -> str:
        if len(text) > limit:
            raise ValueError
        return text

    return read


_NAMES: Final = {
    "prompt": "prompt",
    "model": "model",
    "scenes": "scene",
    "updates": "update",
    "floor": "tau",
    "arithmetics": "arithmetic",
    "dtypes": "dtype",
    "first_layer": "first-layer",
    "fold": "fold",
    "tokens": "tokens",
    "replays": "replay",
    "hold": "hold",
    "budget": "budget",
    "metric": "metric",
    "variant": "variant",
    "step": "step",
    "layer": "layer",
    "left": "left",
    "right": "right",
    "coordinate": "coordinate",
    "view": "view",
}
_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "prompt": _text(PROMPT_IN_LINK),
    "model": _text(400),
    "scenes": _scenes,
    "updates": _several(UPDATE_RULES),
    "floor": _floor,
    "arithmetics": _several(ARITHMETICS),
    "dtypes": _several(DTYPES),
    "first_layer": _whole(0, MAX_INDEX),
    "fold": Fold.parse,
    "tokens": _whole(1, MAX_TOKENS),
    "replays": _several(REPLAYS),
    "hold": _whole(0, MAX_TOKENS - 1),
    "budget": _yes,
    "metric": _one_of(tuple(METRICS)),
    "variant": _whole(0, MAX_INDEX),
    "step": _whole(0, MAX_INDEX),
    "layer": _whole(0, MAX_INDEX),
    "left": _one_of(tuple(FIELDS)),
    "right": _one_of(tuple(FIELDS)),
    "coordinate": _whole(0, MAX_INDEX),
    "view": _one_of(VIEWS),
}
