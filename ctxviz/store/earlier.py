"""What the nulls of schema versions 1 and 2 mean, which had one null for two things.

There a null stood for what was not measured and for what was computed and is no number. What every pass
computes can only be the latter: the distances of each step, the figures of each layer that need no patch,
those of each patched layer, the distances and drifts of a replay that was made, h and dv of a patched layer.
A reference may be either and stays unmeasured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.records import RULES_WITH_MULTIPLIER, SOLVER_CASES, LayerVectors
from ctxviz.run import replay_name
from ctxviz.settings import REPLAY_KINDS, REPLAYS
from ctxviz.store.description import Description

Array = NDArray[Any]

TOLD_APART_SINCE: Final = 3
"""The schema version from which on a null means only "not measured"."""
_OF_STEPS: Final = ("tvd", "logit_linf", "kl")
_OF_LAYERS: Final = ("resid_ratio", "cosine", "output_error")
_OF_PATCHED_LAYERS: Final = ("scale_ratio", "scale_max_abs", "h_abs_min", "gate_ratio", "up_ratio")
_NO_INPUT: Final = SOLVER_CASES.index("no input")


def tell_apart(
    about: Description,
    series: dict[str, Array],
    layers: dict[str, Array],
    vectors: dict[tuple[int, int], LayerVectors],
) -> None:
    """Put "no number" (infinite) in the place of each NaN that can mean nothing else.

    Args:
        about: the description; nothing is done from TOLD_APART_SINCE on.
        series: by name, [steps, variants].
        layers: by name, [steps, variants, layers].
        vectors: by (step, variant).
    """
    if about.version >= TOLD_APART_SINCE:
        return
    for name in _OF_STEPS:
        series[name] = _lost(series[name], True)
    for kind in REPLAY_KINDS:
        made = ~np.isnan(series[replay_name(kind, "match")])
        for name in (replay_name(kind, metric) for metric in ("tvd", "shift")):
            series[name] = _lost(series[name], made)
        if kind in REPLAYS:
            layers[f"drift_{kind}"] = _lost(layers[f"drift_{kind}"], made[:, :, None])
    _tell_layers_apart(about, layers)
    for (step, i), kept in vectors.items():
        first = about.settings.variants[i].first_layer
        patched = np.arange(about.model.n_layers)[:, None] >= first
        h, delta_v, delta_m = (_lost(v, patched) for v in (kept.h, kept.delta_v, kept.delta_scale))
        vectors[step, i] = replace(kept, h=h, delta_v=delta_v, delta_scale=delta_m)


def _tell_layers_apart(about: Description, layers: dict[str, Array]) -> None:
    variants, layer = about.settings.variants, np.arange(about.model.n_layers)
    patched = np.array([layer >= variant.first_layer for variant in variants])
    moves_down = np.array([variant.update != "direct" for variant in variants])[:, None]
    with_multiplier = np.array([variant.update in RULES_WITH_MULTIPLIER for variant in variants])[:, None]
    wherever: dict[str, Array | bool] = dict.fromkeys(_OF_LAYERS, True)
    # The first version had no column for it.
    wherever |= {"output_max_abs": True} if about.version > 1 else {}
    wherever |= dict.fromkeys(_OF_PATCHED_LAYERS, patched) | {"down_ratio": patched & moves_down}
    wherever["multiplier"] = with_multiplier & (layers["solver_case"] == _NO_INPUT)
    for name, where in wherever.items():
        layers[name] = _lost(layers[name], where)


def _lost(values: Array, where: Array | bool) -> Array:
    """``values`` with infinity for NaN ``where`` it was computed; they themselves where there is none."""
    hit = np.isnan(values) & where
    return np.where(hit, values.dtype.type(np.inf), values) if hit.any() else values
