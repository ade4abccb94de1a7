"""The three Parquet tables back into arrays, once their rows are known to be those of the description."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ctxviz.records import INTEGER_LAYER_METRICS, LAYER_METRICS, SOLVER_CASES, LayerVectors
from ctxviz.run import REFERENCE_METRICS, REPLAY_COLUMNS, STEP_METRICS
from ctxviz.settings import REPLAYS, Variant
from ctxviz.store.description import Description
from ctxviz.store.limits import COORDINATE_ROWS, ROW_GROUPS, TABLE_ROWS, TOTAL_BYTES, broken
from ctxviz.store.tables import FLAGS, MARKS, NAMES, VECTORS, coordinate_index

Array = NDArray[Any]

_WORDS: Final = ("update", "arithmetic", "dtype", "solver_case")
_SINCE_2: Final = frozenset(
    {
        "eager_tvd",
        "float32_tvd",
        "float64_tvd",
        "ulp_tvd",
        "output_max_abs",
        *(f"drift_{kind}" for kind in REPLAYS),
        *REPLAY_COLUMNS,
        "w",
        *MARKS,
    }
)
LARGEST_TVD: Final = 1 + 1e-6
"""A total-variation distance is at most 1, but for rounding."""
_THRIFT_LIMITS: Final[dict[str, Any]] = {
    "thrift_string_size_limit": 16 * 2**20,
    "thrift_container_size_limit": 100_000,
}


def read_steps(data: bytes, about: Description) -> tuple[dict[str, Array], dict[str, Array]]:
    """STEP_METRICS and REPLAY_COLUMNS as [steps, variants], REFERENCE_METRICS as [steps, dtypes], float64."""
    n, variants = len(about.steps), about.settings.variants
    with _opened(data, "steps", n * len(variants)) as file:
        wanted = (*NAMES, *STEP_METRICS, *REFERENCE_METRICS, *REPLAY_COLUMNS)
        table = _read(file, "steps", wanted, version=about.version)
        _expect_rows(table, "steps", variants, np.indices((n, len(variants))))
        shape = (n, len(variants))
        series = {
            name: _numbers(table, "steps", name).astype(np.float64).reshape(shape)
            for name in (*STEP_METRICS, *REPLAY_COLUMNS)
        }
        first = [[v.dtype for v in variants].index(dtype) for dtype in about.settings.ordered_dtypes]
        references = {
            name: _numbers(table, "steps", name).reshape(shape)[:, first] for name in REFERENCE_METRICS
        }
    certain = [name for name in REPLAY_COLUMNS if name.endswith(("_match", "_seconds"))]
    _always_numbers("steps", {name: series[name] for name in ("seconds", *certain)})
    of_gaps = ("tvd", "logit_linf", "seconds", *REPLAY_COLUMNS)
    _never_below(0, "steps", {name: series[name] for name in of_gaps} | references)
    _never_below(-1, "steps", {"rank": series["rank"]})
    distances = {name: values for name, values in (series | references).items() if name.endswith("tvd")}
    _never_above(LARGEST_TVD, "steps", distances)
    return series, references


def _always_numbers(table: str, columns: dict[str, Array]) -> None:
    for name, values in columns.items():
        if np.isinf(values).any():
            raise broken(f"the column {name} of its {table} table holds infinity, which it never is")


def _never_above(most: float, table: str, columns: dict[str, Array]) -> None:
    """Infinite is no number and not above anything."""
    for name, values in columns.items():
        if (np.isfinite(values) & (values > most)).any():
            raise broken(f"the column {name} of its {table} table holds a number above {most:g}")


def _never_below(least: int, table: str, columns: dict[str, Array]) -> None:
    for name, values in columns.items():
        if (values < least).any():
            raise broken(f"the column {name} of its {table} table holds a number below {least}")


def read_layers(data: bytes, about: Description) -> dict[str, Array]:
    """LAYER_METRICS as [steps, variants, layers], float32 or int32."""
    variants = about.settings.variants
    shape = (len(about.steps), len(variants), about.model.n_layers)
    with _opened(data, "layers", int(np.prod(shape))) as file:
        table = _read(file, "layers", (*NAMES, "layer", *LAYER_METRICS), version=about.version)
        index = np.indices(shape)
        _expect_rows(table, "layers", variants, index[:2])
        _expect("layers", "layer", _numbers(table, "layers", "layer"), index[2].ravel())
        metrics = {name: _layer_metric(table, name).reshape(shape) for name in LAYER_METRICS}
    _never_below(-1, "layers", {name: metrics[name] for name in INTEGER_LAYER_METRICS})
    if (metrics["h_argmin"] >= about.model.width).any():
        raise broken("the column h_argmin of its layers table names coordinates that the model lacks")
    return metrics


def _layer_metric(table: pa.Table, name: str) -> Array:
    if name == "solver_case":
        return _codes(table, "layers", name, SOLVER_CASES)
    values = _numbers(table, "layers", name)
    kind = np.int32 if name in INTEGER_LAYER_METRICS else np.float32
    if values.dtype != kind:
        raise broken(f"the column {name} of its layers table has another type")
    return values


def read_coordinates(data: bytes, about: Description) -> dict[tuple[int, int], LayerVectors]:
    """The vectors that were kept, by (step, variant); m and w are shared where they did not change."""
    variants = about.settings.variants
    layers, width = about.model.n_layers, about.model.width
    cells = layers * width
    layer, coordinate = coordinate_index(layers, width)
    found: dict[tuple[int, int], LayerVectors] = {}
    shared: dict[tuple[str, str], Array] = {}
    with _opened(data, "coordinates", None) as file:
        for group in range(file.num_row_groups):
            wanted = (*NAMES, "layer", "coordinate", *VECTORS, *MARKS)
            table = _read(file, "coordinates", wanted, group, version=about.version)
            if len(table) % cells:
                raise broken("its coordinates table has incomplete layers")
            pairs = _pairs(table, variants, len(about.steps), cells)
            for name, expected in (("layer", layer), ("coordinate", coordinate)):
                _expect(
                    "coordinates", name, _numbers(table, "coordinates", name).reshape(-1, cells), expected
                )
            fields = {f: _vectors(table, c).reshape(-1, layers, width) for c, f in VECTORS.items()}
            marks = {m: _numbers(table, "coordinates", m).reshape(-1, layers, width) for m in MARKS}
            for row, (step, i) in enumerate(pairs):
                if found and (step, i) <= next(reversed(found)):
                    raise broken("its coordinates table is out of order")
                for name in ("scale", "stored"):
                    key, values = (variants[i].dtype, name), fields[name][row]
                    if key not in shared or not np.array_equal(shared[key], values, equal_nan=True):
                        shared[key] = values.copy()
                scale, stored = (shared[variants[i].dtype, name] for name in ("scale", "stored"))
                h, delta_v, delta_m = (fields[f][row] for f in ("h", "delta_v", "delta_scale"))
                found[step, i] = LayerVectors(
                    h, delta_v, scale, delta_m, stored, marks["uncontrolled"][row], marks["swallowed"][row]
                )
    return found


def _vectors(table: pa.Table, name: str) -> Array:
    values = _numbers(table, "coordinates", name)
    if values.dtype != np.float32:
        raise broken(f"the column {name} of its coordinates table has another type")
    return values


def _pairs(table: pa.Table, variants: Sequence[Variant], steps: int, cells: int) -> list[tuple[int, int]]:
    """The (step, variant) of each block of ``cells`` rows."""
    step = _numbers(table, "coordinates", "step")
    first = step[::cells]
    if first.size and not (first.min() >= 0 and first.max() < steps):
        raise broken("its coordinates table has other steps than its run.json")
    code, known = _variant_code(table, "coordinates", variants)
    of_variant = np.array([known.index(c) if c in known else -1 for c in code[::cells].tolist()], np.int64)
    if (of_variant < 0).any():
        raise broken("its coordinates table has other variants than its run.json")
    _expect_rows(
        table, "coordinates", variants, np.stack([np.repeat(first, cells), np.repeat(of_variant, cells)])
    )
    return list(zip(first.tolist(), of_variant.tolist(), strict=True))


@contextmanager
def _opened(data: bytes, name: str, rows: int | None) -> Iterator[pq.ParquetFile]:
    """A table whose size was checked from its metadata; whatever Parquet chokes on becomes a BundleError.

    The metadata of single columns is not looked at: pyarrow ends the process where it is malformed.
    """
    try:
        words = [word for word in _WORDS if word != "solver_case" or name == "layers"]
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=words, **_THRIFT_LIMITS)
        if file.num_row_groups > ROW_GROUPS:
            raise broken(f"its {name} table is in too many pieces")
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        sizes = [group.num_rows for group in groups]
        if rows is not None and (sum(sizes) != rows or file.metadata.num_rows != rows):
            raise broken(
                f"its {name} table has {file.metadata.num_rows} rows where its run.json asks for {rows}"
            )
        unpacked = [group.total_byte_size for group in groups]
        if min(sizes, default=0) < 0 or max(sizes, default=0) > TABLE_ROWS or sum(sizes) > COORDINATE_ROWS:
            raise broken(f"its {name} table has too many rows")
        if min(unpacked, default=0) < 0 or sum(unpacked) > TOTAL_BYTES:
            raise broken(f"its {name} table is too large")
        yield file
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, MemoryError):
        raise broken(f"its {name} table is damaged") from None


def _read(
    file: pq.ParquetFile, name: str, columns: Sequence[str], group: int | None = None, *, version: int
) -> pa.Table:
    """The columns of a table; those that the first schema version lacked are filled with "not measured"."""
    missing = [column for column in columns if column not in file.schema_arrow.names]
    later = [column for column in missing if version < 2 and column in _SINCE_2]
    if len(missing) > len(later):
        raise broken(f"its {name} table has no column {next(c for c in missing if c not in later)}")
    present = [column for column in columns if column not in later]
    table = file.read(columns=present) if group is None else file.read_row_group(group, columns=present)
    for column in later:
        kind = np.float32 if column in (*VECTORS, *LAYER_METRICS) else np.float64
        values = np.zeros(len(table), bool) if column in MARKS else np.full(len(table), np.nan, kind)
        table = table.append_column(column, pa.array(values, from_pandas=True))
    return table.combine_chunks()


def _numbers(table: pa.Table, name: str, column: str) -> Array:
    """A column of numbers or flags: null floats are NaN, null integers -1; flags may not be null.

    A NaN that is stored as such has no meaning here, null being what was not measured and infinity what is no
    number, and is refused.
    """
    values = table.column(column)
    kind = values.type
    is_flag = column in {"steps": FLAGS, "coordinates": MARKS}.get(name, ())
    if pa.types.is_floating(kind) and not is_flag:
        found = values.to_numpy()
        if int(np.isnan(found).sum()) != values.null_count:
            raise broken(
                f"the column {column} of its {name} table holds NaN, where null means not measured and"
                " infinity no number"
            )
        return found
    if kind == pa.int32() and not is_flag:
        return pc.fill_null(values, -1).to_numpy()
    if kind == pa.bool_() and is_flag and not values.null_count:
        return values.to_numpy()
    raise broken(f"the column {column} of its {name} table has another type")


def _codes(table: pa.Table, name: str, column: str, known: Sequence[str]) -> NDArray[np.int32]:
    """The index into ``known`` of each text of a column; -1 for null."""
    values = table.column(column)
    if not len(values):
        return np.zeros(0, np.int32)
    if not pa.types.is_dictionary(values.type) or not pa.types.is_string(values.type.value_type):
        raise broken(f"the column {column} of its {name} table has another type")
    chunk = values.chunk(0)
    words = pa.array(known, pa.string())
    found = pc.index_in(chunk.dictionary, value_set=words)  # pyright: ignore[reportAttributeAccessIssue]
    places = pc.fill_null(found, -2).to_numpy()
    indices = pc.fill_null(chunk.indices, len(places)).to_numpy()
    codes = np.append(places, -1)[indices]
    if (codes == -2).any():
        raise broken(f"the column {column} of its {name} table holds an unknown word")
    return codes.astype(np.int32)


def _variant_code(table: pa.Table, name: str, variants: Sequence[Variant]) -> tuple[Array, list[int]]:
    """A number per row that tells the row's variant, and the numbers of ``variants``."""
    code, known = np.zeros(len(table), np.int32), np.zeros(len(variants), np.int32)
    for column in ("update", "arithmetic", "dtype"):
        words = sorted({getattr(v, column) for v in variants})
        code = code * (len(words) + 1) + _codes(table, name, column, words)
        known = known * (len(words) + 1) + np.array(
            [words.index(getattr(v, column)) for v in variants], np.int32
        )
    return code, known.tolist()


def _expect_rows(table: pa.Table, name: str, variants: Sequence[Variant], index: Array) -> None:
    """Check the columns that name a row against (step, variant) ``index`` [2, ...]."""
    step, of_variant = (part.ravel() for part in index)
    _expect(name, "step", _numbers(table, name, "step"), step)
    code, known = _variant_code(table, name, variants)
    _expect(name, "variant", code, np.array(known, np.int32)[of_variant])
    first_layer = np.array([v.first_layer for v in variants], np.int32)
    _expect(name, "first_layer", _numbers(table, name, "first_layer"), first_layer[of_variant])
    floor = np.array([np.nan if v.floor is None else v.floor for v in variants])
    _expect(name, "floor", _numbers(table, name, "floor"), floor[of_variant])


def _expect(name: str, column: str, values: Array, expected: Array) -> None:
    same = (values == expected) | ((values != values) & (expected != expected))
    if values.shape[-1:] != expected.shape[-1:] or not same.all():
        raise broken(f"the column {column} of its {name} table disagrees with its run.json")
