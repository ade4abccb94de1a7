"""The same question without the picture: the stock model goes on from what is left of the prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.patched_pass import kept_inputs
from ctxviz.engine.prompt import look
from ctxviz.engine.rebuild import check_model
from ctxviz.engine.seeing import require_folded
from ctxviz.errors import PrecisionError
from ctxviz.numerics.distances import Distribution
from ctxviz.picture_findings import WithoutPictures, folded_pictures
from ctxviz.run import Run

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel


def without_pictures(model: LoadedModel, run: Run) -> Iterator[WithoutPictures]:
    """Continue the run's prompt less the pictures that its fold removes, greedily, with nothing in weights.

    Text that the fold removes stays here: it is the picture that is missing. The dtype is the one that wrote
    the run's history; the rest of the prompt keeps its positions, as in the unpatched reference. Yields after
    each token what is written so far, until there are as many as the run has or an end of text.

    Raises:
        SettingsError: the model is not the run's, its pictures are not at hand, or the fold removes none.
        PrecisionError: the logits are not numbers; what was yielded before stays.
    """
    check_model(model, run)
    context, dtype = run.context, run.dtypes[0]
    dropped = folded_pictures(context)
    if not dropped:
        require_folded(run, 0)
    gone = {p for k in dropped for p in range(context.images[k].start, context.images[k].end)}
    positions = [p for p in range(len(context.token_ids)) if p not in gone]
    ids = [context.token_ids[p] for p in positions]
    anatomy = anatomy_of(model.in_dtype(dtype), model.architecture)
    sight = look(model, run.pictures, context)
    written: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    while len(written) < len(run):
        # No cache: position gaps are read one way only, as everywhere else.
        inputs = kept_inputs(anatomy, [tuple(ids)], [tuple(positions)], sight)
        with anatomy.lock, torch.inference_mode():
            logits = anatomy.model(**inputs, logits_to_keep=1).logits[0, -1]
        distribution = Distribution(logits)
        if not distribution.valid:
            raise PrecisionError(
                f"Without the picture the model's logits are not numbers in {dtype}, so there is no answer "
                "to compare; make the run again with float32 or bfloat16 among its dtypes."
            )
        best = distribution.best
        written, texts = (*written, best), (*texts, model.piece(best))
        ids.append(best)
        positions.append(positions[-1] + 1)
        ended = best in model.eos_ids
        yield WithoutPictures(dtype, dropped, written, texts, ended)
        if ended:
            return
