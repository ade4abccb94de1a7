"""A table says in words what is no number, and keeps numbers where there are only numbers."""

from __future__ import annotations

import math

import streamlit as st

from ctxviz.ui.number_columns import with_words

CONFIG = {
    name: st.column_config.NumberColumn(name.upper(), format="%.1e", width=70) for name in ("worst", "median")
}


def test_a_column_with_what_is_no_number_is_told_in_words() -> None:
    table = {"worst": [1234.5, math.inf, None], "median": [0.5, None, 2.0], "rule": ["a", "b", "c"]}
    told, config = with_words(table, CONFIG)
    assert told == table | {"worst": ["1.2e+03", "no number", None]}
    assert (config["worst"]["label"], config["worst"]["width"]) == ("WORST", 70)
    assert config["worst"]["type_config"]["type"] == "text"
    assert config["median"] == CONFIG["median"]


def test_a_table_of_numbers_stays_as_it_is() -> None:
    table = {"worst": [1.0, None], "median": [0.5, 2.0]}
    assert with_words(table, CONFIG) == (table, CONFIG)
