"""Tables of numbers some of which may be no number, which Streamlit would call Infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import streamlit as st

from ctxviz.figures.card import Table
from ctxviz.no_number import NO_NUMBER


def with_words(table: Table, config: Mapping[str, Any]) -> tuple[Table, dict[str, Any]]:
    """``table`` and its columns' ``config``, both with words in every column in which something is no number.

    Such a column is text, and sorted as text; the others stay numbers. Empty stays what was not measured.
    """
    lost = [name for name, values in table.items() if any(map(_is_lost, values))]
    told = {name: [_words(value) for value in table[name]] for name in lost}
    columns = {
        name: st.column_config.TextColumn(config[name]["label"], width=config[name]["width"])
        for name in lost
        if name in config
    }
    return table | told, {**config, **columns}


def _is_lost(value: object) -> bool:
    return isinstance(value, float) and math.isinf(value)


def _words(value: float | None) -> str | None:
    """Two digits, as the numbers beside it are written."""
    if value is None:
        return None
    return NO_NUMBER if math.isinf(value) else f"{value:.1e}"
