"""The Compare page: the paper's figures from one's own runs, sweeps, and any two runs side by side."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import streamlit as st

from ctxviz.errors import BundleError
from ctxviz.figures.card import Table
from ctxviz.figures.lines import logit_gap_lines, tvd_lines
from ctxviz.figures.pair import pair
from ctxviz.figures.palette import label
from ctxviz.figures.spread import match_rates, tvd_boxes
from ctxviz.figures.sweeps import QUANTITIES, first_layer_field, first_layer_lines, rule_table
from ctxviz.figures.text import counted
from ctxviz.records import Variant
from ctxviz.run import Run
from ctxviz.ui import collection, components, messages, page, sweep_form, sweeping
from ctxviz.ui.library import UPLOAD_LIMIT_MB
from ctxviz.ui.session import COMPARED, Session

VIEWS: Final = {
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
_RULE_COLUMNS: Final = {
    "match": st.column_config.NumberColumn("same token", format="percent"),
    "tvd_median": st.column_config.NumberColumn("TVD, median", format="%.1e"),
    "tvd_worst": st.column_config.NumberColumn("TVD, worst", format="%.1e"),
    "largest_change": st.column_config.NumberColumn("largest |Δm|", format="%.1e"),
    "scale_ratio": st.column_config.NumberColumn("‖Δm‖/‖m‖", format="%.1e"),
    "batch_median": st.column_config.NumberColumn("batch of two, median", format="%.1e"),
    "batch_worst": st.column_config.NumberColumn("batch of two, worst", format="%.1e"),
    "ulp_median": st.column_config.NumberColumn("1 ulp, median", format="%.1e"),
    "ulp_worst": st.column_config.NumberColumn("1 ulp, worst", format="%.1e"),
}


def draw() -> None:
    """One run of the page's script."""
    session = page.begin()
    state, changing = session.view.state, page.changes(session.view)
    messages.heading(2, "Compare", "page-head")
    view = st.segmented_control(
        "What to compare",
        list(VIEWS),
        format_func=VIEWS.__getitem__,
        default="variants",
        key="compare_view",
        label_visibility="collapsed",
    )
    page.draw_notices(session)
    if view == "pair":
        _draw_pair(session)
    elif view == "sweep":
        sweep_form.draw(session)
    elif view in (None, "variants"):
        _draw_variants(session)
    else:
        _draw_sweep(view)
    messages.hint(_PAPER, "paper")
    page.end(session, state, changing)


def _draw_variants(session: Session) -> None:
    """Figure 3: one prompt, every variant, logit gap and TVD per token."""
    runs = collection.of_tab(session)
    if not runs:
        messages.tell("note", "There is no run yet; make one on the Live page.", "empty")
        return
    run = runs[_choose("Run", list(runs), "compare_run")]
    wanted = {(rule, dtype) for rule in ("direct", "stable") for dtype in ("float32", "bfloat16")}
    missing = wanted - {(v.update, v.dtype) for v in run.variants}
    if missing:
        names = ", ".join(sorted(f"{rule} {dtype}" for rule, dtype in missing))
        messages.hint(
            f"The paper's figure has direct and stable in two precisions; here {names} lack.", "two"
        )
    components.figure(logit_gap_lines(run), key="compare-gap", name="logit-gap")
    components.figure(tvd_lines(run), key="compare-tvd", name="tvd")


def _draw_sweep(view: str) -> None:
    """Figures over the cells of one sweep."""
    folders = sweeping.folders()
    if not folders:
        messages.tell("note", "There is no sweep yet; make one under “Make a sweep”.", "empty")
        return
    names = {_folder_title(folder): folder for folder in folders}
    name = _choose("Sweep", list(names), f"compare_sweep_{view}", first=_fitting(view, list(names)))
    runs, faults = collection.cells_in(names[name])
    for k, fault in enumerate(faults[:3]):
        messages.tell("warning", fault, f"cell{k}")
    if not runs:
        messages.tell("note", "No cell of this sweep can be read; make it again.", "unreadable")
        return
    messages.hint(_about(runs), "sweep")
    if view == "prompts":
        first = min(run.settings.first_layer for run in runs)
        named = [(collection.title_of(run), run) for run in runs if run.settings.first_layer == first]
        components.figure(tvd_boxes(named), key="boxes", name="tvd-boxes")
        components.figure(match_rates(named), key="rates", name="match-rates")
        return
    cells = [(variant, run, i) for run in runs for i, variant in enumerate(run.variants)]
    if view == "layers":
        _draw_layers(cells)
    else:
        _draw_rules(cells)


