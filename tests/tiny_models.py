"""Tiny random Gemma 3 models and tokenizers for tests; nothing is downloaded.

Norm weights are randomised (stock initialisation leaves them at zero, which would leave the scale m = 1 + w
unexercised), and matrices are scaled so that logits are of order one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import (
    Gemma3Config,
    Gemma3ForCausalLM,
    Gemma3ForConditionalGeneration,
    Gemma3Processor,
    Gemma3TextConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    SiglipVisionConfig,
)
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

VOCABULARY = 384
SPECIALS = ("<pad>", "<eos>", "<bos>", "<unk>")


def tiny_config(**overrides: Any) -> Gemma3TextConfig:
    """Sliding and full attention layers, two query heads to a key head; any field may be overridden."""
    n_layers = overrides.get("num_hidden_layers", 4)
    defaults: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": n_layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 8,
        "max_position_embeddings": 256,
        "layer_types": ["full_attention" if i % 3 == 2 else "sliding_attention" for i in range(n_layers)],
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2,
    }
    return Gemma3TextConfig(**(defaults | overrides))


def randomise(model: PreTrainedModel, seed: int) -> None:
    """Give every parameter a value: matrices ~ N(0, 1.2/fan-in), vectors (norms, biases) ~ N(0, 0.5^2)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = (1.2 / parameter[0].numel()) ** 0.5 if parameter.dim() > 1 else 0.5
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))


def tiny_gemma3(
    seed: int = 0, dtype: torch.dtype = torch.float32, **config_overrides: Any
) -> Gemma3ForCausalLM:
    """A random text model in eval mode without gradients; the same seed gives the same float32 weights."""
    model = Gemma3ForCausalLM(tiny_config(**config_overrides))
    randomise(model, seed)
    return model.to(dtype).eval().requires_grad_(False)


def tiny_image_gemma3(seed: int = 0, **text_overrides: Any) -> Gemma3ForConditionalGeneration:
    """A random image-and-text model whose text half is :func:`tiny_config`."""
    vision = SiglipVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=16,
        patch_size=8,
        vision_use_head=False,
    )
    config = Gemma3Config(
        text_config=tiny_config(**text_overrides),
        vision_config=vision,
        mm_tokens_per_image=4,
        image_token_index=VOCABULARY - 1,
        boi_token_index=VOCABULARY - 3,
        eoi_token_index=VOCABULARY - 2,
    )
    model = Gemma3ForConditionalGeneration(config)
    randomise(model, seed)
    return model.eval().requires_grad_(False)


IMAGE_PIECES = ("<start_of_image>", "<end_of_image>", "<image_soft_token>")
"""The last three ids of the vocabulary, as the configuration of :func:`tiny_image_gemma3` has them."""
IMAGE_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<start_of_image>{% else %}{{ part['text'] | trim }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %} and{% endif %}"
)
"""Something of a template: the pictures and the text where they stand, then one more word."""


def save_tiny_picture_folder(path: Path, model: PreTrainedModel | None = None) -> Path:
    """A folder as :func:`save_tiny_folder`'s of a model that reads pictures, with its processor.

    Its pictures are 16 x 16 pixels and become four image tokens. ``model`` is :func:`tiny_image_gemma3`'s.
    """
    model = model or tiny_image_gemma3()
    path.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(path)
    pieces = [*tiny_pieces()[: -len(IMAGE_PIECES)], *IMAGE_PIECES]
    tokenizer = tiny_tokenizer(pieces)
    tokenizer.add_special_tokens(list(IMAGE_PIECES))
    boi, eoi, image = IMAGE_PIECES
    processor = Gemma3Processor(
        image_processor=Gemma3ImageProcessorPil(size={"height": 16, "width": 16}),
        tokenizer=PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            bos_token="<bos>",
            eos_token="<eos>",
            unk_token="<unk>",
            pad_token="<pad>",
            model_max_length=256,
            extra_special_tokens={"boi_token": boi, "eoi_token": eoi, "image_token": image},
        ),
        chat_template=IMAGE_TEMPLATE,
        image_seq_length=model.config.mm_tokens_per_image,
    )
    processor.save_pretrained(path)
    return path


MERGES = tuple(pair.split() for pair in ("t h", "th e", "▁ the", "i n", "a n", "an d", "▁ and", "▁ ▁"))


def tiny_pieces() -> list[str]:
    """One piece for each of the VOCABULARY ids: specials, bytes, a space, letters, merges, unused ones."""
    pieces = [*SPECIALS, *(f"<0x{i:02X}>" for i in range(256)), "▁"]
    pieces += [chr(c) for c in range(33, 127) if chr(c) not in "<>"]
    pieces += ["".join(pair) for pair in MERGES]
    pieces += [f"<unused{i}>" for i in range(VOCABULARY - len(pieces))]
    assert len(pieces) == VOCABULARY == len(set(pieces))
    return pieces


def tiny_tokenizer(pieces: list[str] | None = None) -> Tokenizer:
    """A byte-fallback BPE over :func:`tiny_pieces` or others; it prepends <bos>, as Gemma's does."""
    vocabulary = {piece: i for i, piece in enumerate(pieces or tiny_pieces())}
    merges = [(left, right) for left, right in MERGES]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.post_processor = processors.TemplateProcessing("<bos> $A", special_tokens=[("<bos>", 2)])
    return tokenizer


def save_tiny_folder(path: Path, model: PreTrainedModel | None = None) -> Path:
    """Write a model folder that ``load_model`` can load: safetensors, configuration, tokenizer.

    ``model`` is :func:`tiny_gemma3` with its defaults unless given.
    """
    path.mkdir(parents=True, exist_ok=True)
    (model or tiny_gemma3()).save_pretrained(path)
    tiny_tokenizer().save(str(path / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "model_max_length": 256,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path
