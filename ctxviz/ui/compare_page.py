"""The Compare page: the paper's figures from one's own runs, sweeps, and any two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st

from ctxviz.figures.card import Table, to_csv
from ctxviz.figures.lines import logit_gap_lines, tvd_lines
from ctxviz.figures.spread import match_rates, tvd_boxes
from ctxviz.figures.subject import file_name_of_many
from ctxviz.figures.sweeps import QUANTITIES, first_layer_field, first_layer_lines, rule_table
from ctxviz.figures.text import counted, readable
from ctxviz.run import Run
from ctxviz.settings import Variant
from ctxviz.ui import (
    choice,
    collection,
    compare_pair,
    components,
    link_unmade,
    messages,
    page,
    sweep_form,
)
from ctxviz.ui.number_columns import with_words
from ctxviz.ui.session import Session
from ctxviz.ui.sweeping import short_name
from ctxviz.ui.url_state import VIEWS

PROMPT_SHOWN: Final = 160
"""Characters of a run's prompt under its name."""
FAULTS_SHOWN: Final = 3
_TITLES: Final = {
    "variants": "One prompt, all variants",
    "prompts": "Several prompts",
    "layers": "First patched layer",
    "rules": "Rules in a table",
    "pair": "Two runs",
    "sweep": "Make a sweep",
}
_PAPER: Final = (
    "These views follow Figures 3, 4 and 11 to 13 of arXiv 2511.17864 (v3), which shows them for larger "
    "Gemma 3 models. The numbers behind the paper's figures were not at hand, so none of its curves is drawn "
    "here: everything on this page was measured by ctxviz."
)
_RULE_NUMBERS: Final = {
    "tvd_median": ("built", 66),
    "tvd_worst": ("built max", 78),
    "batch_median": ("two", 66),
    "batch_worst": ("two max", 76),
    "ulp_median": ("1 ulp", 66),
    "ulp_worst": ("1 ulp max", 86),
    "largest_change": ("max |Δm|", 84),
    "scale_ratio": ("‖Δm‖/‖m‖", 90),
}
_RULE_COLUMNS: Final = {
    "rule": st.column_config.TextColumn("rule", width=96),
    "dtype": st.column_config.TextColumn("dtype", width=74),
    "first_layer": st.column_config.NumberColumn("from layer", width=78),
    "match": st.column_config.NumberColumn("same", format="percent", width=56),
    **{
        name: st.column_config.NumberColumn(words, format="%.1e", width=width)
        for name, (words, width) in _RULE_NUMBERS.items()
    },
    "tokens": st.column_config.NumberColumn("tokens", width=60),
    "ties": st.column_config.NumberColumn("ties", width=44),
}
"""In the order shown. Without first layers all fit beside the sidebar of a 1280 pixel window, widths being in
pixels; what a rule is chosen by comes first."""


def draw() -> None:
    """One run of the page's script."""
    session = page.begin()
    with st.container(horizontal=True, key="page-top", vertical_alignment="center"):
        messages.heading(2, "Compare", "page-head")
        view = st.segmented_control(
            "What to compare",
            VIEWS,
            format_func=_TITLES.__getitem__,
            key="compare_view",
            label_visibility="collapsed",
            persist_state="session",
        )
    page.draw_notices(session)
    if view == "pair":
        compare_pair.draw(session)
    elif view == "sweep":
        sweep_form.draw(session)
    elif view in (None, "variants"):
        _draw_variants(session)
    else:
        _draw_sweep(session, view)
    messages.hint(_PAPER, "paper")
    page.end(session)


def _draw_variants(session: Session) -> None:
    """Figure 3: one prompt, every variant, logit gap and TVD per token."""
    runs = collection.of_tab(session)
    if not runs:
        messages.tell("note", "There is no run yet; make one on the Live page.", "empty")
        return
    link_unmade.draw(session)
    first = collection.name_of(session, session.view.run)
    run = runs[
        choice.choose("Run", runs, "compare_run", lambda name: collection.described(name, runs[name]), first)
    ]
    messages.hint(f"“{readable(run.context.prompt, PROMPT_SHOWN)}”", "compare-prompt")
    wanted = {(rule, dtype) for rule in ("direct", "stable") for dtype in ("float32", "bfloat16")}
    missing = wanted - {(v.update, v.dtype) for v in run.variants}
    if missing:
        names = ", ".join(sorted(f"{rule} {dtype}" for rule, dtype in missing))
        messages.hint(
            f"The paper's figure has direct and stable in two precisions; this run lacks {names}.", "two"
        )
    components.figure(logit_gap_lines(run), key="compare-gap")
    components.figure(tvd_lines(run), key="compare-tvd")


