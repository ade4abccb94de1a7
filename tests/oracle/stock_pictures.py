"""The oracle for prompts with pictures: a stock image-and-text model and its stock processor.

Both are loaded from the folder on their own, and nothing here comes from ctxviz. Pictures reach the model as
``pixel_values``, or, where only part of a picture is kept, as rows put into the embeddings.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import (
    AutoProcessor,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    SiglipVisionConfig,
)

from tests.oracle.stock import outputs_of
from tests.tiny_models import VOCABULARY, randomise, save_tiny_picture_folder, tiny_config

LAYERS = "model.language_model.layers"
PLACE = "<start_of_image>"
IMAGE_ID = VOCABULARY - 1
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
Answer = tuple[np.ndarray, torch.Tensor]
"""Residual stream after every layer at the last token [n_layers, d], and logits [vocabulary]."""


@dataclass(frozen=True)
class Shape:
    """A tiny random model: pixels on a side and of a square, image tokens a picture, text settings."""

    seed: int
    side: int
    tile: int
    tokens: int
    text: tuple[tuple[str, Any], ...] = ()


SHAPES = {
    "4 tokens": Shape(0, 16, 8, 4),
    "9 tokens": Shape(1, 24, 8, 9, (("hidden_size", 32), ("sliding_window", 5), ("num_hidden_layers", 5))),
    "9 tokens, pooled, full first": Shape(
        2,
        24,
        4,
        9,
        (
            ("hidden_size", 64),
            ("intermediate_size", 80),
            ("sliding_window", 12),
            ("layer_types", ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]),
        ),
    ),
}
"""All with sliding and full layers, and a window smaller than any context here."""


def save_shape(path: Path, shape: Shape, **text: Any) -> Path:
    """A folder of the model, with its processor."""
    vision = SiglipVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=shape.side,
        patch_size=shape.tile,
        vision_use_head=False,
    )
    config = Gemma3Config(
        text_config=tiny_config(**dict(shape.text) | text),
        vision_config=vision,
        mm_tokens_per_image=shape.tokens,
        image_token_index=IMAGE_ID,
        boi_token_index=VOCABULARY - 3,
        eoi_token_index=VOCABULARY - 2,
    )
    model = Gemma3ForConditionalGeneration(config)
    randomise(model, shape.seed)
    save_tiny_picture_folder(path, model)
    processor = AutoProcessor.from_pretrained(path)
    processor.image_processor.size = {"height": shape.side, "width": shape.side}
    processor.save_pretrained(path)
    return path


@cache
def folder_of(name: str) -> Path:
    """The folder of one of SHAPES; it stays until the process ends."""
    return save_shape(Path(_KEPT.name) / name.replace(" ", "-"), SHAPES[name])


_KEPT = tempfile.TemporaryDirectory(prefix="tiny-pictures-")


def noise_image(seed: int, size: tuple[int, int] = (40, 28)) -> Image.Image:
    """Blocks of random colours, neither square nor of the tower's size."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST)


