"""One token's patches as a PEFT adapter folder: rank-1 LoRA matrices and replaced post-norm vectors.

Only files are made here; PEFT itself is never imported. It looks for ``<module>.lora_A.weight``, and for
the whole weight of every module that its configuration lists under ``modules_to_save``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from ctxviz.errors import BundleError
from ctxviz.exporting import ExportCheck, Trial, adapter_metadata
from ctxviz.folds import ImageSpan
from ctxviz.no_number import NO_NUMBER
from ctxviz.records import LayerPatch, Rank1Update, VectorUpdate
from ctxviz.store.archive import pack

CONFIG: Final = "adapter_config.json"
TENSORS: Final = "adapter_model.safetensors"
README: Final = "README.md"
_PREFIX: Final = "base_model.model."
"""What PEFT puts before the stock model's names."""
_WEIGHT: Final = ".weight"

Scales = Mapping[str, NDArray[np.floating[Any]]]


def adapter_files(
    patches: Sequence[LayerPatch],
    *,
    base_model: str,
    dtype: str,
    stored_scales: Scales,
    kept_ids: Sequence[int] = (),
    kept_positions: Sequence[int] = (),
    images: Sequence[ImageSpan] = (),
    check: ExportCheck | None = None,
) -> dict[str, bytes]:
    """The files of an adapter folder by name; the same patches give the same bytes.

    Args:
        patches: one token's, as the engine kept them.
        base_model: the folder or Hub id of the stock model.
        dtype: the dtype the patch was made in; w + dm is rounded to it.
        stored_scales: w [d] as the model stores it, by parameter name, of every patched scale.
        kept_ids, kept_positions: the tokens the patch was made for, told in the README.
        images: the places of the context's pictures, if any.
        check: what was measured of these patches; told in the README and in the tensors' metadata.

    Raises:
        BundleError: a part of a picture is kept, which PEFT's model cannot be given, or no matrix is patched.
        ValueError: a patched scale's w is not given or has another length, or an update is not of a module's
            ``weight``.
    """
    tensors: dict[str, np.ndarray] = {}
    matrices: list[str] = []
    vectors: list[str] = []
    for update in (update for patch in patches for update in patch.updates):
        module = _module(update.parameter)
        if isinstance(update, Rank1Update):
            matrices.append(module)
            tensors[f"{_PREFIX}{module}.lora_A.weight"] = _row(update.right)
            tensors[f"{_PREFIX}{module}.lora_B.weight"] = _row(update.left).T.copy()
        else:
            vectors.append(module)
            tensors[f"{_PREFIX}{update.parameter}"] = _replaced(update, stored_scales, dtype)
    whole = _pictures_kept(images, kept_positions)
    if not matrices:
        raise BundleError(
            "The patch changes no matrix, and PEFT refuses an adapter without one; choose another token, or "
            "a wider dtype where the model overflows."
        )
    return {
        CONFIG: _json(_config(base_model, matrices, vectors)),
        README: _readme(base_model, dtype, kept_ids, kept_positions, images, whole, check).encode(),
        TENSORS: safetensors.numpy.save(
            dict(sorted(tensors.items())), {"format": "pt", **adapter_metadata(check)}
        ),
    }


def adapter_zip(
    patches: Sequence[LayerPatch],
    *,
    base_model: str,
    dtype: str,
    stored_scales: Scales,
    kept_ids: Sequence[int] = (),
    kept_positions: Sequence[int] = (),
    images: Sequence[ImageSpan] = (),
    check: ExportCheck | None = None,
) -> bytes:
    """:func:`adapter_files` as one zip; the same patches give the same bytes."""
    return pack(
        adapter_files(
            patches,
            base_model=base_model,
            dtype=dtype,
            stored_scales=stored_scales,
            kept_ids=kept_ids,
            kept_positions=kept_positions,
            images=images,
            check=check,
        )
    )


def _pictures_kept(images: Sequence[ImageSpan], kept_positions: Sequence[int]) -> tuple[int, ...]:
    """Numbers, from 1, of the pictures whose image tokens all stay in the input."""
    kept = set(kept_positions)
    counts = [sum(p in kept for p in span.tokens) for span in images]
    if any(0 < count < len(span.tokens) for count, span in zip(counts, images, strict=True)):
        raise BundleError(
            "The patch keeps a part of a picture only, and PEFT's model is given whole pictures, so it "
            "cannot become an adapter; choose a fold that keeps or folds pictures whole."
        )
    return tuple(number for number, count in enumerate(counts, 1) if count)


def _module(parameter: str) -> str:
    if not parameter.endswith(_WEIGHT):
        raise ValueError(f"{parameter[:80]!r} is not a module's weight")
    return parameter.removesuffix(_WEIGHT)


