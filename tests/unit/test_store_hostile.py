"""Bundles that are broken or hostile: each is refused in one clear sentence."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ctxviz.errors import BundleError
from ctxviz.store import archive, load_run
from tests.bundles import PARTS, SMALL, packed, parts_of, retabled, saved
from tests.synthetic import synthetic_run


@pytest.fixture(scope="module")
def parts() -> dict[str, bytes]:
    return parts_of(saved(synthetic_run(**SMALL)))


def described(parts: dict[str, bytes], change: Callable[[dict[str, Any]], None]) -> dict[str, bytes]:
    """``parts`` with a change of its run.json."""
    run = json.loads(parts["run.json"])
    change(run)
    return parts | {"run.json": json.dumps(run).encode()}


def put(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(run: dict[str, Any]) -> None:
        at: Any = run
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


def column(name: str, values: Callable[[pa.ChunkedArray], Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda t: t.set_column(t.column_names.index(name), name, values(t[name]))


def set_first(values: pa.ChunkedArray, number: float) -> pa.Array:
    """The column with another first number, stored as it is."""
    found = values.to_numpy().copy()
    found[0] = number
    return pa.array(found, mask=np.append(False, values.is_null().to_numpy()[1:]))


def swapped(t: pa.Table) -> pa.Table:
    cells = 6 * 16
    return pa.concat_tables([t.slice(cells, cells), t.slice(0, cells), t.slice(2 * cells)])


BAD_DESCRIPTIONS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "another format": (put("format", value="zip"), "does not describe"),
    "newer": (put("schema_version", value=7), "version 7, newer than the 3 read here; update"),
    "older": (put("schema_version", value=0), "version 0, older than the 1 read here; open it with"),
    "version as text": (put("schema_version", value="1"), "schema version"),
    "version as a flag": (put("schema_version", value=True), "schema version"),
    "a billion layers": (put("model", "n_layers", value=10**9), "n_layers"),
    "no layer": (put("model", "n_layers", value=0), "n_layers"),
    "another number of layers": (put("model", "n_layers", value=5), "layers table has 120 rows"),
    "huge width": (put("model", "width", value=2**40), "width"),
    "another width": (put("model", "width", value=17), "incomplete"),
    "another shape of the same size": (lambda r: r["model"].update(n_layers=6, width=32), "coordinates"),
    "layers as text": (put("model", "n_layers", value="6"), "n_layers"),
    "layers as a fraction": (put("model", "n_layers", value=6.0), "n_layers"),
    "model as a list": (put("model", value=[]), "model of run.json is not an object"),
    "no name": (lambda r: r["model"].pop("name"), "has no name"),
    "name of 100,000 letters": (put("model", "name", value="x" * 10**5), "name"),
    "libraries": (put("model", "libraries", value=[["numpy"]]), "libraries"),
    "unknown rule": (put("settings", "updates", value=["magic"]), "Unknown update rule"),
    "unknown dtype": (put("settings", "dtypes", value=["int4"]), "Unknown dtype"),
    "rule as a number": (put("settings", "updates", value=[1]), "updates"),
    "one dtype less": (put("settings", "dtypes", value=["float32"]), "variants"),
    "floor of 7": (put("settings", "floor", value=7), "floor"),
    "floor null": (put("settings", "floor", value=None), "floor"),
    "fold past the prompt": (put("context", "fold", value="2:900"), "reaches past its prompt of"),
    "fold of the settings past the prompt": (
        put("settings", "fold", value="2:900"),
        "reaches past its prompt",
    ),
    "a prompt without tokens": (
        lambda r: r["context"].update(token_ids=[], token_texts=[]),
        "prompt has no tokens",
    ),
    "negative id": (put("context", "token_ids", 0, value=-1), "token_ids"),
    "negative id of a top": (put("steps", 0, "tops", 0, "ids", 0, value=-5), "ids"),
    "negative seconds": (put("steps", 0, "seconds", value=-1), "seconds"),
    "negative margin": (put("steps", 0, "baselines", 0, "margin", value=-0.5), "margin"),
    "fold of nothing": (put("context", "fold", value="4:4"), "fold"),
    "ids and texts": (put("context", "token_ids", value=[1, 2]), "tokens"),
    "huge id": (put("context", "token_ids", value=[2**40] * 10), "token_ids"),
    "prompt as null": (put("context", "prompt", value=None), "prompt"),
    "a step less": (lambda r: r["steps"].pop(), "steps table has 20 rows where its run.json asks for 16"),
    "a step more": (lambda r: r["steps"].append(r["steps"][0]), "steps table has 20 rows"),
    "negative position": (put("steps", 0, "position", value=-1), "position"),
    "text as a list": (put("steps", 0, "text", value=[]), "text"),
    "a top less": (lambda r: r["steps"][0]["tops"].pop(), "variants"),
    "columns of a top": (lambda r: r["steps"][0]["tops"][0]["ids"].pop(), "different lengths"),
    "probability of 2": (put("steps", 0, "tops", 0, "probabilities", 0, value=2), "probability"),
    "margin as text": (put("steps", 0, "baselines", 0, "margin", value="1"), "margin"),
    "seconds beyond floats": (put("steps", 0, "seconds", value=10**400), "seconds"),
    "dtype of a baseline": (put("steps", 0, "baselines", 0, "dtype", value="float64"), "variants"),
    "steps as an object": (put("steps", value={}), "steps"),
}


@pytest.mark.parametrize(("change", "words"), BAD_DESCRIPTIONS.values(), ids=BAD_DESCRIPTIONS)
def test_a_description_that_is_wrong_is_refused(
    parts: dict[str, bytes], change: Callable[[dict[str, Any]], None], words: str
) -> None:
    refused(packed(described(parts, change)), words)


BAD_JSON: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "not JSON": (lambda _: b"{", "not valid JSON"),
    "a list": (lambda _: b"[]", "not an object"),
    "not UTF-8": (lambda j: j.replace(b"Synthetic", b"Syn\xff\xfe"), "UTF-8"),
    "UTF-16": (lambda j: j.decode().encode("utf-16"), "UTF-8"),
    "NaN": (lambda j: j.replace(b'"floor":0.6', b'"floor":NaN'), "NaN"),
    "Infinity": (lambda j: j.replace(b'"floor":0.6', b'"floor":-Infinity'), "Infinity"),
    "1e999": (lambda j: j.replace(b'"floor":0.6', b'"floor":1e999'), "too large"),
    "a number of 5000 digits": (
        lambda j: j.replace(b'"floor":0.6', b'"floor":' + b"9" * 5000),
        "not valid JSON",
    ),
    "a key twice": (lambda j: j.replace(b'"floor":0.6', b'"floor":0.6,"floor":0.5'), "repeats a key"),
    "deep": (lambda _: b"[" * 200_000 + b"]" * 200_000, "nested"),
    "empty": (lambda _: b"", "not valid JSON"),
}


@pytest.mark.parametrize(("change", "words"), BAD_JSON.values(), ids=BAD_JSON)
def test_json_that_is_not_strict_is_refused(
    parts: dict[str, bytes], change: Callable[[bytes], bytes], words: str
) -> None:
    changed = change(parts["run.json"])
    assert changed != parts["run.json"]
    refused(packed(parts | {"run.json": changed}), words)


BAD_TABLES: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "a row less": ("steps.parquet", lambda t: t.slice(1), "rows"),
    "steps reversed": ("steps.parquet", column("step", lambda c: c.take(list(range(19, -1, -1)))), "step"),
    "no tvd": ("steps.parquet", lambda t: t.drop_columns(["tvd"]), "no column tvd"),
    "tvd as text": ("steps.parquet", column("tvd", lambda c: c.cast(pa.string())), "tvd"),
    "match as a number": ("steps.parquet", column("match", lambda c: c.cast(pa.int32())), "match"),
    "match null": (
        "steps.parquet",
        column("match", lambda c: pa.array([None] * len(c), pa.bool_())),
        "match",
    ),
    "another rule": ("steps.parquet", column("update", lambda c: pa.array(["stable"] * len(c))), "variant"),
    "an unknown rule": (
        "steps.parquet",
        column("update", lambda c: pa.array(["x"] * len(c))),
        "unknown word",
    ),
    "rules as numbers": ("steps.parquet", column("update", lambda c: pa.array([1] * len(c))), "update"),
    "rules null": (
        "steps.parquet",
        column("update", lambda c: pa.array([None] * len(c), pa.string())),
        "variant",
    ),
    "another first layer": (
        "steps.parquet",
        column("first_layer", lambda c: pa.array([3] * len(c), pa.int32())),
        "first_layer",
    ),
    "a floor": ("steps.parquet", column("floor", lambda c: pa.array([0.5] * len(c))), "floor"),
    "layers out of order": (
        "layers.parquet",
        column("layer", lambda c: c.take(list(range(119, -1, -1)))),
        "layer",
    ),
    "a metric in float64": (
        "layers.parquet",
        column("scale_ratio", lambda c: c.cast(pa.float64())),
        "scale_ratio",
    ),
    "an unknown case": (
        "layers.parquet",
        column("solver_case", lambda c: pa.array(["x"] * len(c))),
        "unknown word",
    ),
    "a NaN that is stored": (
        "steps.parquet",
        column("kl", lambda c: set_first(c, np.nan)),
        "column kl of its steps table holds NaN",
    ),
    "a NaN in a layer": ("layers.parquet", column("h_abs_min", lambda c: set_first(c, np.nan)), "holds NaN"),
    "a NaN in a cell": ("coordinates.parquet", column("h", lambda c: set_first(c, np.nan)), "holds NaN"),
    "endless seconds": ("steps.parquet", column("seconds", lambda c: set_first(c, np.inf)), "never is"),
    "an infinite match": (
        "steps.parquet",
        column("replay_batch_match", lambda c: set_first(c, np.inf)),
        "never is",
    ),
    "minus infinity": ("steps.parquet", column("tvd", lambda c: set_first(c, -np.inf)), "below 0"),
    "half a layer": ("coordinates.parquet", lambda t: t.slice(0, len(t) - 8), "incomplete"),
    "blocks swapped": ("coordinates.parquet", swapped, "out of order"),
    "a block twice": ("coordinates.parquet", lambda t: pa.concat_tables([t.slice(0, 96), t]), "out of order"),
    "coordinates reversed": (
        "coordinates.parquet",
        column("coordinate", lambda c: c.take(list(range(len(c) - 1, -1, -1)))),
        "coordinate",
    ),
    "a step too far": (
        "coordinates.parquet",
        column("step", lambda c: pa.array([5] * len(c), pa.int32())),
        "other steps",
    ),
    "a negative step": (
        "coordinates.parquet",
        column("step", lambda c: pa.array([-1] * len(c), pa.int32())),
        "other steps",
    ),
    "h as whole numbers": (
        "coordinates.parquet",
        column("h", lambda c: pa.array([1] * len(c), pa.int32())),
        "column h",
    ),
    "mixed variants": (
        "coordinates.parquet",
        column("update", lambda c: pa.array(["direct", "stable"] * (len(c) // 2))),
        "variant",
    ),
}


@pytest.mark.parametrize(("name", "change", "words"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_table_that_disagrees_is_refused(
    parts: dict[str, bytes], name: str, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    refused(packed(retabled(parts, name, change)), words)


def negative(values: pa.ChunkedArray) -> pa.Array:
    return pa.array([-3] * len(values), values.type)


@pytest.mark.parametrize(
    ("table", "name"),
    [("steps", "tvd"), ("steps", "seconds"), ("steps", "rank"), ("layers", "dead"), ("layers", "h_argmin")],
)
def test_counts_and_distances_below_what_they_can_be_are_refused(
    parts: dict[str, bytes], table: str, name: str
) -> None:
    changed = retabled(parts, f"{table}.parquet", column(name, negative))
    refused(packed(changed), "holds a number below")


@pytest.mark.parametrize("name", ["tvd", "unpatched_tvd", "replay_batch_tvd"])
def test_a_distance_above_one_is_refused(parts: dict[str, bytes], name: str) -> None:
    def far(values: pa.ChunkedArray) -> pa.Array:
        return pa.array([1e308] * len(values), values.type)

    refused(packed(retabled(parts, "steps.parquet", column(name, far))), "holds a number above 1")


def test_what_a_model_that_overflowed_leaves_is_opened(parts: dict[str, bytes]) -> None:
    nothing = {"ids": [], "probabilities": [], "texts": []}
    run = load_run(packed(described(parts, put("steps", 0, "tops", 0, value=nothing))))
    assert len(run.top(0, 0).ids) == 0


def test_pipes_and_devices_are_refused_unopened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ctxviz")
    refused(tmp_path / "pipe.ctxviz", "not a regular file")
    (tmp_path / "zero.ctxviz").symlink_to("/dev/zero")
    refused(tmp_path / "zero.ctxviz", "not a regular file")


@pytest.mark.timeout(20)
def test_a_run_file_that_becomes_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.ctxviz"
    target.touch()
    status = target.stat()
    target.unlink()
    os.mkfifo(target)
    monkeypatch.setattr(Path, "stat", lambda *_, **__: status)
    monkeypatch.setattr(os.path, "isfile", lambda _: True)
    refused(target, "not a regular file")


def test_lone_surrogates_anywhere_are_replaced(parts: dict[str, bytes]) -> None:
    def change(run: dict[str, Any]) -> None:
        run["model"]["name"] = run["outcome"] = run["context"]["prompt"] = "a\ud800b"
        run["model"]["libraries"] = [["\udfff", "1"]]
        run["context"]["token_texts"][0] = run["steps"][0]["text"] = "\udc80"
        run["steps"][0]["tops"][0]["texts"][0] = "\udc80"

    run = load_run(packed(described(parts, change)))
    assert run.model.name == run.outcome == run.context.prompt == "a\ufffdb"
    assert run.model.libraries == (("\ufffd", "1"),)
    assert (run.context.token_texts[0], run.token(0)[2], run.top(0, 0).texts[0]) == ("\ufffd",) * 3


def refused(bundle: Any, words: str) -> None:
    """The bundle is refused in one clear sentence that holds ``words``."""
    with pytest.raises(BundleError) as caught:
        load_run(bundle)
    sentence = str(caught.value)
    assert words in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400
    assert sentence.endswith(".")


def with_end(bundle: bytes, **fields: int) -> bytes:
    """The zip with fields of its last record replaced."""
    names = ("entries_here", "entries", "size", "offset", "comment")
    head, values = bundle[:-14], dict(zip(names, struct.unpack("<2H2LH", bundle[-14:]), strict=True))
    return head + struct.pack("<2H2LH", *(values | fields).values())


def zipped(entries: list[tuple[str, bytes]], **options: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as file:
        for name, data in entries:
            file.writestr(zipfile.ZipInfo(name), data, options.get("compression"))
    return out.getvalue()


def test_files_that_are_no_bundle_are_refused(parts: dict[str, bytes], tmp_path: Path) -> None:
    bundle = packed(parts)
    refused(b"", "empty")
    refused(b"%PDF-1.7 something else", "not a ctxviz run")
    refused(b"PK\3\4", "cut short")
    refused(bundle + b"more", "added")
    refused(zipped([("readme.txt", b"hello")]), "run.json is missing")
    refused(zipped([("run.json", parts["run.json"])]), "steps.parquet is missing")
    for name in PARTS:
        refused(packed({n: d for n, d in parts.items() if n != name}), f"{name} is missing")
    for bad in (tmp_path / "absent.ctxviz", tmp_path, "a\0b"):
        refused(bad, "cannot be read")


def test_truncated_bundles_are_refused(parts: dict[str, bytes]) -> None:
    bundle = packed(parts)
    for length in range(1, len(bundle), len(bundle) // 60):
        with pytest.raises(BundleError):
            load_run(bundle[:length])


def test_damaged_bytes_are_refused_or_harmless(parts: dict[str, bytes]) -> None:
    """The zip's checksums are made to fit again, so that the damage reaches the readers inside."""
    rng = np.random.default_rng(0)
    refusals = 0
    for name in PARTS:
        for _ in range(25):
            damaged = bytearray(parts[name])
            for at in rng.integers(0, len(damaged), 4):
                damaged[at] = rng.integers(0, 256)
            try:
                load_run(packed(parts | {name: bytes(damaged)}))
            except BundleError:
                refusals += 1
    assert refusals > 40


