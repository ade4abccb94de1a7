"""One token's patch of a recorded run, built again: the same history, the same passes, updates kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxviz.engine.anatomy import Doubles, anatomy_of
from ctxviz.engine.application import Scratch
from ctxviz.engine.context_pass import ContextPass
from ctxviz.engine.patched_pass import patched_pass
from ctxviz.engine.prompt import look, prepare
from ctxviz.errors import SettingsError
from ctxviz.numerics import distances
from ctxviz.numerics.distances import Comparison, Distribution
from ctxviz.records import LayerPatch
from ctxviz.run import Run
from ctxviz.settings import RunSettings, Variant

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel


@dataclass(frozen=True, slots=True, eq=False)
class Rebuilt:
    """A token's patch, and what it belongs to."""

    variant: Variant
    step: int
    position: int
    context_ids: tuple[int, ...]
    kept_ids: tuple[int, ...]
    kept_positions: tuple[int, ...]
    patches: tuple[LayerPatch, ...]
    stored_scales: dict[str, Doubles]
    """w [d] as the model stores it, by name of parameter, of every layer."""
    reference: str
    """What stock transformers loads the model by: a Hub id, or its folder on this machine."""
    baseline: Distribution
    """Of the next token, in the model with its context."""
    gap: Comparison
    """Of the building pass to it."""


def check_model(model: LoadedModel, run: Run) -> None:
    """See that ``model`` is the one that made ``run``, as far as records tell, and its pictures are there.

    A plain folder has neither hash nor revision: only its name and its shape are compared.

    Raises:
        SettingsError: its weights are others, its tokenizer reads the prompt otherwise, or the run has tokens
            that it lacks; or its pictures are not at hand.
    """
    ours, theirs = model.identity, run.model
    hashed = ours.sha256 and theirs.sha256
    same = ours.sha256 == theirs.sha256 if hashed else ours.key == theirs.key
    shape = ("revision", "architecture", "n_layers", "width", "vocabulary")
    same = same and all(getattr(ours, name) == getattr(theirs, name) for name in shape)
    if not same:
        raise SettingsError(
            f"The run was made with {theirs.name[:80]}, and {ours.name[:80]} has other weights; "
            "choose the model that made it."
        )
    if tuple(picture.sha256 for picture in run.pictures) != run.context.image_sha256:
        raise SettingsError(
            "The run's file does not hold its pictures, so nothing can be made again from it; give the same "
            "pictures and make a new run."
        )
    context = prepare(model, run.context.prompt, RunSettings(max_new_tokens=1), run.pictures)
    if (context.token_ids, context.images) != (run.context.token_ids, run.context.images):
        raise SettingsError(
            "The model's tokenizer reads the run's prompt as other tokens than those recorded; "
            "choose the model that made the run."
        )
    if any(run.token(k)[3] >= model.vocabulary for k in range(len(run))):
        raise SettingsError(
            "The run holds tokens that the model's vocabulary lacks; choose the model that made the run."
        )


def rebuild(model: LoadedModel, run: Run, step: int, variant: Variant) -> Iterator[float | Rebuilt]:
    """Build the patch of ``run``'s token ``step`` again; yields the share done, and the patch at last.

    The history is read as it was when the run was made: the prompt at once, then token by token.

    Raises:
        SettingsError: the model is not the run's, or the run's pictures are not at hand.
    """
    check_model(model, run)
    sight = look(model, run.pictures, run.context)
    ids = [*run.context.token_ids, *(run.token(k)[3] for k in range(step))]
    anatomy = anatomy_of(model.in_dtype(variant.dtype), model.architecture)
    context = ContextPass(anatomy, sight)
    first = len(run.context.token_ids) - 1
    context.prefill(ids[:first])
    state = context.advance(ids[first])
    for k, token_id in enumerate(ids[first + 1 :], 1):
        yield k / (step + 1)
        state = context.advance(token_id)
    positions = run.context.kept(len(ids))
    kept_ids = tuple(ids[p] for p in positions)
    built = patched_pass(
        anatomy,
        variant,
        kept_ids,
        positions,
        state,
        scratch=Scratch(),
        small_h=run.settings.small_h,
        keep_vectors=False,
        keep_patches=True,
        sight=sight,
    )
    assert built.patches is not None
    scales = {part.scale_name: part.stored_scale for part in anatomy.layers}
    baseline = Distribution(state.logits)
    yield Rebuilt(
        variant,
        step,
        len(ids) - 1,
        tuple(ids),
        kept_ids,
        positions,
        built.patches,
        scales,
        model.stock_reference,
        baseline,
        distances.compare(baseline, Distribution(built.logits)),
    )