def _row(factor: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(factor, np.float32)[None]


def _replaced(update: VectorUpdate, stored_scales: Scales, dtype: str) -> np.ndarray:
    """w + dm, formed in float64 and rounded to ``dtype``, in a dtype that numpy can hold exactly."""
    stored = stored_scales.get(update.parameter)
    if stored is None or stored.shape != update.delta.shape:
        raise ValueError(f"the stored scale of {update.parameter[:80]} is missing or has another length")
    whole = np.asarray(stored, np.float64) + update.delta.astype(np.float64)
    return whole if dtype == "float64" else _rounded(whole, dtype)


def _rounded(values: NDArray[np.float64], dtype: str) -> NDArray[np.float32]:
    """Values of a narrower dtype as float32; by way of float32, as torch rounds to 16 bits."""
    single = values.astype(np.float32)
    if dtype == "float16":
        return single.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        bits = single.view(np.uint32)
        # Half of the last kept place, and one less where that place is even: ties go to even.
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return single


def _config(base_model: str, matrices: list[str], vectors: list[str]) -> dict[str, Any]:
    """Modules by their whole names, so that no other layer is touched."""
    return {
        "base_model_name_or_path": base_model,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": 1,
        "lora_dropout": 0.0,
        "modules_to_save": vectors or None,
        "peft_type": "LORA",
        "r": 1,
        "target_modules": matrices,
        "task_type": "CAUSAL_LM",
    }


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


_README: Final = """\
---
base_model: {quoted}
library_name: peft
---

# One token's context as a LoRA adapter

This adapter stands in for the context of a single token. It was made in {dtype} for exactly these tokens, and
means nothing for any others:

- `kept_ids`: {ids}
- `kept_positions`: {positions}

```python
import torch
from peft import PeftModel
from transformers import {classes}

model = {loader}.from_pretrained({name}, dtype={dtype!r})
model = PeftModel.from_pretrained(model, ".").eval()  # "." is this folder
ids, positions = torch.tensor([{ids_code}]), torch.tensor([{positions_code}])
mask = torch.ones_like(ids)
{look}logits = model(input_ids=ids, position_ids=positions, attention_mask=mask{looks}).logits[0, -1]
```

## What it was seen to do

{measured}

## What PEFT cannot hold

- **A LoRA is factored, not written.** PEFT runs each matrix update as a side branch, W x + B (A x), which
  rounds elsewhere than a weight that was changed (in 16-bit models PEFT runs the branch in float32). So the
  logits are not those of the written patch, and where a scale was divided by a tiny denominator they can be
  those of nothing at all. Agreement also proves less: at the token the patch was solved for, the branch
  merely adds the wanted output. The exported `ctxviz-patch/1` file holds the written weights; they give
  their bits again in parameters cloned to aligned memory, on the same machine with as many threads.
- **A change of a norm's scale is not low-rank.** Where the patch adds Δm to a post-norm's w, the adapter
  holds the whole vector w + Δm, rounded to {dtype}, as a replaced module (`modules_to_save`). It belongs to
  these weights of the base model alone.
- **Merging rounds in its own way.** `merge_and_unload()` gives weights like the written ones, but forms B A
  in the adapter's dtype and adds it there, where the written patch is formed in float64 and rounded once.
"""


_MEASURED: Final = """\
When it was made, against the model with its context, in {dtype}. TVD is the total variation distance of the
next token's distributions: 0 where they are the same, 1 where they have nothing in common.

| what ran | TVD | the same most probable token |
|---|---|---|
| this adapter, as PEFT runs it | {adapter} |
| the same, the kept tokens' embeddings moved by one unit in the last place (the worst of several) | {moved} |
| the written patch, in aligned memory on the machine that made it | {written} |

The second row is what to expect elsewhere: another machine or number of threads rounds otherwise."""
_NOT_MEASURED: Final = """\
It was not run when it was made. Before relying on it, compare its logits with those of the model with its
context."""


_LOOK: Final = """\
pictures = []  # {which} of the context, upright, as PIL images in mode RGB
reader = AutoProcessor.from_pretrained({name}).image_processor
pixels = reader(images=pictures, return_tensors="pt", do_pan_and_scan=False)["pixel_values"].to(model.dtype)
types = (ids == model.config.image_token_id).int()
"""


def _readme(
    base_model: str,
    dtype: str,
    kept_ids: Sequence[int],
    kept_positions: Sequence[int],
    images: Sequence[ImageSpan],
    whole: Sequence[int],
    check: ExportCheck | None,
) -> str:
    loader = "AutoModelForImageTextToText" if images else "AutoModelForCausalLM"
    which = f"picture{'s' if len(whole) > 1 else ''} {', '.join(map(str, whole))}"
    return _README.format(
        quoted=json.dumps(base_model),
        name=repr(base_model),
        loader=loader,
        classes=f"{loader}, AutoProcessor" if whole else loader,
        look=_LOOK.format(which=which, name=repr(base_model)) if whole else "",
        looks=", pixel_values=pixels, token_type_ids=types" if whole else "",
        dtype=dtype,
        measured=_NOT_MEASURED if check is None else _measured(check, dtype),
        ids=_listed(kept_ids),
        positions=_listed(kept_positions),
        ids_code=_listed(kept_ids, "kept_ids"),
        positions_code=_listed(kept_positions, "kept_positions"),
    )


def _measured(check: ExportCheck, dtype: str) -> str:
    adapter, moved, written = map(_cells, (check.adapter, check.adapter_moved, check.written))
    return _MEASURED.format(dtype=dtype, adapter=adapter, moved=moved, written=written)


def _cells(trial: Trial) -> str:
    tvd = f"{trial.tvd:.2g}" if math.isfinite(trial.tvd) else NO_NUMBER
    return f"{tvd} | {'yes' if trial.match else 'no'}"


def _listed(numbers: Sequence[int], unknown: str = "as in the exported patch file") -> str:
    return json.dumps([int(n) for n in numbers]) if numbers else unknown
