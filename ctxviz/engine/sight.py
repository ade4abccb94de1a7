"""A prompt's pictures on their way into a model: what the vision tower reads, and the rows its tokens become.

Pictures reach the language half through stock arguments only. The tower does not depend on any patch, so it
runs once per dtype, and a pass is given those rows that belong to its tokens: all of them with the whole
context, those of the kept image tokens otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ctxviz.folds import ImageSpan

if TYPE_CHECKING:
    from jaxtyping import Float

    from ctxviz.engine.anatomy import Anatomy


class Sight:
    """The pictures of one prompt."""

    def __init__(
        self, pixels: Float[Tensor, "n 3 h w"] | None = None, images: Sequence[ImageSpan] = ()
    ) -> None:
        """``pixels`` as the model's own image processor gives them, one picture per span; none without."""
        self._pixels = pixels
        self._row_of = {p: row for row, p in enumerate(p for span in images for p in span.tokens)}
        self._rows: dict[int, Tensor] = {}

    @property
    def end(self) -> int:
        """One past the last image token; 0 without pictures."""
        return max(self._row_of, default=-1) + 1

    def arguments(self, anatomy: Anatomy, positions: Sequence[Sequence[int]]) -> dict[str, Any]:
        """What a stock forward needs besides ids where it is to read tokens at ``positions``, one list a row.

        Nothing where none of them is an image token. The token types let the image tokens of a picture attend
        to one another; without them they would silently be causal.
        """
        types = [[int(p in self._row_of) for p in row] for row in positions]
        if not any(map(any, types)):
            return {}
        rows = self._features(anatomy)
        wanted = [self._row_of[p] for row in positions for p in row if p in self._row_of]
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        seen = BaseModelOutputWithPooling(pooler_output=rows[wanted][None])
        return {
            "token_type_ids": torch.tensor(types, device=rows.device),
            "mm_encoder_outputs": {"image": seen},
        }

    @torch.inference_mode()
    def _features(self, anatomy: Anatomy) -> Float[Tensor, "tokens d"]:
        """The image tokens' rows of all pictures, in the model's dtype."""
        key = id(anatomy)
        if key not in self._rows:
            assert self._pixels is not None
            model: Any = anatomy.model
            like = next(model.parameters())
            with anatomy.lock:
                seen = model.get_image_features(self._pixels.to(like.device, like.dtype), return_dict=True)
            self._rows[key] = seen.pooler_output.flatten(0, -2)
        return self._rows[key]


BLIND = Sight()
"""No pictures."""
