"""Another picture in a picture's place: how far apart are their patches, and whose answer does each give?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from ctxviz.engine.application import WrittenWeights
from ctxviz.engine.patched_pass import kept_inputs
from ctxviz.engine.seeing import Onlooker, Seen, distance
from ctxviz.engine.twin import Twin
from ctxviz.no_number import all_computed
from ctxviz.numerics.distances import Distribution
from ctxviz.picture_findings import MATRICES, PARTS, Swap, Voice
from ctxviz.pictures import Picture
from ctxviz.records import Flags, Floats, LayerPatch, Rank1Update, VectorUpdate
from ctxviz.run import Run
from ctxviz.settings import Variant
from ctxviz.shapes.recognition import words_of

if TYPE_CHECKING:
    from ctxviz.engine.anatomy import Anatomy, LayerAnatomy
    from ctxviz.models import LoadedModel


def swap(
    model: LoadedModel, run: Run, other: Picture, step: int, variant: Variant, *, picture: int = 0
) -> Iterator[float | Swap]:
    """Make the patches of token ``step`` from the run's picture (A) and from ``other`` (B), same history.

    The patches are written whatever the variant's arithmetic, and each picture's run on a stock twin of the
    model that has no picture. Yields the share done, and the result at last.

    Raises:
        SettingsError: the model is not the run's, its pictures are not at hand, there is no such token or
            picture, or the fold leaves the picture in the input.
    """
    variant = replace(variant, arithmetic="written")
    scratch = WrittenWeights()
    onlooker = Onlooker(model, run, step, variant, picture, scratch)
    twin = Twin(onlooker.anatomy)
    contexts: list[Distribution] = []
    replayed: list[Distribution] = []
    patches: list[tuple[LayerPatch, ...]] = []
    for done, one in enumerate((None, other), 1):
        seen = onlooker.see(one, keep_patches=True)
        assert seen.patched.patches is not None
        contexts.append(Distribution(seen.context.logits))
        # At once: the next picture's patches go into the same tensors.
        replayed.append(Distribution(_on_twin(twin, scratch, onlooker, seen)))
        patches.append(seen.patched.patches)
        yield done / 2
    voices = [
        Voice(
            onlooker.top(contexts[k]),
            onlooker.top(replayed[k]),
            distance(contexts[k], replayed[k]),
            distance(contexts[1 - k], replayed[k]),
        )
        for k in range(2)
    ]
    yield Swap(
        picture,
        step,
        variant,
        (words_of(run.pictures[picture]), words_of(other)),
        patch_distances(onlooker.anatomy, patches[0], patches[1]),
        (voices[0], voices[1]),
        distance(*contexts),
        made_by_both(onlooker.anatomy, patches[0], patches[1]),
    )


@torch.inference_mode()
def _on_twin(twin: Twin, scratch: WrittenWeights, onlooker: Onlooker, seen: Seen) -> torch.Tensor:
    """Logits [vocabulary] of the stock forward with the tensors written last."""
    inputs = kept_inputs(onlooker.anatomy, [onlooker.kept_ids], [onlooker.positions], seen.sight)
    twin.hold(scratch.tensors)
    try:
        with onlooker.anatomy.lock:
            return twin.model(**inputs).logits[0, -1].clone()
    finally:
        twin.hold({})


def patch_distances(
    anatomy: Anatomy, one: tuple[LayerPatch, ...], other: tuple[LayerPatch, ...]
) -> dict[str, Floats]:
    """``||d_one - d_other|| / ||d_one||`` of each of PARTS by layer [n_layers].

    NaN where one of the two has no such update, infinite where the quotient is no number.
    """
    found = {part: np.full(len(anatomy.layers), np.nan, np.float32) for part in PARTS}
    mine, theirs = _by_name(one), _by_name(other)
    for layer in anatomy.layers:
        for part, name in zip(PARTS, _names(layer), strict=True):
            a, b = mine.get(name), theirs.get(name)
            if a is None or b is None:
                continue
            if part in MATRICES:
                assert isinstance(a, Rank1Update)
                assert isinstance(b, Rank1Update)
                gap, norm = rank_one_gap(a, b), _norm(a.left) * _norm(a.right)
            else:
                assert isinstance(a, VectorUpdate)
                assert isinstance(b, VectorUpdate)
                gap, norm = _norm(a.delta.astype(np.float64) - b.delta), _norm(a.delta)
            found[part][layer.index] = all_computed(gap / norm if norm > 0 else np.inf)
    return found


def made_by_both(
    anatomy: Anatomy, one: tuple[LayerPatch, ...], other: tuple[LayerPatch, ...]
) -> dict[str, Flags]:
    """Whether both make each of PARTS in each layer [n_layers]."""
    both = _by_name(one).keys() & _by_name(other).keys()
    names = [_names(layer) for layer in anatomy.layers]
    return {part: np.array([n[k] in both for n in names]) for k, part in enumerate(PARTS)}


def _names(layer: LayerAnatomy) -> tuple[str, str, str, str]:
    """Of the parameters of PARTS."""
    return layer.gate_name, layer.up_name, layer.down_name, layer.scale_name


def rank_one_gap(one: Rank1Update, other: Rank1Update) -> float:
    """``||one - other||_F`` from the factors alone, in float64.

    one - other = (l - l') (x) r + l' (x) (r - r'). What of r - r' lies along r joins the first term, the rest
    is orthogonal to it: a sum of squares, which loses nothing where the two are nearly the same.
    """
    left, right = one.left.astype(np.float64), one.right.astype(np.float64)
    left_other, turned = other.left.astype(np.float64), right - other.right
    length = _norm(right)
    if length == 0:
        return _norm(left_other) * _norm(turned)
    along = right / length
    share = float(turned @ along)
    first = (left - left_other) * length + share * left_other
    return float(np.hypot(_norm(first), _norm(left_other) * _norm(turned - share * along)))


def _by_name(patches: tuple[LayerPatch, ...]) -> dict[str, Rank1Update | VectorUpdate]:
    return {update.parameter: update for patch in patches for update in patch.updates}


def _norm(values: np.ndarray) -> float:
    return float(np.linalg.norm(values.astype(np.float64)))
