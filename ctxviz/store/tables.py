"""A run as three tidy Parquet tables: a row per variant and step, and layer, and coordinate.

Every table repeats the columns that name its rows, so that it can be read alone: ``step``, then the variant
as ``update``, ``arithmetic``, ``dtype``, ``first_layer``, ``floor``. What was not measured is null; what was
and is no number is infinite.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ctxviz.records import INTEGER_LAYER_METRICS, LAYER_METRICS, SOLVER_CASES, LayerVectors
from ctxviz.run import REFERENCE_METRICS, REPLAY_COLUMNS, Run
from ctxviz.settings import Variant
from ctxviz.store.fields import encodable
from ctxviz.store.limits import TABLE_ROWS

NAMES: Final = ("step", "update", "arithmetic", "dtype", "first_layer", "floor")
FLAGS: Final = ("match", "tie")
DISTANCES: Final = ("tvd", "logit_linf", "kl", "seconds")
VECTORS: Final = {"h": "h", "delta_v": "delta_v", "m": "scale", "delta_m": "delta_scale", "w": "stored"}
"""Float column of the coordinates table -> field of LayerVectors."""
MARKS: Final = ("uncontrolled", "swallowed")
"""Columns of flags of the coordinates table, called as in LayerVectors."""

Column = Any
"""A pyarrow array; pyarrow comes without types."""
Index = NDArray[np.int64]


def steps_table(run: Run, n: int) -> bytes:
    """Steps x variants."""
    v = len(run.variants)
    tokens = [run.token(k) for k in range(n)]
    columns: dict[str, Column] = _names(run.variants, np.repeat(np.arange(n), v), np.tile(np.arange(v), n))
    columns["position"] = pa.array(np.repeat([t[0] for t in tokens], v).astype(np.int32))
    columns["token_id"] = pa.array(np.repeat([t[1] for t in tokens], v).astype(np.int32))
    columns["text"] = _texts([t[2] for t in tokens], v)
    columns["next_token_id"] = pa.array(np.repeat([t[3] for t in tokens], v).astype(np.int32))
    columns["next_text"] = _texts([t[4] for t in tokens], v)
    series = {name: _interleaved(run, name, n) for name in (*FLAGS, *DISTANCES, "rank")}
    columns |= {name: pa.array(series[name] != 0) for name in FLAGS}
    columns |= {name: _floats(series[name]) for name in DISTANCES}
    columns["rank"] = pa.array(series["rank"].astype(np.int32))
    of_dtype = [run.dtypes.index(variant.dtype) for variant in run.variants]
    for name in REFERENCE_METRICS:
        table = np.stack([run.reference(name, dtype)[:n] for dtype in run.dtypes], axis=1)
        columns[name] = _floats(table[:, of_dtype].ravel())
    columns |= {name: _floats(_interleaved(run, name, n)) for name in REPLAY_COLUMNS}
    margins = np.array(
        [[run.baseline(k, variant.dtype).margin for variant in run.variants] for k in range(n)]
    )
    columns["baseline_margin"] = _floats(margins.reshape(-1).astype(np.float64))
    columns["step_seconds"] = _floats(np.repeat(np.array([t[5] for t in tokens], np.float64), v))
    return _written(columns, len(tokens) * v)


def layers_table(run: Run, n: int) -> bytes:
    """Steps x variants x layers."""
    v, layers = len(run.variants), run.model.n_layers
    steps, variants, of_layer = (index.ravel() for index in np.indices((n, v, layers)))
    columns: dict[str, Column] = _names(run.variants, steps, variants)
    columns["layer"] = pa.array(of_layer.astype(np.int32))
    for name in LAYER_METRICS:
        values = np.stack([run.field(name, i)[:, :n].T for i in range(v)], axis=1).ravel()
        if name == "solver_case":
            cases = pa.array(SOLVER_CASES)
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(values, mask=values < 0), cases)
        elif name in INTEGER_LAYER_METRICS:
            columns[name] = pa.array(values, mask=values == -1)
        else:
            columns[name] = _floats(values)
    return _written(columns, len(steps))


def coordinates_table(run: Run, n: int, vectors: bool) -> bytes:
    """(Step, variant) pairs whose vectors were kept x layers x coordinates."""
    layers, width = run.model.n_layers, run.model.width
    pairs = [(k, i) for k in range(n) for i in range(len(run.variants))] if vectors else []
    found = [(k, i, kept) for k, i in pairs if (kept := run.vectors(k, i)) is not None]
    sink, writer = io.BytesIO(), None
    at_once = max(1, TABLE_ROWS // 4 // (layers * width))
    for start in range(0, max(len(found), 1), at_once):
        columns = _coordinate_columns(run.variants, found[start : start + at_once], layers, width)
        table = pa.table(columns)
        writer = writer or _writer(sink, table.schema, columns)
        writer.write_table(table, row_group_size=max(len(table), 1))
    assert writer is not None
    writer.close()
    return sink.getvalue()


def _coordinate_columns(
    variants: Sequence[Variant], found: Sequence[tuple[int, int, LayerVectors]], layers: int, width: int
) -> dict[str, Column]:
    cells = layers * width
    steps = np.repeat(np.array([k for k, _, _ in found], np.int64), cells)
    of_variant = np.repeat(np.array([i for _, i, _ in found], np.int64), cells)
    columns: dict[str, Column] = _names(variants, steps, of_variant)
    layer, coordinate = coordinate_index(layers, width)
    columns["layer"] = pa.array(np.tile(layer, len(found)))
    columns["coordinate"] = pa.array(np.tile(coordinate, len(found)))
    for name, field in VECTORS.items():
        parts = [np.asarray(getattr(kept, field), np.float32).reshape(cells) for _, _, kept in found]
        columns[name] = _floats(np.concatenate(parts) if parts else np.zeros(0, np.float32))
    for name in MARKS:
        flags = [getattr(kept, name).reshape(cells) for _, _, kept in found]
        columns[name] = pa.array(np.concatenate(flags) if flags else np.zeros(0, bool))
    return columns


def coordinate_index(layers: int, width: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The layer and coordinate columns of one (step, variant) pair."""
    return np.repeat(np.arange(layers, dtype=np.int32), width), np.tile(
        np.arange(width, dtype=np.int32), layers
    )


