"""A sweep's specification: a TOML file that is data only, checked key by key."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ctxviz.errors import SettingsError
from ctxviz.opening import NotRegularError, open_regular
from ctxviz.settings import RunSettings
from ctxviz.sweep import values
from ctxviz.sweep.prompts import Prompt, read_prompts

SPEC_BYTES: Final = 2**20
CELLS: Final = 10_000
ALL_LAYERS: Final = "all"
HERE: Final = Path()
KEYS: Final = (
    "model",
    "prompts",
    "pictures",
    "updates",
    "dtypes",
    "arithmetics",
    "floors",
    "first_layers",
    "fold",
    "max_new_tokens",
    "replays",
    "hold",
    "budget",
    "vectors",
    "device",
    "threads",
    "output",
)


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """What is run: the product prompts x first layers x floors.

    ``settings`` is what all cells share; its own floor and first layer are not used. ``first_layers`` is None
    for every layer of the model. ``output`` is a folder beside the file, None for one named after it.
    """

    model: str
    prompts: tuple[Prompt, ...]
    settings: RunSettings = field(default_factory=lambda: RunSettings(vector_budget=0))
    floors: tuple[float, ...] = (RunSettings().floor,)
    first_layers: tuple[int, ...] | None = (0,)
    device: str = "auto"
    threads: int | None = None
    output: str | None = None


def read_spec(path: Path) -> SweepSpec:
    """Read a specification; the files of its pictures are named from its own folder.

    Raises:
        SettingsError: the file cannot be read, is larger than 1 MiB or no TOML; or a key is unknown, or has a
            value without meaning; or a picture cannot be read.
    """
    shown = values.place(path)
    try:
        with open_regular(path) as file:
            data = file.read(SPEC_BYTES + 1)
    except (IsADirectoryError, NotRegularError):
        raise SettingsError(f"The sweep {shown} is not a regular file; name a .toml file.") from None
    except FileNotFoundError:
        raise SettingsError(f"There is no sweep file {shown}; check its path.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"The sweep {shown} cannot be read ({reason}); name another file.") from None
    return parse_spec(data, path.parent)


def parse_spec(data: bytes, folder: Path = HERE) -> SweepSpec:
    """A specification from the bytes of a TOML file in ``folder``; raises as :func:`read_spec`."""
    if len(data) > SPEC_BYTES:
        raise SettingsError(f"The sweep is larger than {SPEC_BYTES // 2**20} MiB; make it smaller.")
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise SettingsError("The sweep is not UTF-8 text; save it as UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"The sweep is not valid TOML ({_reason(error)}); correct it.") from None
    return spec_of(table, folder)


def spec_of(table: dict[str, Any], folder: Path = HERE) -> SweepSpec:
    """A specification from plain values, as TOML gives them; raises as :func:`read_spec`."""
    for key in table:
        if key not in KEYS:
            raise SettingsError(
                f"The sweep has an unknown key {values.shown(key)}; use only {', '.join(KEYS)}."
            )
    settings = values.shared_settings(table)
    spec = SweepSpec(
        model=values.text(table, "model"),
        prompts=read_prompts(table, folder),
        settings=settings,
        floors=_floors(table, settings),
        first_layers=_first_layers(table),
        device=values.text(table, "device", "auto"),
        threads=values.threads(table),
        output=values.folder(table),
    )
    layers = 1 if spec.first_layers is None else len(spec.first_layers)
    check_size(len(spec.prompts) * layers * len(spec.floors))
    return spec


def check_size(cells: int) -> None:
    """Raise a SettingsError where there are too many cells."""
    if cells > CELLS:
        raise SettingsError(
            f"The sweep has {cells} cells (prompts x first_layers x floors); at most {CELLS} are allowed."
        )


def _floors(table: dict[str, Any], settings: RunSettings) -> tuple[float, ...]:
    if "floors" not in table:
        return (settings.floor,)
    given = values.listed(table, "floors", float, "a list of numbers above 0 and at most 1", None)
    for floor in given:
        values.settings_with("floors", floor=floor)
    if "floored" not in settings.updates:
        raise SettingsError(
            "The sweep's floors matter to the floored rule only; add floored to updates, or leave floors out."
        )
    if len({f"{floor:g}" for floor in given}) < len(given):
        raise SettingsError(
            "The sweep's floors hold numbers that look the same in names and tables; keep one of them."
        )
    return given


def _first_layers(table: dict[str, Any]) -> tuple[int, ...] | None:
    if table.get("first_layers") == ALL_LAYERS:
        return None
    allowed = f'a list of whole numbers from 0 on, or "{ALL_LAYERS}"'
    layers = values.listed(table, "first_layers", int, allowed, (0,))
    for layer in layers:
        values.settings_with("first_layers", first_layer=layer)
    return layers


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).rstrip(".")[:200]
