"""May the processor files of a model folder be used? Told from their JSON, before transformers sees them.

And once they are read: do they mean the tokens that the model means?
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ctxviz.errors import ModelError
from ctxviz.models.folders import read_json
from ctxviz.models.sources import show

_PROCESSOR: Final = "processor_config.json"
_PREPROCESSOR: Final = "preprocessor_config.json"
_CLASSES: Final = (None, "Gemma3Processor")
_READERS: Final = (None, "Gemma3ImageProcessor", "Gemma3ImageProcessorFast", "Gemma3ImageProcessorPil")
_FOREIGN: Final = ("auto_map", "audio_tokenizer", "video_processor", "feature_extractor")
"""Keys that make transformers load classes or files beyond a tokenizer and a picture reader."""
_FOREIGN_FILES: Final = ("audio_tokenizer_config.json", "video_preprocessor_config.json")
TOKENS: Final = 256
"""Image tokens of a picture where a configuration leaves them out, as Gemma 3's does."""
SIDE: Final = 896
"""Pixels of a picture's side where a configuration leaves them out."""


def reads_pictures(folder: Path, config: dict[str, Any]) -> bool:
    """Whether the folder says how pictures are read, and so that its model can take them.

    ``config`` is the model's own. A folder without the files reads text only.

    Raises:
        ModelError: they ask for other classes or files, or do not fit the model.
    """
    whole = _read(folder, _PROCESSOR)
    nested = whole.get("image_processor")
    reader = nested if isinstance(nested, dict) else _read(folder, _PREPROCESSOR)
    if not reader:
        return False
    foreign = [key for part in (whole, reader) for key in _FOREIGN if key in part]
    foreign += [name for name in _FOREIGN_FILES if (folder / name).exists()]
    if foreign:
        raise ModelError(
            f"The picture processor in {show(folder.name)} asks for more than reading pictures "
            f"({foreign[0]}), which is not done; remove that from it."
        )
    classes = (
        whole.get("processor_class", reader.get("processor_class")),
        reader.get("image_processor_type"),
    )
    if classes[0] not in _CLASSES or classes[1] not in _READERS:
        raise ModelError(
            f"The picture processor in {show(folder.name)} is not Gemma 3's; use the files of the model."
        )
    stated = whole.get("image_seq_length", reader.get("image_seq_length", TOKENS))
    if stated != config.get("mm_tokens_per_image", TOKENS):
        raise _misfit(folder, "image tokens")
    vision = config.get("vision_config")
    side = vision.get("image_size", SIDE) if isinstance(vision, dict) else SIDE
    if reader.get("size", {"height": SIDE, "width": SIDE}) != {"height": side, "width": side}:
        raise _misfit(folder, "pixels")
    if reader.get("do_resize", True) is not True:
        raise _misfit(folder, "pixels")
    return True


def _read(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name) if (folder / name).exists() else {}


def _misfit(folder: Path, what: str) -> ModelError:
    return ModelError(
        f"The picture processor in {show(folder.name)} makes another number of {what} than the model reads; "
        "use the files that belong to the model."
    )


def require_image_tokens(tokenizer: Any, config: Any) -> None:
    """The tokenizer and the model mean the same tokens around and in a picture.

    Raises:
        ModelError: they do not.
    """
    named = [getattr(tokenizer, f"{name}_id", None) for name in ("image_token", "boi_token", "eoi_token")]
    if named != [config.image_token_id, config.boi_token_id, config.eoi_token_id]:
        raise ModelError(
            "The model's tokenizer has other image tokens than its config.json; download or export it again."
        )
