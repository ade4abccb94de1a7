"""One token's patches as a safetensors file that a stock model can be given without ctxviz."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from ctxviz.errors import BundleError
from ctxviz.exporting import step_metadata
from ctxviz.records import LayerPatch, Rank1Update, Step, VariantStep, VectorUpdate
from ctxviz.run import Run
from ctxviz.settings import Variant
from ctxviz.store.files import write_whole

FORMAT: Final = "ctxviz-patch/1"
KEYS: Final = (
    "format", "model", "dtype", "step", "position", "context_ids", "kept_ids", "kept_positions", "update",
    "first_layer",
)  # fmt: skip
_LAYER = re.compile(r"\.(\d{1,6})\.")


def patch_file_name(step: int, variant: Variant) -> str:
    """A name that sorts by step and is unique within a run."""
    return f"step{step:05d}-{variant.slug}.safetensors"


def save_patch(folder: str | Path, run: Run, step: Step, result: VariantStep) -> Path:
    """Write the patches of one step and variant of ``run`` into ``folder``, and say where.

    The metadata also hold what the run has measured of them.

    Raises:
        ValueError: the step was made without keeping its patches, or is not in the run yet.
        OSError: the file cannot be written.
    """
    if result.patches is None:
        raise ValueError("the step has no patches; ask the engine to keep them")
    new_ids = [run.token(k)[1] for k in range(1, step.index + 1)]
    path = Path(folder) / patch_file_name(step.index, result.variant)
    write_patch(
        path,
        result.patches,
        model=run.model.key,
        dtype=result.variant.dtype,
        step=step.index,
        position=step.position,
        context_ids=[*run.context.token_ids, *new_ids],
        kept_ids=step.kept_ids,
        kept_positions=step.kept_positions,
        update=result.variant.update,
        first_layer=result.variant.first_layer,
        image_sha256=run.context.image_sha256,
        measured=step_metadata(result),
    )
    return path


def write_patch(path: str | Path, patches: Sequence[LayerPatch], **about: Any) -> None:
    """Write :func:`patch_bytes` to ``path``, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    write_whole(Path(path), patch_bytes(patches, **about))


def patch_bytes(
    patches: Sequence[LayerPatch],
    *,
    model: str,
    dtype: str,
    step: int,
    position: int,
    context_ids: Sequence[int],
    kept_ids: Sequence[int],
    kept_positions: Sequence[int],
    update: str,
    first_layer: int,
    image_sha256: Sequence[str] = (),
    measured: Mapping[str, str] | None = None,
) -> bytes:
    """A safetensors file of ``P.left``, ``P.right`` and ``P.delta``, float32, with what they belong to as
    metadata; ``image_sha256``, of the context's pictures in order, only where it has any; ``measured``, of
    :mod:`ctxviz.exporting`, what the patch was seen to do."""
    tensors: dict[str, np.ndarray] = {}
    for change in (change for patch in patches for change in patch.updates):
        if isinstance(change, Rank1Update):
            factors = {"left": change.left, "right": change.right}
        else:
            factors = {"delta": change.delta}
        for name, factor in factors.items():
            tensors[f"{change.parameter}.{name}"] = np.ascontiguousarray(factor, np.float32)
    metadata = {
        **(measured or {}),
        "format": FORMAT,
        "model": model,
        "dtype": dtype,
        "step": str(step),
        "position": str(position),
        "context_ids": _json(context_ids),
        "kept_ids": _json(kept_ids),
        "kept_positions": _json(kept_positions),
        "update": update,
        "first_layer": str(first_layer),
    }
    if image_sha256:
        metadata["image_sha256"] = json.dumps(list(image_sha256))
    return safetensors.numpy.save(tensors, metadata)


def _json(ids: Sequence[int]) -> str:
    return json.dumps([int(i) for i in ids])


def load_patch(path: str | Path) -> tuple[tuple[LayerPatch, ...], dict[str, str]]:
    """Read a patch file back: the patches by layer, their parameters in order of name, and the metadata.

    Raises:
        BundleError: the file is not an exported patch.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise _not_a_patch(path, "it is not a regular file")
        with safe_open(str(path), framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            if metadata.get("format") != FORMAT or any(key not in metadata for key in KEYS):
                raise _not_a_patch(path, f"its format is not {FORMAT}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        raise _not_a_patch(
            path, getattr(error, "strerror", None) or "it is not an intact safetensors file"
        ) from None
    return _grouped(path, tensors), metadata


def _grouped(path: str | Path, tensors: dict[str, np.ndarray]) -> tuple[LayerPatch, ...]:
    layers: dict[int, list[Rank1Update | VectorUpdate]] = {}
    for name in sorted(tensors):
        if tensors[name].dtype != np.float32 or tensors[name].ndim != 1:
            raise _not_a_patch(path, f"{name[:80]} is not a float32 vector")
        parameter, _, part = name.rpartition(".")
        layer = _LAYER.search(parameter)
        partner = {"left": "right", "right": "left"}.get(part)
        if layer is None or (part != "delta" and f"{parameter}.{partner}" not in tensors):
            raise _not_a_patch(path, f"{name[:80]} does not name half of a known update")
        updates = layers.setdefault(int(layer[1]), [])
        if part == "delta":
            updates.append(VectorUpdate(parameter, tensors[name]))
        elif part == "left":
            updates.append(Rank1Update(parameter, tensors[name], tensors[f"{parameter}.right"]))
    return tuple(LayerPatch(layer, tuple(layers[layer])) for layer in sorted(layers))


def _not_a_patch(path: str | Path, reason: str) -> BundleError:
    return BundleError(
        f"{str(path)!r} cannot be used as a patch because {reason}; choose a file that ctxviz exported."
    )
