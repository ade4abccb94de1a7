"""What was found otherwise than the records say, and numbers in words by a function of our own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

import numpy as np

ROUNDED: Final = 0.002
"""What a browser is sent of a number may be off by this much, relative to it."""
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass
class Findings:
    """Where the page says something else than the records."""

    told: list[str] = field(default_factory=list)

    def same(self, what: str, page: object, records: object) -> None:
        if page != records:
            self.told.append(f"{what}: the page says {_short(page)}; the records say {_short(records)}")

    def says(self, what: str, page: str, *parts: str | float) -> None:
        """The text holds these words and numbers in this order, whatever stands between."""
        pattern = ".*?".join(re.escape(p) if isinstance(p, str) else written(p) for p in parts)
        if not re.search(pattern, page, re.DOTALL):
            wanted = " … ".join(p if isinstance(p, str) else number(p) for p in parts)
            self.told.append(f"{what}: the page says {_short(page)}; the records say {_short(wanted)}")

    def holds(self, what: str, true: bool, words: str) -> None:
        if not true:
            self.told.append(f"{what}: {words}")


def _short(value: object) -> str:
    words = value if isinstance(value, str) else repr(value)
    return f"“{words}”" if len(words) <= 300 else f"“{words[:300]} …”"


def number(x: float) -> str:
    """A number of two digits in words, written independently of the program's own."""
    if np.isnan(x):
        return "not measured"
    if np.isinf(x):
        return "no number"
    if x == 0:
        return "0"
    exact = Decimal(abs(float(x)))
    sign = "−" if x < 0 else ""
    if Decimal("99.5") <= exact < Decimal("9999.5"):
        return sign + str(exact.quantize(Decimal(1), ROUND_HALF_UP))
    power = exact.adjusted()
    digits = exact.scaleb(-power).quantize(Decimal("0.1"), ROUND_HALF_UP)
    plain = Decimal("0.001") <= exact < Decimal("9999.5")
    if digits == 10:
        digits, power = Decimal("1.0"), power + 1
    if plain:
        return sign + _plain(digits.scaleb(power))
    return f"{sign}{_plain(digits)}·10{str(power).translate(_RAISED)}"


def _plain(x: Decimal) -> str:
    text = f"{x:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def written(x: float) -> str:
    """A pattern of the ways in which a number may be written after what rounding allows."""
    if not np.isfinite(x):
        return re.escape(number(x))
    ways = {number(x * (1 + off)) for off in (-ROUNDED, -ROUNDED / 4, 0, ROUNDED / 4, ROUNDED)}
    return "(?:" + "|".join(map(re.escape, sorted(ways))) + r")(?!\d|\.\d|·|[⁰¹²³⁴⁵⁶⁷⁸⁹])"


def exactly(x: float) -> str:
    """A float32 in as many digits as tell it from every other one."""
    if not np.isfinite(x) or x == 0:
        return number(x)
    digits, _, power = np.format_float_scientific(np.float32(abs(x)), unique=True, trim="-").partition("e")
    sign = "−" if x < 0 else ""
    if 1e-3 <= abs(x) < 1e6:
        return sign + np.format_float_positional(np.float32(abs(x)), unique=True, trim="-")
    return f"{sign}{digits}·10{str(int(power)).translate(_RAISED)}"
