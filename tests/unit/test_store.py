"""Runs on disk: what is saved comes back to the bit, and other tools can read it."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctxviz.errors import BundleError
from ctxviz.folds import Fold
from ctxviz.records import SOLVER_CASES, LayerVectors, TopTokens
from ctxviz.run import Run
from ctxviz.store import load_run, save_run
from tests.bundles import PARTS, SMALL, differences, packed, parts_of, retabled, same, saved
from tests.synthetic import synthetic_run


@pytest.fixture(scope="module")
def parts() -> dict[str, bytes]:
    return parts_of(saved(synthetic_run(**SMALL)))


RUNS: dict[str, Callable[[], Run]] = {
    "four variants": lambda: synthetic_run(**SMALL),
    "one variant, unpatched layers": lambda: synthetic_run(
        4, 8, 3, updates=["direct"], dtypes=["float32"], first_layer=2
    ),
    "no step": lambda: synthetic_run(4, 8, 0),
    "floored and factored": lambda: synthetic_run(
        3, 8, 2, updates=["floored", "rescaled"], arithmetics=["factored", "written"], fold=Fold.parse("1:4")
    ),
    "no vectors": lambda: synthetic_run(4, 8, 3, vectors=False),
    "unfinished": lambda: synthetic_run(4, 8, 3, outcome=None),
}


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
def test_a_run_comes_back_to_the_bit(make: Callable[[], Run], tmp_path: Path) -> None:
    run, path = make(), tmp_path / "a.ctxviz"
    save_run(run, path)
    assert differences(run, load_run(path)) == []
    assert differences(run, load_run(path.read_bytes())) == []
    with path.open("rb") as file:
        assert differences(run, load_run(file)) == []


def test_the_comparison_of_runs_can_fail() -> None:
    run = synthetic_run(**SMALL)
    assert differences(run, synthetic_run(**SMALL, seed=1))
    assert any("vectors" in d for d in differences(run, synthetic_run(**SMALL, vectors=False)))
    other = synthetic_run(**SMALL)
    kept = other.vectors(0, 0)
    assert kept is not None
    kept.h[0, 0] = np.nextafter(kept.h[0, 0], np.float32(np.inf))
    assert differences(run, other) == ["vectors 0 0"]


def test_odd_floats_survive() -> None:
    run = synthetic_run(2, 8, 2, updates=["stable"], dtypes=["float32"])
    kept = run.vectors(1, 0)
    assert kept is not None
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, -1e-38], np.float32)
    for field in (kept.h, kept.delta_v, kept.delta_scale, kept.scale):
        field[:] = odd
    again = load_run(saved(run)).vectors(1, 0)
    assert same(kept, again)


def overflowed(**options: Any) -> Run:
    """A run whose layer 3 of 4 is no number at step 1, for every variant; layer 0 is not patched."""
    run = synthetic_run(
        4, 8, 3, updates=["direct", "stable"], dtypes=["float16"], first_layer=1, replays=["batch"], **options
    )
    for name in ("h_abs_min", "gate_ratio", "output_error", "output_max_abs", "drift_batch", "cosine"):
        run._fields[name].array[1, :, 3] = np.inf
    run._fields["down_ratio"].array[1, 1, 3] = run._fields["multiplier"].array[1, 1, 3] = np.inf
    run._fields["solver_case"].array[1, 1, 3] = SOLVER_CASES.index("no input")
    for name in ("tvd", "logit_linf", "kl", "replay_batch_tvd", "replay_batch_shift"):
        run._series[name].array[1] = np.inf
    run._series["rank"].array[1] = -1
    run._references["unpatched_tvd"].array[1] = np.inf
    (baseline,) = run._baselines[1]
    run._baselines[1] = (dataclasses.replace(baseline, margin=float("inf")),)
    for i in range(2):
        kept = run.vectors(1, i)
        assert kept is not None
        kept.h[3, 2:], kept.delta_v[3] = np.inf, np.inf
        kept.delta_v[2, 1] = -np.inf
    return run


def test_no_number_is_infinite_in_the_file_and_comes_back() -> None:
    run = overflowed()
    bundle = saved(run)
    assert differences(run, load_run(bundle)) == []
    tables = {n: pq.read_table(io.BytesIO(parts_of(bundle)[f"{n}.parquet"])) for n in ("steps", "layers")}
    assert np.isinf(tables["steps"]["tvd"].to_numpy()).tolist() == [False, False, True, True, False, False]
    assert np.isinf(tables["steps"]["baseline_margin"].to_numpy()[2:4]).all()
    assert json.loads(parts_of(bundle)["run.json"])["steps"][1]["baselines"][0]["margin"] is None
    multiplier = tables["layers"].filter(pa.array(np.arange(24) // 8 == 1))["multiplier"].to_pylist()
    assert multiplier[:4] == [None] * 4, "direct has none"
    assert multiplier[4] is None, "not patched"
    assert multiplier[7] == float("inf")


def as_version_2(bundle: bytes) -> bytes:
    """As it was written before the two were told apart."""
    parts = parts_of(bundle)
    for name in ("steps", "layers", "coordinates"):

        def without_infinities(table: pa.Table) -> pa.Table:
            for i, column in enumerate(table.column_names):
                if pa.types.is_floating(table[column].type):
                    values = table[column].to_numpy()
                    values = np.where(np.isinf(values), np.nan, values).astype(values.dtype)
                    table = table.set_column(i, column, pa.array(values, from_pandas=True))
            return table

        parts = retabled(parts, f"{name}.parquet", without_infinities)
    about = json.loads(parts["run.json"]) | {"schema_version": 2}
    return packed(parts | {"run.json": json.dumps(about).encode()})


def test_an_older_null_of_what_is_always_computed_is_no_number() -> None:
    run = overflowed(seed=1)
    for i in range(2):
        kept = run.vectors(1, i)
        assert kept is not None
        # A null has no sign.
        kept.delta_v[2, 1] = np.inf
    old = load_run(as_version_2(saved(run)))
    # A reference may have been left unmeasured.
    assert np.isnan(old.reference("unpatched_tvd", "float16")[1])
    run._references["unpatched_tvd"].array[1] = np.nan
    assert differences(run, old) == []
    assert np.isnan(old.field("h_abs_min", 0)[0]).all(), "not patched"
    assert np.isnan(old.field("down_ratio", 0)).all(), "direct leaves W_down alone"
    assert np.isnan(old.field("drift_ulp", 0)).all(), "not asked for"
    assert np.isnan(old.replay("ulp", "tvd", 0)).all()
    # Since the third version a null is what was not measured.
    new = json.loads(parts_of(as_version_2(saved(run)))["run.json"]) | {"schema_version": 3}
    told = load_run(packed(parts_of(as_version_2(saved(run))) | {"run.json": json.dumps(new).encode()}))
    assert np.isnan(told.series("tvd", 0)[1])


def test_only_the_kept_vectors_are_written_and_m_is_held_once() -> None:
    run = synthetic_run(**SMALL)
    del run._vectors[0, 0], run._vectors[0, 1]
    run.forgotten_vectors = 2
    again = load_run(saved(run))
    assert differences(run, again) == []
    first, last = again.vectors(1, 0), again.vectors(4, 1)
    assert first is not None
    assert last is not None
    assert first.scale is last.scale
    assert load_run(saved(run, vectors=False)).vectors(4, 0) is None


def test_vectors_past_the_budget_are_forgotten_and_counted() -> None:
    run = synthetic_run(**SMALL)
    run.settings = dataclasses.replace(run.settings, vector_budget=3 * 6 * 16 * (3 * 4 + 2))
    again = load_run(saved(run))
    assert (again.forgotten_vectors, again.vectors(4, 3) is None, again.vectors(4, 0) is None) == (
        17,
        False,
        True,
    )


def test_the_same_run_gives_the_same_bytes_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first = saved(synthetic_run(**SMALL))
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert saved(synthetic_run(**SMALL)) == first


def test_lone_surrogates_are_replaced_in_the_run_and_in_the_table() -> None:
    run = synthetic_run(**SMALL, texts=["\ud800x", "é\udfff", "\x00", "𝄞"])
    bundle = saved(run)
    again = load_run(bundle)
    assert [again.token(k)[4] for k in range(4)] == ["\ufffdx", "é\ufffd", "\x00", "𝄞"]
    texts = pq.read_table(io.BytesIO(parts_of(bundle)["steps.parquet"]))["next_text"].to_pylist()
    assert texts[::4] == ["\ufffdx", "é\ufffd", "\x00", "𝄞", "\ufffdx"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new folder" / "a.ctxviz"
    save_run(synthetic_run(**SMALL), path)
    old = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_run(synthetic_run(**SMALL, seed=1), path)
    assert path.read_bytes() == old
    assert list(path.parent.iterdir()) == [path]


def query(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        return database.execute(sql).fetchall()


def test_pandas_and_duckdb_read_the_tables_without_us(tmp_path: Path) -> None:
    run = synthetic_run(**SMALL)
    for name, data in parts_of(saved(run)).items():
        (tmp_path / name).write_bytes(data)
    steps = pd.read_parquet(tmp_path / "steps.parquet")
    assert list(steps["next_text"][::4]) == [run.token(k)[4] for k in range(5)]
    stable = steps[(steps["update"] == "stable") & (steps["dtype"] == "bfloat16")]
    np.testing.assert_array_equal(stable["tvd"], run.series("tvd", 3))
    assert steps["noise_floor_tvd"].isna().tolist() == [False] * 12 + [True] * 4 + [False] * 4
    smallest = query(
        f"select step, layer, coordinate, h from '{tmp_path}/coordinates.parquet' order by abs(h) limit 1"
    )
    assert smallest[0][:3] == (2, 4, 15)
    assert smallest[0][3] == pytest.approx(3e-8)
    worst = query(
        f"select update, dtype, max(scale_ratio), any_value(solver_case) from '{tmp_path}/layers.parquet'"
        " group by all order by update, dtype"
    )
    assert [row[:2] for row in worst] == [
        (u, d) for u in ("direct", "stable") for d in ("bfloat16", "float32")
    ]
    assert worst[1][2] == pytest.approx(run.field("scale_ratio", 0).max())
    assert {row[3] for row in worst} <= set(SOLVER_CASES)
    joined = query(
        f"select count(*) from '{tmp_path}/coordinates.parquet' join '{tmp_path}/steps.parquet'"
        " using (step, update, arithmetic, dtype)"
    )
    assert joined == [(5 * 4 * 6 * 16,)]


def test_what_was_not_measured_is_null_and_never_nan(parts: dict[str, bytes]) -> None:
    run = synthetic_run(4, 8, 3, updates=["direct"], first_layer=2, dtypes=["float32"])
    tables = {
        n: pq.read_table(io.BytesIO(d)) for n, d in parts_of(saved(run)).items() if n.endswith("parquet")
    }
    nulls = {(n, c): t[c].null_count for n, t in tables.items() for c in t.column_names if t[c].null_count}
    unpatched = ("scale_ratio", "scale_argmax", "h_abs_min", "dead", "gate_ratio", "solver_case")
    assert {c: nulls["layers.parquet", c] for c in unpatched} == dict.fromkeys(unpatched, 3 * 2)
    assert nulls["layers.parquet", "down_ratio"] == nulls["layers.parquet", "multiplier"] == 3 * 4
    assert ("layers.parquet", "cosine") not in nulls
    assert {c: nulls["coordinates.parquet", c] for c in ("h", "delta_v", "delta_m")} == dict.fromkeys(
        ("h", "delta_v", "delta_m"), 3 * 2 * 8
    )
    assert nulls["steps.parquet", "floor"] == 3
    for table in tables.values():
        for values in table.columns:
            if pa.types.is_floating(values.type):
                assert not np.isnan(values.drop_null().to_numpy()).any()


def test_a_million_coordinates_take_few_bytes() -> None:
    bundle = saved(synthetic_run(18, 640, 24))
    rows = 18 * 640 * 24 * 4
    assert len(bundle) < 9 * rows, "16 bytes of float32 a row, m and the row's names nearly free"
    again = load_run(bundle)
    assert again.vectors(23, 3) is not None


def test_a_table_rewritten_by_another_tool_is_accepted(parts: dict[str, bytes]) -> None:
    run = load_run(packed(parts))
    for name in PARTS[1:]:
        assert differences(run, load_run(packed(retabled(parts, name, lambda t: t)))) == []


def test_more_images_do_not_matter(parts: dict[str, bytes]) -> None:
    assert len(load_run(packed(parts | {"images/0.png": b"x", "patches/a.safetensors": b"y"}))) == 5


def test_a_run_too_large_to_be_read_back_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    run = synthetic_run(**SMALL)
    monkeypatch.setattr("ctxviz.store.bundle.COORDINATE_ROWS", 100)
    with pytest.raises(BundleError, match="save it without them"):
        saved(run)
    assert load_run(saved(run, vectors=False)).vectors(0, 0) is None
    monkeypatch.setattr("ctxviz.store.bundle.STEPS", 4)
    with pytest.raises(BundleError, match="too long"):
        saved(run, vectors=False)


def test_a_growing_run_is_saved_as_it_was_at_one_moment() -> None:
    run = synthetic_run(**SMALL)
    run._length = 3
    assert len(load_run(saved(run))) == 3


def test_records_that_hold_nothing_are_kept() -> None:
    run = synthetic_run(2, 4, 1)
    nothing = TopTokens(np.zeros(0, np.int32), np.zeros(0, np.float32), ())
    run._tops[0] = (nothing,) * 4
    run._vectors[0, 0] = LayerVectors(
        *(np.full((2, 4), np.nan, np.float32) for _ in range(5)), *(np.zeros((2, 4), bool) for _ in range(2))
    )
    assert differences(run, load_run(saved(run))) == []


def test_replays_and_what_is_held_come_back() -> None:
    run = synthetic_run(**SMALL, replays=("same", "batch", "ulp"), hold=2, budget=True)
    again = load_run(saved(run))
    assert differences(run, again) == []
    assert again.replayed == ("same", "batch", "ulp", "held")
    assert np.isnan(again.replay("held", "tvd", 0)[:2]).all()
    assert np.isfinite(again.replay("held", "tvd", 0)[2:]).all()
    assert np.isfinite(again.reference("eager_tvd", "float32")).any()


def test_a_run_of_the_first_schema_version_opens() -> None:
    run = synthetic_run(**SMALL)
    parts = parts_of(saved(run))
    about = json.loads(parts["run.json"])
    about["schema_version"] = 1
    for name in ("replays", "hold", "budget"):
        del about["settings"][name]
    parts["run.json"] = json.dumps(about).encode()
    for name in ("steps", "layers", "coordinates"):
        gone = ("replay_", "drift_", "eager", "float32_", "float64_", "output_max", "w")
        own = () if name == "layers" else ("uncontrolled", "swallowed")

        def older(table: pa.Table, gone: tuple[str, ...] = gone, own: tuple[str, ...] = own) -> pa.Table:
            return table.drop_columns([c for c in table.column_names if c.startswith(gone) or c in own])

        parts = retabled(parts, f"{name}.parquet", older)
    old = load_run(packed(parts))
    assert old.replayed == ()
    kept, before = old.vectors(0, 0), run.vectors(0, 0)
    assert kept is not None
    assert before is not None
    assert np.isnan(kept.stored).all()
    assert same(kept.h, before.h)
    assert np.isnan(old.field("output_max_abs", 0)).all()
