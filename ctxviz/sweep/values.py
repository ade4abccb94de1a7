"""The values of a specification, one kind at a time; every refusal names its key and what is allowed."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, TypeVar

from ctxviz.errors import SettingsError
from ctxviz.folds import Fold
from ctxviz.settings import ARITHMETICS, DTYPES, REPLAYS, UPDATE_RULES, RunSettings

MAX_THREADS: Final = 1024
TEXT: Final = 4096
"""Characters of a text that is no prompt."""
_CHOICES: Final = {"updates": UPDATE_RULES, "dtypes": DTYPES, "arithmetics": ARITHMETICS, "replays": REPLAYS}
T = TypeVar("T", str, int, float)


def shown(value: object) -> str:
    """A value as a person wrote it, short, in one line."""
    written = repr(value) if not isinstance(value, bool) else str(value).lower()
    return written if len(written) <= 60 else written[:59] + "…"


def place(path: Path) -> str:
    """A path in quotes; of a very long one the end."""
    whole = str(path)
    return repr(whole if len(whole) <= 200 else "…" + whole[-199:])


def refused(key: str, value: object, allowed: str) -> SettingsError:
    """The error for a value of the wrong kind."""
    return SettingsError(f"The sweep's {key} is {shown(value)}; it must be {allowed}.")


def text(table: dict[str, Any], key: str, default: str | None = None) -> str:
    """A text that is not blank; required where there is no default."""
    value = table.get(key, default)
    if value is None:
        raise SettingsError(f"The sweep names no {key}; add {key} = a text.")
    if not isinstance(value, str) or not value.strip() or len(value) > TEXT or "\0" in value:
        raise refused(key, value, f"a text of at most {TEXT} characters")
    return value


def listed(
    table: dict[str, Any], key: str, kind: type[T], allowed: str, default: tuple[T, ...] | None
) -> tuple[T, ...]:
    """A list without repetitions of one kind; whole numbers do for floats; required without a default."""
    if key not in table:
        if default is None:
            raise SettingsError(f"The sweep names no {key}; add {key} = {allowed}.")
        return default
    value = table[key]
    kinds = (int, float) if kind is float else (kind,)
    if not isinstance(value, list) or not value:
        raise refused(key, value, f"{allowed} (not an empty one; leave it out for the default)")
    for item in value:
        if type(item) not in kinds:
            raise SettingsError(f"The sweep's {key} holds {shown(item)}; it must be {allowed}.")
    try:
        items = tuple(kind(item) for item in value)
    except OverflowError:
        raise refused(key, value, allowed) from None
    for n, item in enumerate(items):
        if item in items[:n]:
            raise SettingsError(
                f"The sweep's {key} holds {shown(item)} twice; it must be {allowed}, each once."
            )
    return items


def whole(table: dict[str, Any], key: str, default: int | None, least: int, most: int) -> int | None:
    """A whole number from ``least`` to ``most``."""
    if key not in table:
        return default
    value = table[key]
    if type(value) is not int or not least <= value <= most:
        raise refused(key, value, f"a whole number from {least} to {most}")
    return value


def flag(table: dict[str, Any], key: str) -> bool:
    """``true`` or ``false``, which is the default."""
    value = table.get(key, False)
    if type(value) is not bool:
        raise refused(key, value, "true or false")
    return value


def threads(table: dict[str, Any]) -> int | None:
    """The number of CPU threads, None where torch decides."""
    return whole(table, "threads", None, 1, MAX_THREADS)


def folder(table: dict[str, Any]) -> str | None:
    """A folder below that of the specification: one that came from elsewhere writes nowhere else."""
    if "output" not in table:
        return None
    value = text(table, "output")
    for path in (PurePosixPath(value), PureWindowsPath(value)):
        if path.is_absolute() or path.drive or path.root or ".." in path.parts:
            raise refused(
                "output", value, "a folder below that of the sweep's file (use --out for any other place)"
            )
    return value


def settings_with(key: str, **values: Any) -> RunSettings:
    """Settings with these values, which come from one key of the specification.

    Raises:
        SettingsError: they have no meaning; the key is named.
    """
    try:
        return RunSettings(**values)
    except SettingsError as error:
        sentence = str(error)
        raise SettingsError(f"In the sweep's {key}: {sentence[0].lower()}{sentence[1:]}") from None


def shared_settings(table: dict[str, Any]) -> RunSettings:
    """What all cells have in common."""
    default = RunSettings()
    chosen: dict[str, Any] = {}
    for key, known in _CHOICES.items():
        allowed = f"a list of any of {', '.join(known)}"
        chosen[key] = listed(table, key, str, allowed, getattr(default, key))
        settings_with(key, **{key: chosen[key]})
    most = 2**31 - 1
    tokens = whole(table, "max_new_tokens", default.max_new_tokens, 1, most) or default.max_new_tokens
    # A token that is never made cannot be held.
    chosen |= {"max_new_tokens": tokens, "hold": whole(table, "hold", None, 0, tokens - 1)}
    chosen |= {"budget": flag(table, "budget"), "fold": _fold(table)}
    chosen["vector_budget"] = default.vector_budget if flag(table, "vectors") else 0
    return RunSettings(**chosen)


def _fold(table: dict[str, Any]) -> Fold:
    try:
        return Fold.parse(text(table, "fold", "all"))
    except SettingsError as error:
        sentence = str(error)
        raise SettingsError(f"In the sweep's fold: {sentence[0].lower()}{sentence[1:]}") from None
