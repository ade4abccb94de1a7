"""tiny-shapes before training: its configuration, its first weights, its processor.

Its post-MLP scales are set, not trained: they have the spread of Gemma 3 270M's, a zero and two negative ones
in each layer included, so that its patches meet the small denominators that the real model's do.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

import numpy as np
import torch
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3Processor,
    Gemma3TextConfig,
    SiglipVisionConfig,
)
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

from ctxviz.training.tokenizer import SPECIALS, make_tokenizer

IMAGE_SIZE: Final = 64
IMAGE_TOKENS: Final = 16
CONTEXT: Final = 1024
WIDTH: Final = 128
LAYERS: Final = 6
VISION: Final[dict[str, Any]] = {
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": IMAGE_SIZE,
    "patch_size": 8,
    "vision_use_head": False,
}
IDS: Final = {piece: i for i, piece in enumerate(SPECIALS)}

FRACTIONS: Final = (0.004, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.996)
SPREADS: Final = (
    (0.236, 0.259, 0.281, 0.307, 0.798, 1, 1.22, 1.99, 8.41, 13.5, 22.5),
    (0.169, 0.209, 0.254, 0.302, 0.66, 1, 1.89, 8.77, 13.8, 18.9, 23),
    (0.117, 0.141, 0.235, 0.395, 0.705, 1, 1.22, 1.67, 2.24, 3.05, 5.22),
    (0.0459, 0.0556, 0.104, 0.225, 0.494, 1, 1.54, 2.03, 2.38, 2.89, 4.14),
    (0.0448, 0.0522, 0.086, 0.182, 0.405, 1, 1.47, 2.69, 2.94, 3.09, 3.34),
    (0.0345, 0.0421, 0.0716, 0.162, 0.394, 1, 1.6, 1.79, 1.9, 2.09, 2.39),
)
"""|m| over its median at FRACTIONS of the coordinates; layers 0, 3, 6, 9, 12 and 15 of Gemma 3 270M."""
MEDIAN: Final = 0.25
"""Of |m| in tiny-shapes; the real model's grows with its residual stream from 0.9 to 340."""
EMBEDDED: Final = 0.45
"""Standard deviation of what enters the first layer."""

