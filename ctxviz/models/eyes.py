"""gemma-3-270m-pictures: the packaged Gemma 3 270M joined with the small tower and projector in assets.

Only the eyes are shipped. Joined with the language half they are an ordinary model folder in the cache, which
stock transformers loads like any other.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any, Final

from ctxviz.errors import ModelError
from ctxviz.models.hashing import sha256_of
from ctxviz.models.progress import Progress
from ctxviz.models.quiet import quiet_transformers

EYES: Final = "eyes.safetensors"
PARTS: Final = ("model.vision_tower.", "model.multi_modal_projector.")
"""Where the names of the eyes' parameters begin; all others belong to the language half."""
IMAGE_TOKEN: Final = "<image_soft_token>"
"""Gemma 3's name for it. The text-only 270M has no such token, so it gets the id after its last one."""
IMAGE_TOKENS: Final = {
    "image_token": IMAGE_TOKEN,
    "boi_token": "<start_of_image>",
    "eoi_token": "<end_of_image>",
}
_SMALL_FILES: Final = (
    "config.json",
    "generation_config.json",
    "processor_config.json",
    "chat_template.jinja",
)


def language_name(name: str) -> str:
    """What a parameter of the text model is called inside the image-and-text model."""
    return f"model.language_model.{name.removeprefix('model.')}"


def digest_of(language_sha256: str, folder: Path) -> str:
    """One hash for both halves: of the language half's hash and those of the eyes and the files beside them.

    Raises:
        ModelError: one of them is missing.
    """
    parts = [folder / name for name in (EYES, *_SMALL_FILES)]
    absent = [part.name for part in parts if not part.is_file()]
    if absent:
        raise ModelError(
            f"{absent[0]} is missing from assets/{folder.name}; get ctxviz again, with its assets."
        )
    lines = "\n".join([language_sha256, *map(sha256_of, parts)])
    return hashlib.sha256(lines.encode()).hexdigest()


def join(language: Path, folder: Path, target: Path, progress: Progress) -> None:
    """Write the whole model into ``target``: both halves' weights, tokenizer with an image token, processor.

    ``language`` is the converted text model, ``folder`` the one with the eyes.
    """
    from safetensors import safe_open
    from safetensors.numpy import save_file

    progress("joining the picture half and Gemma 3 270M", None)
    tensors: dict[str, Any] = {}
    with safe_open(language / "model.safetensors", "np") as file:
        for name in file.keys():  # noqa: SIM118 (not a dictionary)
            if not name.startswith("lm_head"):
                tensors[language_name(name)] = file.get_tensor(name)
    with safe_open(folder / EYES, "np") as file:
        tensors |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    for name in _SMALL_FILES:
        shutil.copyfile(folder / name, target / name)
    progress("preparing the tokenizer", None)
    make_tokenizer(language).save_pretrained(target)


def make_tokenizer(language: Path) -> Any:
    """The text model's tokenizer with an image token."""
    from transformers import AutoTokenizer

    with quiet_transformers():
        return AutoTokenizer.from_pretrained(
            language, local_files_only=True, trust_remote_code=False, extra_special_tokens=IMAGE_TOKENS
        )
