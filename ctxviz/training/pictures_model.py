"""gemma-3-270m-pictures before training: Gemma 3 270M as the language half, and eyes that see nothing yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3Processor
from transformers import Gemma3TextConfig as TextConfig

from ctxviz.models.eyes import IMAGE_TOKENS, PARTS, language_name, make_tokenizer
from ctxviz.training.tiny_shapes import IMAGE_TOKENS as TILES
from ctxviz.training.tiny_shapes import make_image_processor, vision_config

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
    return Gemma3Processor(
        image_processor=make_image_processor(),
        tokenizer=make_tokenizer(language),
        chat_template=TEMPLATE,
        image_seq_length=TILES,
    )


def make_config(language: Path, tokenizer: Any) -> Gemma3Config:
    """The 270M's configuration with a small SigLIP tower before it."""
    text = TextConfig.from_pretrained(language, local_files_only=True)
    image, boi, eoi = tokenizer.convert_tokens_to_ids(list(IMAGE_TOKENS.values()))
    (line,) = tokenizer(ENDS_LINE, add_special_tokens=False)["input_ids"]
    config: Any = Gemma3Config(
        text_config=text,
        vision_config=vision_config(),
        mm_tokens_per_image=TILES,
        image_token_index=image,
        boi_token_index=boi,
        eoi_token_index=eoi,
    )
    config.eos_token_id = [int(tokenizer.eos_token_id), line]
    return config


def assemble(language: dict[str, torch.Tensor], config: Gemma3Config) -> Gemma3ForConditionalGeneration:
    """The stock model in float32 with the text model's weights as language half, and untrained eyes."""
    model = Gemma3ForConditionalGeneration(config)
    renamed = {language_name(name): tensor.float() for name, tensor in language.items()}
    absent, unexpected = model.load_state_dict(renamed, strict=False)
    lacking = [name for name in absent if not name.startswith((*PARTS, "lm_head"))]
    if unexpected or lacking:
        raise ValueError(f"the language half does not fit: {unexpected[:3]} {lacking[:3]}")
    model.tie_weights()
    return model