def _draw_sweep(session: Session, view: str) -> None:
    """Figures over the cells of one sweep."""
    titles = collection.sweep_titles()
    if not titles:
        messages.tell("note", "There is no sweep yet; make one under “Make a sweep”.", "empty")
        return
    key = f"compare_sweep_{view}"
    _begin_with_ones_own(session, key, titles)
    name = choice.choose("Sweep", titles, key, titles.__getitem__, _fitting(view, titles))
    read = collection.cells_in(Path(name))
    _tell_what_lacks(read)
    if not read.runs:
        messages.tell("note", "No cell of this sweep can be read; make it again.", "unreadable")
        return
    messages.hint(collection.about(read.runs), "sweep")
    cells = [(variant, run, i) for run in read.runs for i, variant in enumerate(run.variants)]
    if view == "prompts":
        _draw_prompts(read.runs)
    elif view == "layers":
        _draw_layers(cells)
    else:
        _draw_rules(cells, file_name_of_many(f"{short_name(Path(name))}-rules", read.runs))
    messages.hint(f"The sweep's folder: {name}", "sweep-folder")


def _tell_what_lacks(read: collection.CellsRead) -> None:
    for k, fault in enumerate(read.faults[:FAULTS_SHOWN]):
        messages.tell("warning", fault, f"cell{k}")
    if (more := len(read.faults) - FAULTS_SHOWN) > 0:
        messages.tell("warning", f"{counted(more, 'more cell')} cannot be read.", "cells")
    if read.left_out:
        messages.tell(
            "note", f"The first {collection.KEPT} cells are shown; {read.left_out} are left out.", "many"
        )


def _draw_prompts(runs: list[Run]) -> None:
    """Figure 4: how far every prompt's tokens are, each prompt once."""
    first = min(run.settings.first_layer for run in runs)
    named = collection.named_by_prompt([run for run in runs if run.settings.first_layer == first])
    floors = sorted({v.floor for _, run in named for v in run.variants if v.floor is not None})
    floor = None
    if len(floors) > 1:
        taus = {f"{floor:g}": floor for floor in floors}
        floor = taus[choice.choose("Floor τ", taus, "compare_floor")]
    if len({run.settings.first_layer for run in runs}) > 1:
        messages.hint(f"Runs patched from layer {first} on; the others are left out.", "first-layer")
    components.figure(tvd_boxes(named, floor=floor), key="boxes")
    components.figure(match_rates(named, floor=floor), key="rates")


def _draw_layers(cells: list[tuple[Variant, Run, int]]) -> None:
    """Figures 11 to 13: what the first patched layer does."""
    if len({variant.first_layer for variant, _, _ in cells}) == 1:
        messages.tell("note", "This sweep has a single first patched layer; choose or make another.", "one")
    for quantity in QUANTITIES:
        components.figure(first_layer_lines(cells, quantity), key=f"lines-{quantity}")
    quantity = st.segmented_control(
        "The field shows",
        list(QUANTITIES),
        format_func=lambda key: QUANTITIES[key].title,
        default="tvd",
        key="field_quantity",
        persist_state="session",
    )
    components.figure(first_layer_field(cells, quantity or "tvd"), key="rule-field")


def _draw_rules(cells: list[tuple[Variant, Run, int]], file_name: str) -> None:
    """Every rule and precision in one table, to take away whole."""
    measured: Table = rule_table(cells)
    table, columns = with_words(measured, _RULE_COLUMNS)
    if len({variant.first_layer for variant, _, _ in cells}) == 1:
        table.pop("first_layer", None)
    st.dataframe(
        table,
        column_config=columns,
        column_order=[name for name in _RULE_COLUMNS if name in table],
        hide_index=True,
        placeholder="",
        key="rules",
        alt=f"{counted(len(next(iter(table.values()), [])), 'row')}, one per rule and precision.",
    )
    messages.hint(
        "TVD while the patch is built, and when its finished weights run again in a batch of two (“two”), or "
        "with the input moved by one unit in the last place (“1 ulp”, worst of three seeds): the median over "
        "tokens, and the largest (“max”). Empty: not measured.",
        "rules",
    )
    st.download_button(
        "Table (CSV)",
        data=to_csv(measured).encode(),
        file_name=f"{file_name}.csv",
        mime="text/csv",
        on_click="ignore",
        key="rules-csv",
    )


def _begin_with_ones_own(session: Session, key: str, titles: dict[str, str]) -> None:
    """Choose the sweep that this tab made last, once in every view."""
    own = None if session.sweep is None else str(session.sweep.folder)
    state = st.session_state
    if own in titles and state.get(f"{key}_own") != own:
        state[f"{key}_own"] = own
        choice.make(key, own)


def _fitting(view: str, titles: dict[str, str]) -> str | None:
    """The shipped sweep that a view is best shown with."""
    wanted = {"layers": "first-layer"}.get(view, "five-prompts")
    return next((name for name in titles if Path(name).name == wanted), None)
