"""gemma-3-270m-pictures before training: the packaged Gemma 3 270M as the language half of an image-and-text model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoTokenizer, Gemma3Config, Gemma3ForConditionalGeneration, Gemma3Processor
from transformers import Gemma3TextConfig as TextConfig

from ctxviz.training.tiny_shapes import IMAGE_TOKENS, make_image_processor, vision_config

IMAGE_TOKEN: Final = "<image_soft_token>"
"""Gemma 3's name for it; the text-only 270M has no such token, so it gets the id after its last."""
TEMPLATE: Final = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['content'] is string %}{{ message['content'] | trim }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<start_of_image>{% else %}{{ part['text'] | trim }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}"
)
"""A base model has no turns: the pictures, then the text it is to go on with."""
PROMPT: Final = "The picture shows"
"""What every training caption goes on from."""
ENDS_LINE: Final = "\n"


def make_processor(language: Path) -> Gemma3Processor:
    """The 270M's tokenizer with an image token, tiny-shapes' picture reader, a template without turns."""
    tokenizer = AutoTokenizer.from_pretrained(
        language,
        local_files_only=True,
        extra_special_tokens={
            "image_token": IMAGE_TOKEN,
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
        },
    )
    return Gemma3Processor(
        image_processor=make_image_processor(),
        tokenizer=tokenizer,
        chat_template=TEMPLATE,
        image_seq_length=IMAGE_TOKENS,
    )


def make_config(language: Path, tokenizer: Any) -> Gemma3Config:
    """The 270M's configuration with a small SigLIP tower before it."""
    text = TextConfig.from_pretrained(language, local_files_only=True)
    boi, eoi, image = tokenizer.convert_tokens_to_ids(["<start_of_image>", "<end_of_image>", IMAGE_TOKEN])
    (line,) = tokenizer(ENDS_LINE, add_special_tokens=False)["input_ids"]
    return Gemma3Config(
        text_config=text,
        vision_config=vision_config(),
        mm_tokens_per_image=IMAGE_TOKENS,
        image_token_index=image,
        boi_token_index=boi,
        eoi_token_index=eoi,
        eos_token_id=[int(tokenizer.eos_token_id), line],
    )


def assemble(language: dict[str, torch.Tensor], config: Gemma3Config) -> Gemma3ForConditionalGeneration:
    """The stock model in float32 with the text model's weights, by its names, as language half; eyes untrained."""
    model = Gemma3ForConditionalGeneration(config)
    renamed = {language_name(name): tensor.float() for name, tensor in language.items()}
    absent, unexpected = model.load_state_dict(renamed, strict=False)
    eyes = tuple(EYES)
    lacking = [name for name in absent if not name.startswith(eyes) and name != "lm_head.weight"]
    if unexpected or lacking:
        raise ValueError(f"the language half does not fit: {unexpected[:3]} {lacking[:3]}")
    model.tie_weights()
    return model


EYES: Final = ("model.vision_tower.", "model.multi_modal_projector.")
"""Where the trained half's parameters begin; the other half is the text model's."""


def language_name(name: str) -> str:
    """What a parameter of the text model is called inside the image-and-text model."""
    return f"model.language_model.{name.removeprefix('model.')}"
