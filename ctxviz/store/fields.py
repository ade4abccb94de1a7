"""Reading JSON that may hold anything: every value is checked for its type and range as it is taken out."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from ctxviz.store.limits import PIECE, broken

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """Text with U+FFFD for lone surrogates, which UTF-8 cannot hold."""
    return _SURROGATES.sub("\ufffd", text)


def parse(data: bytes) -> Fields:
    """The object in ``data``: strict UTF-8 JSON without repeated keys, NaN or Infinity.

    Raises:
        BundleError: it is anything else.
    """
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except UnicodeDecodeError:
        raise broken("its run.json is not UTF-8 text") from None
    except RecursionError:
        raise broken("its run.json is nested too deeply") from None
    except ValueError:
        raise broken("its run.json is not valid JSON") from None
    return Fields(value, "run.json")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise broken("its run.json repeats a key")
    return found


def _no_constant(name: str) -> float:
    raise broken(f"its run.json holds {name}, which is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise broken("its run.json holds a number that is too large")
    return value


class Fields:
    """One JSON object; each method takes out a field of one kind or raises BundleError."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise broken(f"{where} is not an object")
        self._values: dict[str, Any] = value
        self._where = where

    def _wrong(self, name: str, what: str) -> Exception:
        return broken(f"{name} of {self._where} is not {what}")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> Any:
        if name not in self._values:
            raise broken(f"{self._where} has no {name}")
        return self._values[name]

    def text(self, name: str, limit: int = PIECE) -> str:
        value = self.get(name)
        if not isinstance(value, str) or len(value) > limit:
            raise self._wrong(name, f"text of at most {limit} characters")
        return encodable(value)

    def text_or_none(self, name: str) -> str | None:
        return None if self.get(name) is None else self.text(name)

    def integer(self, name: str, low: int, high: int) -> int:
        value = self.get(name)
        if type(value) is not int or not low <= value <= high:
            raise self._wrong(name, f"a whole number from {low} to {high}")
        return value

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if type(value) is not bool:
            raise self._wrong(name, "true or false")
        return value

    def number(self, name: str) -> float:
        """A float; null is NaN."""
        value = self.get(name)
        return math.nan if value is None else self._float(value, name)

    def finite(self, name: str) -> float:
        return self._float(self.get(name), name)

    def duration(self, name: str) -> float:
        """Seconds, or another float that is never below 0; null is NaN."""
        value = self.number(name)
        if value < 0:
            raise self._wrong(name, "a number of at least 0")
        return value

    def numbers(self, name: str) -> list[float]:
        """Floats; null is NaN."""
        return [math.nan if v is None else self._float(v, name) for v in self._list(name)]

    def integers(self, name: str) -> tuple[int, ...]:
        """Whole numbers from 0 that fit 32 bits."""
        values = self._list(name)
        if not all(type(value) is int and 0 <= value < 2**31 for value in values):
            raise self._wrong(name, "a list of whole numbers from 0")
        return tuple(values)

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        if not all(isinstance(value, str) and len(value) <= PIECE for value in values):
            raise self._wrong(name, "a list of short texts")
        return tuple(map(encodable, values))

    def child(self, name: str) -> Fields:
        return Fields(self.get(name), f"{name} of {self._where}")

    def children(self, name: str) -> list[Fields]:
        return [Fields(value, f"an entry of {name}") for value in self._list(name)]

    def _float(self, value: Any, name: str) -> float:
        if type(value) not in (int, float) or abs(value) > 1e308:
            raise self._wrong(name, "a number")
        return float(value)

    def _list(self, name: str) -> list[Any]:
        value = self.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return value