CHAT_TEMPLATE: Final = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] | trim }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<start_of_image>{% else %}{{ part['text'] | trim }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def vision_config() -> SiglipVisionConfig:
    """The small tower, which the pictures model of Gemma 3 270M has too."""
    return SiglipVisionConfig(**VISION)


def make_config() -> Gemma3Config:
    """Its configuration: Gemma 3's sliding and full layers in 6 x 128, a SigLIP tower of 3 x 96."""
    text = Gemma3TextConfig(
        vocab_size=540,
        hidden_size=WIDTH,
        intermediate_size=256,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=32,
        max_position_embeddings=CONTEXT,
        layer_types=["full_attention" if i % 3 == 2 else "sliding_attention" for i in range(LAYERS)],
        initializer_range=0.04,
        pad_token_id=IDS["<pad>"],
        eos_token_id=IDS["<eos>"],
        bos_token_id=IDS["<bos>"],
    )
    config: Any = Gemma3Config(
        text_config=text,
        vision_config=vision_config(),
        mm_tokens_per_image=IMAGE_TOKENS,
        image_token_index=IDS["<image_soft_token>"],
        boi_token_index=IDS["<start_of_image>"],
        eoi_token_index=IDS["<end_of_image>"],
        initializer_range=0.04,
    )
    config.eos_token_id = [IDS["<eos>"], IDS["<end_of_turn>"]]
    return config


def make_processor() -> Gemma3Processor:
    """Tokenizer, picture reader and chat template."""
    return Gemma3Processor(
        image_processor=make_image_processor(),
        tokenizer=make_tokenizer(CONTEXT),
        chat_template=CHAT_TEMPLATE,
        image_seq_length=IMAGE_TOKENS,
    )


def make_image_processor() -> Gemma3ImageProcessorPil:
    """Pictures of any size to 64 x 64, values from -1 to 1."""
    return Gemma3ImageProcessorPil(
        size={"height": IMAGE_SIZE, "width": IMAGE_SIZE}, image_seq_length=IMAGE_TOKENS
    )


def make_model(seed: int) -> Gemma3ForConditionalGeneration:
    """The stock model with its first weights; the same seed gives the same ones."""
    torch.manual_seed(seed)
    model = Gemma3ForConditionalGeneration(make_config())
    generation: Any = model.generation_config
    generation.update(eos_token_id=[IDS["<eos>"], IDS["<end_of_turn>"]], cache_implementation=None)
    with torch.no_grad():
        start_tower(model.model.vision_tower)
        projector = model.model.multi_modal_projector.mm_input_projection_weight
        projector.normal_(std=EMBEDDED / math.sqrt(projector.shape[0]))
        set_scales(model, seed)
    return model


def start_tower(tower: torch.nn.Module) -> None:
    """Start a fresh tower: patches are read as their 32 slowest cosines in each colour, so that little is
    lost; position embeddings are sines and cosines of row and column."""
    patches: Any = tower.get_submodule("embeddings.patch_embedding")
    with torch.no_grad():
        patches.weight.zero_()
        patches.bias.zero_()
        size = patches.weight.shape[-1]
        places = torch.arange(size) + 0.5
        waves = [
            torch.cos(math.pi * places * k / size) / math.sqrt(size if k == 0 else size / 2)
            for k in range(size)
        ]
        pairs = sorted(itertools.product(range(size), repeat=2), key=lambda pair: (sum(pair), pair))
        for index in range(patches.weight.shape[0]):
            down, across = pairs[index // 3]
            patches.weight[index, index % 3] = 0.5 * torch.outer(waves[down], waves[across])
    positions: Any = tower.get_submodule("embeddings.position_embedding")
    count, width = positions.weight.shape
    side = math.isqrt(count)
    frequencies = torch.exp(torch.arange(width // 4) * (-math.log(100.0) / (width // 4)))
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    angles = [place.reshape(-1, 1) * frequencies for place in (rows, columns)]
    waves = torch.cat([wave for angle in angles for wave in (angle.sin(), angle.cos())], dim=1)
    with torch.no_grad():
        positions.weight.copy_(0.5 * waves)


def set_scales(model: Gemma3ForConditionalGeneration, seed: int) -> None:
    """Fix the post-MLP scales, and start the norms after them so that no coordinate drowns the others."""
    generator = np.random.default_rng(seed)
    energy = np.full(WIDTH, EMBEDDED**2)
    language: Any = model.model.language_model
    for layer, spread in zip(language.layers, SPREADS, strict=True):
        level(layer.input_layernorm, energy)
        energy = energy + 0.25
        layer.post_attention_layernorm.weight.fill_(-0.5)
        level(layer.pre_feedforward_layernorm, energy)
        scale = post_mlp_scale(spread, generator)
        layer.post_feedforward_layernorm.weight.copy_(torch.from_numpy(scale - 1))
        layer.post_feedforward_layernorm.weight.requires_grad_(False)
        energy = energy + scale**2
    level(language.norm, energy)


def post_mlp_scale(spread: tuple[float, ...], generator: np.random.Generator) -> np.ndarray:
    """m [d] with the quantiles of ``spread``, in random order, one of them zero and two negative."""
    ranks = (np.arange(WIDTH) + 0.5) / WIDTH
    scale = MEDIAN * np.exp(np.interp(ranks, FRACTIONS, np.log(spread)))
    scale[0] = 0.0
    scale[1:3] *= -1
    return generator.permutation(scale)


def level(norm: Any, energy: np.ndarray) -> None:
    """Start a norm so that coordinates with these mean squares [d] leave it with mean square one."""
    norm.weight.copy_(torch.from_numpy(np.sqrt(energy.mean() / energy) - 1))
