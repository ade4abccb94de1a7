"""Text of a model, and numbers, made fit for people to read.

A token may be a space, half a character, a control code, or markup meant to be obeyed. :func:`readable` shows
it as it is; :func:`plain` also keeps plotly from reading it as HTML, entities or LaTeX.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from typing import Final

from ctxviz.no_number import NO_NUMBER, NOT_MEASURED

LONGEST_PIECE: Final = 24
"""Characters of a token that are shown before it is cut."""

_NAMED = {" ": "·", "\n": "⏎", "\t": "⇥"}
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Drawn as nothing although their category says letter, mark or symbol."""
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def readable(text: str, limit: int = LONGEST_PIECE) -> str:
    """A token's text with its whitespace and invisible characters made visible, at most ``limit`` characters.

    Spaces at either end become ``·``, line breaks ``⏎``, tabs ``⇥``; control, bidi and other invisible
    characters become ``⟨U+202E⟩``; right-to-left and wide text is isolated so that it cannot reorder its
    neighbours. The result is text: whoever puts it into HTML escapes it there.
    """
    if not text:
        return "⟨empty⟩"
    shown, length = [], 0
    for unit in _units(text, limit):
        if length + len(unit) > limit:
            shown.append("…")
            break
        shown.append(unit)
        length += len(unit)
    joined = "".join(shown)
    return f"\u2068{joined}\u2069" if any(map(_needs_isolation, joined)) else joined


def plain(text: str, limit: int = LONGEST_PIECE) -> str:
    """:func:`readable`, escaped so that plotly draws exactly these characters and obeys none of them."""
    return readable(text, limit).translate(_MARKUP)


def _units(text: str, limit: int) -> Iterator[str]:
    """What to show for each character of ``text``; no more than could fit is looked at."""
    inner_start = len(text) - len(text.lstrip(" "))
    inner_end = len(text.rstrip(" "))
    for i, char in enumerate(text[: limit + 1]):
        if char == " " and inner_start <= i < inner_end:
            yield char
        elif char in _NAMED:
            yield _NAMED[char]
        elif unicodedata.category(char) in _HIDDEN_CATEGORIES or char in _BLANK_LETTERS:
            yield f"⟨U+{ord(char):04X}⟩"
        elif i == 0 and unicodedata.category(char).startswith("M"):
            yield "◌" + char
        else:
            yield char


def _needs_isolation(char: str) -> bool:
    return unicodedata.bidirectional(char) in _RIGHT_TO_LEFT or unicodedata.east_asian_width(char) == "W"


def sci(x: float) -> str:
    """A number in words of two digits: ``3·10⁻⁸``, ``2.1·10⁴``, and plainly ``0.031`` or ``1234`` between.

    NaN is ``not measured``, what is infinite ``no number``.
    """
    if math.isnan(x):
        return NOT_MEASURED
    if math.isinf(x):
        return NO_NUMBER
    if x < 0:
        return "−" + sci(-x)
    if x == 0:
        return "0"
    if 1e-3 <= x < 9999.5:
        return f"{x:.0f}" if x >= 99.5 else f"{x:.2g}"
    digits, exponent = f"{x:.1e}".split("e")
    return f"{digits.removesuffix('.0')}·{power_of_ten(int(exponent))}"


def equals(symbol: str, x: float) -> str:
    """``|h| = 3·10⁻⁸``, ``|h| is no number``, ``|h| was not measured``: the start or the end of a clause."""
    verb = "=" if math.isfinite(x) else "was" if math.isnan(x) else "is"
    return f"{symbol} {verb} {sci(x)}"


def power_of_ten(exponent: int) -> str:
    """``10⁻⁸`` for -8."""
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def quoted(text: str) -> str:
    """A token inside a sentence: readable and in quotation marks."""
    return f"“{readable(text)}”"


def counted(n: int, noun: str) -> str:
    """``1 token``, ``3 tokens``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
