"""tiny-shapes' tokenizer: a byte-fallback BPE whose pieces are the words of captions and questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from ctxviz.shapes.scenes import DESCRIBE, questions, random_scene

SPECIALS: Final = (
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
)
"""Gemma 3's names; a piece's id is its place here."""
PIECES: Final = 540
CORPUS_SCENES: Final = 3000
EVERYDAY: Final = (
    "user model hello please tell me about this the that it is in of and or not no yes with on left right "
    "top bottom middle what where which how many who why picture image shape shapes colour color background "
    "see show nothing something one two three four above below next to between big small thing things"
)
"""Words that people type and scenes do not hold."""


def make_tokenizer(context: int) -> PreTrainedTokenizerFast:
    """The tokenizer, made again from its corpus; ``context`` is the model's longest sequence."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.pre_tokenizer = pre_tokenizers.Split("▁", behavior="merged_with_next")
    letters = [chr(code) for code in range(33, 127)]
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES - len(SPECIALS) - 256 - 2, initial_alphabet=["▁", *letters], show_progress=False
    )
    trained.train_from_iterator(_corpus(), trainer)
    described = json.loads(trained.to_str())["model"]
    pieces = [*SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256)), "\n", "\n\n"]
    pieces += sorted(described["vocab"], key=described["vocab"].__getitem__)
    merges = [("\n", "\n"), *(tuple(merge) for merge in described["merges"])]
    tokenizer = Tokenizer(
        models.BPE(
            {piece: i for i, piece in enumerate(pieces)},
            merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", behavior="merged_with_next")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        pad_token="<pad>",
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        extra_special_tokens={
            "start_token": "<start_of_turn>",
            "end_token": "<end_of_turn>",
            "image_token": "<image_soft_token>",
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
        },
    )


def _corpus() -> Iterator[str]:
    generator = np.random.default_rng(0)
    for _ in range(CORPUS_SCENES):
        scene = random_scene(generator)
        yield f"{DESCRIBE} {scene.caption()}"
        for _, question, answer in questions(scene, generator):
            yield question
            yield answer  # on its own line: an answer starts without a space
    for _ in range(200):
        yield EVERYDAY
        yield from EVERYDAY.split()