def test_zip_bombs_are_refused(parts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    rest = [(name, parts[name]) for name in PARTS[1:]]
    deflated = {"compression": zipfile.ZIP_DEFLATED}
    refused(zipped([("run.json", b" " * 2**24), *rest], **deflated), "far more than its size")
    noise = zlib.compress(bytes(2**20), 0)
    refused(zipped([("run.json", (noise * 33)[: 33 * 2**20]), *rest]), "larger than 32 MiB")
    refused(zipped([*parts.items(), *((f"images/{i}", b"") for i in range(80))]), "too many files")
    refused(with_end(packed(parts), size=2**31), "too many files")
    refused(packed(parts)[:-22] + b"PK\6\7" + bytes(16) + packed(parts)[-22:], "too many files")
    monkeypatch.setattr(archive, "TOTAL_BYTES", 10_000)
    refused(packed(parts), "would unpack to more than")
    monkeypatch.setattr(archive, "FILE_BYTES", 100)
    refused(packed(parts), "larger than")


def test_a_size_that_the_zip_lies_about_is_not_believed(parts: dict[str, bytes]) -> None:
    bundle = bytearray(zipped([("run.json", b" " * 2**22)], compression=zipfile.ZIP_DEFLATED))
    directory = bundle.rindex(b"PK\1\2")
    bundle[directory + 24 : directory + 28] = struct.pack("<L", 100)
    for name in PARTS[1:]:
        assert name not in parts_of(packed({"run.json": b""}))
    refused(bytes(bundle), "damaged")


@pytest.mark.parametrize("name", ["/etc/passwd", "../../x", "a/../../x", "..\\x", "C:x"])
def test_odd_names_are_refused_and_nothing_is_unpacked(
    parts: dict[str, bytes], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(packed(parts | {name: b"x"}), "unsafe name")
    assert list(tmp_path.iterdir()) == []


def test_names_twice_encryption_and_other_packings_are_refused(parts: dict[str, bytes]) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = zipped([*parts.items(), ("run.json", b"{}")])
    refused(twice, "same name twice")
    refused(zipped(list(parts.items()), compression=zipfile.ZIP_LZMA), "unknown way")
    encrypted = bytearray(packed(parts))
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1
    refused(bytes(encrypted), "encrypted")


def test_row_bombs_are_refused_before_they_are_read(
    parts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxviz.store.bundle.reading.read_steps", lambda *_: ({}, {}))
    monkeypatch.setattr("ctxviz.store.bundle.reading.read_layers", lambda *_: {})
    monkeypatch.setattr("ctxviz.store.reading._read", lambda *_: pytest.fail("the table was read"))
    million = retabled(parts, "coordinates.parquet", lambda t: t.take(np.zeros(2**20, np.int64)))
    assert len(million["coordinates.parquet"]) < 2**17, "a million equal rows are nearly free to send"
    monkeypatch.setattr("ctxviz.store.reading.COORDINATE_ROWS", 2**20 - 1)
    refused(packed(million), "too many rows")
    monkeypatch.undo()
    monkeypatch.setattr("ctxviz.store.reading.TABLE_ROWS", 2**20 - 1)
    refused(packed(million), "too many rows")
    monkeypatch.setattr("ctxviz.store.reading.TOTAL_BYTES", 1000)
    refused(packed(parts), "too large")
    monkeypatch.setattr("ctxviz.store.reading.ROW_GROUPS", 0)
    refused(packed(parts), "too many pieces")