def _names(variants: Sequence[Variant], steps: Index, of_variant: Index) -> dict[str, Column]:
    columns: dict[str, Column] = {"step": pa.array(steps.astype(np.int32))}
    for name in ("update", "arithmetic", "dtype"):
        known = sorted({getattr(v, name) for v in variants})
        code = np.array([known.index(getattr(v, name)) for v in variants], np.int8)
        columns[name] = pa.DictionaryArray.from_arrays(
            pa.array(code[of_variant]), pa.array(known, pa.string())
        )
    columns["first_layer"] = pa.array(np.array([v.first_layer for v in variants], np.int32)[of_variant])
    floors = np.array([np.nan if v.floor is None else v.floor for v in variants], np.float64)
    columns["floor"] = _floats(floors[of_variant])
    return columns


def _interleaved(run: Run, metric: str, n: int) -> NDArray[np.float64]:
    return np.stack([run.series(metric, i)[:n] for i in range(len(run.variants))], axis=1).ravel()


def _floats(values: NDArray[Any]) -> Column:
    return pa.array(values, from_pandas=True)


def _texts(texts: Sequence[str], repeats: int) -> Column:
    """Each text ``repeats`` times; lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    clean = [encodable(text) for text in texts]
    return pa.array([text for text in clean for _ in range(repeats)], pa.string())


def _written(columns: Mapping[str, Column], rows: int) -> bytes:
    sink, table = io.BytesIO(), pa.table(dict(columns))
    with _writer(sink, table.schema, columns) as writer:
        writer.write_table(table, row_group_size=max(rows, 1))
    return sink.getvalue()


def _writer(sink: io.BytesIO, schema: pa.Schema, columns: Mapping[str, Column]) -> pq.ParquetWriter:
    """Zstd; floats with their bytes regrouped, but a dictionary for those that repeat.

    Large pages let zstd see the repetition of m, layer and coordinate from one step to the next.
    """
    repeated = {"floor", "m", "w"}
    split = [n for n, c in columns.items() if pa.types.is_floating(c.type) and n not in repeated]
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": [name for name in columns if name not in split],
        "use_byte_stream_split": split,
        "dictionary_pagesize_limit": 16 * 2**20,
        "max_rows_per_page": 2**31 - 1,
        "data_page_size": 8 * 2**20,
        "store_schema": False,
    }
    return pq.ParquetWriter(sink, schema, **options)
