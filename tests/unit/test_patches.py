"""Exported patches: the tensors and metadata that others rely on, and files that are no patches."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

from ctxviz.errors import BundleError
from ctxviz.folds import Fold
from ctxviz.records import LayerPatch, Rank1Update, Replay, Step, VectorUpdate
from ctxviz.run import Run
from ctxviz.settings import Variant
from ctxviz.store import load_patch, patch_file_name, save_patch
from tests.synthetic import (
    synthetic_context,
    synthetic_identity,
    synthetic_items,
    synthetic_patches,
    synthetic_run,
)

PATCHES = synthetic_patches()
NORM = "model.layers.1.post_feedforward_layernorm.weight"


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """The patches of step 3 of a run, its first variant."""
    settings = synthetic_run(2, 8, 0).settings
    run = Run(synthetic_identity(2, 8), synthetic_context(Fold()), settings)
    steps = [item for item in synthetic_items(run, 4) if isinstance(item, Step)]
    for step in steps:
        run.append(step)
    last = steps[-1]
    result = dataclasses.replace(last.variants[0], patches=PATCHES)
    return save_patch(tmp_path / "new" / "patches", run, last, result)


def test_the_file_holds_the_contract_to_the_letter(exported: Path) -> None:
    with safe_open(str(exported), framework="numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    names = "format model dtype step position context_ids kept_ids kept_positions update first_layer"
    assert set(metadata) == {*names.split(), "built_tvd", "built_same_token"}
    assert metadata["format"] == "ctxviz-patch/1"
    assert (metadata["model"], metadata["dtype"], metadata["update"]) == ("synthetic", "float32", "direct")
    assert (metadata["step"], metadata["position"], metadata["first_layer"]) == ("3", "12", "0")
    assert json.loads(metadata["context_ids"]) == [*range(2, 12), 100, 101, 102]
    assert json.loads(metadata["kept_ids"]) == [102]
    assert json.loads(metadata["kept_positions"]) == [12]
    expected = {}
    for update in (update for patch in PATCHES for update in patch.updates):
        if isinstance(update, Rank1Update):
            expected |= {f"{update.parameter}.left": update.left, f"{update.parameter}.right": update.right}
        else:
            expected[f"{update.parameter}.delta"] = update.delta
    assert set(tensors) == set(expected)
    for name, tensor in tensors.items():
        assert tensor.dtype == np.float32
        np.testing.assert_array_equal(tensor, expected[name])


def test_patches_come_back_by_layer(exported: Path) -> None:
    patches, metadata = load_patch(exported)
    assert metadata["step"] == "3"
    assert [patch.layer for patch in patches] == [0, 1]
    for got, meant in zip(patches, PATCHES, strict=True):
        theirs = {update.parameter: update for update in meant.updates}
        assert [u.parameter for u in got.updates] == sorted(theirs)
        for update in got.updates:
            other = theirs[update.parameter]
            assert type(update) is type(other)
            for field in dataclasses.fields(update)[1:]:
                np.testing.assert_array_equal(getattr(update, field.name), getattr(other, field.name))


def test_a_strided_or_wider_factor_is_written_as_it_is_meant(exported: Path, tmp_path: Path) -> None:
    wide = np.arange(16, dtype=np.float64)[::2]
    run = synthetic_run(2, 8, 1)
    step = next(item for item in synthetic_items(run, 1) if isinstance(item, Step))
    patch = LayerPatch(1, (VectorUpdate(NORM, wide),))  # type: ignore[arg-type]
    path = save_patch(tmp_path, run, step, dataclasses.replace(step.variants[0], patches=(patch,)))
    update = load_patch(path)[0][0].updates[0]
    assert isinstance(update, VectorUpdate)
    np.testing.assert_array_equal(update.delta, wide.astype(np.float32))


def test_names_sort_by_step_and_tell_the_variants_apart(exported: Path) -> None:
    assert exported.name == "step00003-direct-written-float32-from0.safetensors"
    variants = synthetic_run(
        2, 8, 0, updates=["floored", "stable"], arithmetics=["written", "factored"]
    ).variants
    names = [patch_file_name(step, variant) for step in (9, 10, 100) for variant in variants]
    assert len(set(names)) == len(names) == 24
    assert [name[:9] for name in sorted(names)[::8]] == ["step00009", "step00010", "step00100"]
    assert "0.6" in patch_file_name(0, Variant("floored", "written", "float32", 2, 0.6))


def test_a_step_without_patches_is_a_mistake(tmp_path: Path) -> None:
    run = synthetic_run(2, 8, 1)
    step = next(item for item in synthetic_items(run, 1) if isinstance(item, Step))
    with pytest.raises(ValueError, match="no patches"):
        save_patch(tmp_path, run, step, step.variants[0])


def metadata_of(folder: Path, **changes: object) -> dict[str, str]:
    run = synthetic_run(2, 8, 1)
    step = next(item for item in synthetic_items(run, 1) if isinstance(item, Step))
    result = dataclasses.replace(step.variants[0], **({"patches": PATCHES, "replays": ()} | changes))
    return load_patch(save_patch(folder, run, step, result))[1]


def test_the_file_tells_what_the_run_has_measured_of_it(tmp_path: Path) -> None:
    assert metadata_of(tmp_path, tvd=3e-7, match=True)["built_tvd"] == "3e-07"
    replays = tuple(
        Replay(kind, tvd < 0.5, tvd, 0.0, 0.1)
        for kind, tvd in (("same", 3e-7), ("batch", 0.1), ("ulp", 0.99))
    )
    told = metadata_of(tmp_path, tvd=3e-7, match=True, replays=replays)
    assert {key: told[key] for key in told if key.endswith(("tvd", "token"))} == {
        "built_tvd": "3e-07",
        "built_same_token": "true",
        "measured_tvd": "3e-07",
        "measured_same_token": "true",
        "measured_ulp_tvd": "0.99",
        "measured_ulp_same_token": "false",
    }
    assert metadata_of(tmp_path, tvd=np.inf, match=False)["built_tvd"] == "no number"
    factored = dataclasses.replace(synthetic_run(2, 8, 1).variants[0], arithmetic="factored")
    told = metadata_of(tmp_path, variant=factored, replays=replays)
    assert not any(key.endswith("tvd") for key in told), "branches were measured, not the file's weights"


def test_a_place_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = synthetic_run(2, 8, 1)
    step = next(item for item in synthetic_items(run, 1) if isinstance(item, Step))
    with pytest.raises(OSError, match="file"):
        save_patch(tmp_path / "file", run, step, dataclasses.replace(step.variants[0], patches=PATCHES))


def rewritten(path: Path, **changes: np.ndarray | None) -> Path:
    """The patch file with tensors replaced, added, or (None) left out."""
    tensors = safetensors.numpy.load_file(path)
    tensors = {n: t for n, t in (tensors | changes).items() if t is not None}
    safetensors.numpy.save_file(tensors, path, load_patch(path)[1])
    return path


BAD_TENSORS: dict[str, dict[str, np.ndarray | None]] = {
    "left without right": {"model.layers.0.mlp.gate_proj.weight.right": None},
    "right without left": {"model.layers.0.mlp.gate_proj.weight.left": None},
    "float64": {f"{NORM}.delta": np.zeros(8)},
    "a matrix": {f"{NORM}.delta": np.zeros((2, 4), np.float32)},
    "no layer": {"lm_head.weight.delta": np.zeros(8, np.float32)},
    "another part": {f"{NORM}.scale": np.zeros(8, np.float32)},
}


@pytest.mark.parametrize("changes", BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_tensors_that_are_no_patch_are_refused(exported: Path, changes: dict[str, np.ndarray | None]) -> None:
    with pytest.raises(BundleError, match="cannot be used as a patch"):
        load_patch(rewritten(exported, **changes))


def test_files_that_are_no_patch_are_refused(exported: Path, tmp_path: Path) -> None:
    whole = exported.read_bytes()
    other = tmp_path / "x.safetensors"
    for data in (
        b"",
        b"PK\3\4",
        whole[:100],
        whole[:-1],
        b"\xff" * 8 + whole[8:],
        whole[:9] + b"\0" + whole[10:],
    ):
        other.write_bytes(data)
        with pytest.raises(BundleError, match="safetensors"):
            load_patch(other)
    safetensors.numpy.save_file({"a": np.zeros(1)}, other)
    with pytest.raises(BundleError, match="format is not ctxviz-patch/1"):
        load_patch(other)
    for place in (tmp_path / "absent", tmp_path, "a\0b"):
        with pytest.raises(BundleError, match="cannot be used"):
            load_patch(place)
