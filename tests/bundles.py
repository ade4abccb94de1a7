"""Making, taking apart and comparing run bundles, for the tests of the store."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctxviz.records import LAYER_METRICS
from ctxviz.run import REFERENCE_METRICS, REPLAY_COLUMNS, STEP_METRICS, Run
from ctxviz.store import archive, save_run

SMALL: dict[str, Any] = {"n_layers": 6, "width": 16, "steps": 5}
PARTS = ("run.json", "steps.parquet", "layers.parquet", "coordinates.parquet")


def saved(run: Run, **options: Any) -> bytes:
    out = io.BytesIO()
    save_run(run, out, **options)
    return out.getvalue()


def parts_of(bundle: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as file:
        return {name: file.read(name) for name in file.namelist()}


def same(a: Any, b: Any) -> bool:
    """Equality to the bit for arrays, NaN equal to NaN, through dataclasses and tuples."""
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a)
        )
    if isinstance(a, np.ndarray):
        return (
            a.dtype == b.dtype
            and np.array_equal(a, b, equal_nan=True)
            and bool((np.signbit(a) == np.signbit(b)).all())
        )
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b or (a != a and b != b)


def differences(a: Run, b: Run) -> list[str]:
    """The accessors in which two runs differ."""
    found = [
        name
        for name in ("model", "context", "settings", "outcome", "forgotten_vectors")
        if not same(getattr(a, name), getattr(b, name))
    ]
    if len(a) != len(b):
        return [*found, "length"]
    for k in range(len(a)):
        found += [f"token {k}"] * (not same(a.token(k), b.token(k)))
        found += [
            f"baseline {k}" for dtype in a.dtypes if not same(a.baseline(k, dtype), b.baseline(k, dtype))
        ]
        for i in range(len(a.variants)):
            found += [f"top {k} {i}"] * (not same(a.top(k, i), b.top(k, i)))
            found += [f"vectors {k} {i}"] * (not same(a.vectors(k, i), b.vectors(k, i)))
            found += [f"layers {k} {i}"] * (not same(a.layer_stats(k, i), b.layer_stats(k, i)))
    for i in range(len(a.variants)):
        found += [m for m in (*STEP_METRICS, *REPLAY_COLUMNS) if not same(a.series(m, i), b.series(m, i))]
        found += [m for m in LAYER_METRICS if not same(a.field(m, i), b.field(m, i))]
    found += [
        m for m in REFERENCE_METRICS for d in a.dtypes if not same(a.reference(m, d), b.reference(m, d))
    ]
    return found


def packed(parts: dict[str, bytes]) -> bytes:
    return archive.pack(parts)


def retabled(parts: dict[str, bytes], name: str, change: Callable[[pa.Table], pa.Table]) -> dict[str, bytes]:
    """``parts`` with a change of one of its tables."""
    out = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(parts[name]))), out, store_schema=False)
    return parts | {name: out.getvalue()}