class Stock:
    """A stock model and a stock processor, in one dtype."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self.processor: Any = AutoProcessor.from_pretrained(folder)
        model: Any = Gemma3ForConditionalGeneration.from_pretrained(folder, dtype=DTYPES[dtype])
        self.model: Any = model.eval().requires_grad_(False)
        for parameter in model.parameters():
            # Out of the mapped file, where a matrix may begin at an address that changes how sums round.
            parameter.data = parameter.data.clone()

    def read(self, prompt: str, images: Sequence[Image.Image]) -> dict[str, torch.Tensor]:
        """The prompt through the stock chat template: pictures first, or where PLACE stands."""
        text = prompt if PLACE in prompt else PLACE * len(images) + prompt
        content: list[dict[str, Any]] = []
        waiting = list(images)
        for index, part in enumerate(text.split(PLACE)):
            if index:
                content.append({"type": "image", "image": waiting.pop(0)})
            if part.strip():
                content.append({"type": "text", "text": part})
        assert not waiting
        read = self.processor.apply_chat_template(
            [{"role": "user", "content": content}],
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            add_generation_prompt=True,
        )
        return dict(read)

    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """[pictures, 3, side, side], as the stock image processor gives them."""
        return self.processor.image_processor(images=list(images), return_tensors="pt")["pixel_values"]

    def with_context(
        self, ids: Sequence[int], images: Sequence[Image.Image], *, causal: bool = False
    ) -> Answer:
        """The whole history at once, without a cache; ``causal`` leaves the token types away."""
        tokens = torch.tensor([list(ids)])
        types = {} if causal else {"token_type_ids": (tokens == IMAGE_ID).long()}
        seen = {"pixel_values": self.pixels(images).to(self.model.dtype)} if images else {}
        mask = torch.ones_like(tokens)
        return outputs_of(
            self.model, LAYERS, input_ids=tokens, attention_mask=mask, use_cache=False, **types, **seen
        )

    def rows(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Every picture's image tokens [tokens, d] as they enter the language half."""
        with torch.no_grad():
            found = self.model.get_image_features(
                self.pixels(images).to(self.model.dtype), return_dict=True
            ).pooler_output
        return found.reshape(-1, found.shape[-1])

    def on_kept(
        self,
        model: Any,
        ids: Sequence[int],
        positions: Sequence[int],
        history: Sequence[int],
        images: Sequence[Image.Image],
        **how: Any,
    ) -> Answer:
        """A stock forward of ``model`` (this one with updates written in) on the kept tokens.

        Whole pictures are given as pixels; where a picture is cut, or with ``how`` (``batch`` rows, ``move``
        as in kept_embeds), the kept rows are put into the embeddings.
        """
        rows_before = [sum(t == IMAGE_ID for t in history[:p]) for p in positions]
        kept_rows = [row for row, t in zip(rows_before, ids, strict=True) if t == IMAGE_ID]
        per_picture = sum(t == IMAGE_ID for t in history) // max(len(images), 1)
        kept = [k for k in range(len(images)) if k * per_picture in kept_rows]
        whole = [r for k in kept for r in range(k * per_picture, (k + 1) * per_picture)] == kept_rows
        tokens = torch.tensor([list(ids)] * how.get("batch", 1))
        inputs: dict[str, Any] = {
            "position_ids": torch.tensor([list(positions)] * len(tokens)),
            "attention_mask": torch.ones_like(tokens),
            "token_type_ids": (tokens == IMAGE_ID).long(),
            "use_cache": False,
        }
        if how or not whole:
            inputs["inputs_embeds"] = self.kept_embeds(tokens, kept_rows, images, how.get("move"))
        else:
            inputs["input_ids"] = tokens
            if kept:
                inputs["pixel_values"] = self.pixels([images[k] for k in kept]).to(self.model.dtype)
        return outputs_of(model, LAYERS, **inputs)

    def kept_embeds(
        self, tokens: torch.Tensor, kept_rows: list[int], images: Sequence[Image.Image], move: Any = None
    ) -> torch.Tensor:
        """Embeddings [batch, kept, d]; ``move`` changes them before the pictures' rows are put in."""
        with torch.no_grad():
            embeds = self.model.get_input_embeddings()(tokens)
        embeds = embeds if move is None else move(embeds)
        if kept_rows:
            embeds[tokens == IMAGE_ID] = self.rows(images)[kept_rows * len(tokens)]
        return embeds

    def generate(self, read: dict[str, torch.Tensor], count: int) -> tuple[list[int], list[torch.Tensor]]:
        """Stock cached greedy generation: new ids, and the logits [vocabulary] that each was chosen by."""
        inputs = dict(read) | {"pixel_values": read["pixel_values"].to(self.model.dtype)}
        made = self.model.generate(
            **inputs,
            max_new_tokens=count,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
        prompt = read["input_ids"].shape[1]
        return made.sequences[0, prompt:].tolist(), [row[0] for row in made.logits]


@cache
def stock_of(name: str, dtype: str) -> Stock:
    return Stock(folder_of(name), dtype)
