"""The ``bench`` command: rows on stdout, as a table or as JSON lines."""

from __future__ import annotations

import json
import sys

from rich import box
from rich.table import Table

from ctxviz import bench, bench_material
from ctxviz.cli.inputs import require_pictures
from ctxviz.cli.terminal import ReaderGoneError, bar, cell, show, write
from ctxviz.models.sources import resolve

GIGABYTE = 1e9
REPLAY_TARGET = 1.0
MEMORY_TARGET, FIRST_TOKEN_TARGET, FLATNESS_TARGET = 4.0, 20.0, 1.15


def run_bench(
    reference: str,
    context: int,
    tokens: int,
    *,
    image_tokens: int = 0,
    as_json: bool,
    threads: int | None,
    device: str,
    with_bar: bool,
) -> None:
    """Measure everything and print it.

    Raises:
        CtxvizError: the model cannot be loaded, or the context does not fit it.
    """
    source = resolve(reference)
    if image_tokens:
        require_pictures(source)
    beginning = bench_material.drawn_pictures(1) if image_tokens else ()
    measured: list[bench.Row] = []

    def take(row: bench.Row) -> None:
        measured.append(row)
        if as_json:
            write(json.dumps(_record(row), allow_nan=False) + "\n")

    with bar(with_bar) as progress:
        progress("a new process to its first token", None)
        # Twice: the first may convert the weights or read them from a cold disk.
        first_token = [bench.first_token_seconds(reference, device, threads, beginning) for _ in range(2)][-1]
        progress("importing torch and transformers", None)
        from ctxviz.models import load_model

        model = load_model(reference, dtypes=bench.DTYPES, device=device, progress=progress, threads=threads)
        try:
            given = bench_material.material(model, context, image_tokens)
            for row in bench.rows(model, given, tokens, progress):
                take(row)
            early, late = bench.flatness(model, given, progress)
            take(early)
            take(late)
            replays = list(bench.replays(model, given, tokens, progress))
        except ReaderGoneError:
            return
        resident = bench.resident_bytes() / GIGABYTE
    if not as_json:
        show(_table(measured))
    notes = (
        *map(_replay_note, replays),
        f"token {bench.LATE} against token {bench.EARLY}, float32 written stable: "
        f"{late.seconds / early.seconds:.2f} x (target {FLATNESS_TARGET:g})",
        f"resident with {' and '.join(bench.DTYPES)} loaded: {resident:.2f} GB (target {MEMORY_TARGET:g})",
        f"new process to its first token, model ready: {first_token:.1f} s (target {FIRST_TOKEN_TARGET:g})",
        f"threads: {model.identity.threads}, device: {model.identity.device}",
    )
    print("\n".join(notes), file=sys.stderr if as_json else sys.stdout)


def _replay_note(row: bench.ReplayRow) -> str:
    notes = [
        f"replay {row.dtype} {row.kind}: {1e3 * row.seconds:.1f} ms a pass, {row.ratio:.2f} x a stock decode "
        f"of {1e3 * row.stock_seconds:.1f} ms (target {REPLAY_TARGET:g})"
    ]
    if row.kind == "batch":
        notes.append(f"{row.seconds / row.stock_two_seconds:.2f} x one of two rows")
    if row.passes > 1:
        notes.append(f"{row.passes} passes a token")
    return ", ".join(notes)


def _record(row: bench.Row) -> dict[str, str | int | float]:
    record: dict[str, str | int | float] = {
        "model": row.model,
        "dtype": row.dtype,
        "arithmetic": row.arithmetic,
        "update": row.update,
        "context": row.context,
        "stock_seconds": row.stock_seconds,
        "seconds": row.seconds,
        "ratio": row.ratio,
    }
    return record | ({"image_tokens": row.image_tokens} if row.image_tokens else {})


def _pictured(row: bench.Row) -> str:
    return f", {row.image_tokens} image tokens in the context" if row.image_tokens else ""


def _table(rows: list[bench.Row]) -> Table:
    """The rows: milliseconds per token, the ratio beside the one aimed for, the references' share."""
    table = Table(
        title=cell(f"{rows[0].model}, milliseconds per token{_pictured(rows[0])}"),
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
    )
    table.add_column("patching", no_wrap=True)
    for name in ("context", "stock", "ctxviz", "ratio", "target", "references"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            f"{row.dtype} {row.arithmetic} {row.update}",
            str(row.context),
            f"{1e3 * row.stock_seconds:.1f}",
            f"{1e3 * row.seconds:.1f}",
            f"{row.ratio:.2f}",
            "" if row.target is None else f"{row.target:g}",
            f"{1e3 * row.references_seconds:.1f}",
        )
    return table