def _draw_layers(cells: list[tuple[Variant, Run, int]]) -> None:
    """Figures 11 to 13: what the first patched layer does."""
    if len({variant.first_layer for variant, _, _ in cells}) == 1:
        messages.tell("note", "This sweep has a single first patched layer; choose or make another.", "one")
    for quantity in QUANTITIES:
        components.figure(first_layer_lines(cells, quantity), key=f"lines-{quantity}", name=quantity)
    quantity = st.segmented_control(
        "The field shows",
        list(QUANTITIES),
        format_func=lambda key: QUANTITIES[key].title,
        default="tvd",
        key="field_quantity",
    )
    components.figure(first_layer_field(cells, quantity or "tvd"), key="rule-field", name="first-layer-rule")


def _draw_rules(cells: list[tuple[Variant, Run, int]]) -> None:
    """Every rule and precision in one table."""
    table: Table = rule_table(cells)
    st.dataframe(
        table,
        column_config=_RULE_COLUMNS,
        hide_index=True,
        key="rules",
        alt=f"{counted(len(next(iter(table.values()), [])), 'row')}, one per rule and precision.",
    )
    messages.hint(
        "TVD while the patch is built, and when its finished weights run again in a batch of two, or with "
        "the input moved by one unit in the last place (worst of three seeds). Empty: not measured.",
        "rules",
    )


def _draw_pair(session: Session) -> None:
    """Any two runs on the same axes, and where their texts part."""
    with st.popover("Open a run to compare"):
        st.file_uploader(
            "A .ctxviz file",
            type="ctxviz",
            max_upload_size=UPLOAD_LIMIT_MB,
            key="compare_upload",
            on_change=_open,
            args=(session,),
        )
    runs = collection.of_tab(session)
    if not runs:
        messages.tell("note", "There is no run yet; make one on the Live page, or open two.", "empty")
        return
    sides = []
    for side, column in zip("AB", st.columns(2), strict=True):
        with column:
            names = list(runs)
            name = _choose(
                f"Run {side}", names, f"pair_{side}", first=names[min("AB".index(side), len(names) - 1)]
            )
            run = runs[name]
            labels = [label(variant, run.variants) for variant in run.variants]
            last = min("AB".index(side), len(labels) - 1)
            sides.append(
                (run, labels.index(_choose(f"Variant {side}", labels, f"variant_{side}", labels[last])))
            )
    (left, i), (right, j) = sides
    components.figure(pair(left, right, i, j), key="pair", name="two-runs")


def _open(session: Session) -> None:
    from ctxviz.store import load_run

    upload = st.session_state.compare_upload
    session.notices.clear()
    if upload is None:
        return
    try:
        session.compared.append(load_run(io.BytesIO(upload.getvalue())))
        del session.compared[:-COMPARED]
    except BundleError as error:
        session.notices.append(str(error))


def _choose(words: str, options: list[str], key: str, first: str | None = None) -> str:
    """A select box that keeps its choice while it is there, else begins with ``first``."""
    if st.session_state.get(key) not in options:
        st.session_state[key] = first if first in options else options[0]
    return str(st.selectbox(words, options, key=key, persist_state="session"))


def _folder_title(folder: Path) -> str:
    if folder.parent == sweeping.ASSETS:
        return f"{folder.name} (comes with ctxviz)"
    return f"made here: {folder.name}"


def _fitting(view: str, names: list[str]) -> str | None:
    """The shipped sweep that a view is best shown with."""
    wanted = {"prompts": "five-prompts", "layers": "first-layer", "rules": "choose-tau"}.get(view, "")
    return next((name for name in names if name.startswith(wanted)), None)


def _about(runs: list[Run]) -> str:
    first = runs[0]
    torch = dict(first.model.libraries).get("torch", "unknown")
    return (
        f"{counted(len(runs), 'run')} of {first.model.name}, {counted(sum(map(len, runs)), 'token')} "
        f"in all (torch {torch}, {first.model.device}, {counted(first.model.threads, 'thread')})."
    )
