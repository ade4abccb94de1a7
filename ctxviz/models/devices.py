"""Which processor computes, and whether it computes what the CPU computes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

from ctxviz.errors import SettingsError
from ctxviz.models.sources import reason
from ctxviz.settings import DTYPES

Devices = tuple[torch.device, ...]
"""Those that a model may be shared between, in the order in which they are tried."""

_SELF_TEST_TOLERANCE = 1e-3
"""Relative, of logits after two float32 layers: rounding gives about 1e-6, TF32 or a broken kernel more."""


def choose(device: str) -> Devices:
    """``auto`` (every CUDA device, MPS, or the CPU), or by name: ``cpu``, ``cuda``, ``cuda:1``, ``mps``.

    Several CUDA devices are named with commas, ``cuda:0,cuda:1``; what goes where is decided in
    :mod:`ctxviz.models.placement`.

    Raises:
        SettingsError: the name means nothing, or this machine has no such device.
    """
    if device == "auto":
        if torch.cuda.is_available():
            return tuple(torch.device("cuda", index) for index in range(torch.cuda.device_count()))
        return (torch.device("mps" if torch.backends.mps.is_available() else "cpu"),)
    chosen = tuple(_by_name(name.strip()) for name in str(device).split(","))
    if len(chosen) > 1 and (len(set(chosen)) < len(chosen) or {d.type for d in chosen} != {"cuda"}):
        raise SettingsError(
            f"A model cannot be shared between {str(device)[:80]!r}; name different CUDA devices, such as "
            "cuda:0,cuda:1."
        )
    return chosen


def named(devices: Iterable[torch.device]) -> str:
    """As after --device and in records: ``cpu``, ``cuda:1``, ``cuda:0,cuda:1``."""
    return ",".join(map(str, devices))


def _by_name(device: str) -> torch.device:
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        chosen = None
    if (
        chosen is None
        or chosen.type not in ("cpu", "cuda", "mps")
        or (chosen.type != "cuda" and chosen.index)
    ):
        raise SettingsError(
            f"Unknown device {str(device)[:40]!r}; choose auto, cpu, mps, cuda, or CUDA devices such as "
            "cuda:0,cuda:1."
        )
    if chosen.type == "cuda":
        chosen = torch.device("cuda", chosen.index or 0)
        if chosen.index >= torch.cuda.device_count():
            raise SettingsError(f"This machine has no device {str(device)[:40]}; choose cpu or auto.")
    if chosen.type == "mps" and not torch.backends.mps.is_available():
        raise SettingsError("This machine has no device mps; choose cpu or auto.")
    return chosen


def check_dtype(dtype: str, devices: Devices) -> torch.dtype:
    """The torch dtype of a name.

    Raises:
        SettingsError: unknown, or not available on one of the devices.
    """
    if dtype not in DTYPES:
        raise SettingsError(f"Unknown dtype {str(dtype)[:40]!r}; choose from {', '.join(DTYPES)}.")
    if dtype == "float64" and any(device.type == "mps" for device in devices):
        raise SettingsError("The mps device has no float64; choose float32, or the cpu device.")
    return getattr(torch, dtype)


@cache
def self_test(device: torch.device) -> str | None:
    """Run a tiny random Gemma 3 on the CPU and on the device, once per process and device.

    Returns:
        None where they agree, else the warning to show.
    """
    if device.type == "cpu":
        return None
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = Gemma3ForCausalLM(
            Gemma3TextConfig(
                vocab_size=64,
                hidden_size=64,
                intermediate_size=128,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=16,
                query_pre_attn_scalar=16,
                sliding_window=4,
                layer_types=["sliding_attention", "full_attention"],
            )
        ).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.3)
    ids = torch.arange(3, 19)[None]
    try:
        with torch.no_grad():
            expected = model(input_ids=ids, use_cache=False).logits
            found = model.to(device)(input_ids=ids.to(device), use_cache=False).logits.cpu()
    except RuntimeError as error:
        return f"The device {device} failed a small test ({reason(error)}); use the cpu device."
    gap = disagreement(expected, found)
    return (
        None
        if gap is None
        else (
            f"The device {device} disagrees with the CPU on a small test (relative gap {gap:.1e}); "
            "its numbers may be wrong, so compare with the cpu device."
        )
    )


def disagreement(expected: torch.Tensor, found: torch.Tensor) -> float | None:
    """Largest gap relative to the largest value, where it is more than rounding explains; NaN counts."""
    gap = float((found - expected).abs().max() / expected.abs().max())
    return None if gap <= _SELF_TEST_TOLERANCE else gap
