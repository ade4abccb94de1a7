"""The models offered by name. Data only: needs neither torch nor transformers nor a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

GEMMA_TERMS_NAME: Final = "Gemma Terms of Use"
GEMMA_TERMS_URL: Final = "https://ai.google.dev/gemma/terms"

DTYPE_BYTES: Final = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes a number takes in memory, by dtype name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalogue."""

    key: str
    """What a person types and a link carries."""
    title: str
    description: str
    licence: str
    licence_url: str
    source: Literal["package", "asset", "eyes", "hub"]
    """``package``: installed with ctxviz; ``asset``: in its assets folder; ``eyes``: the packaged model with
    eyes from assets; these need no network. ``hub``: downloaded from the Hugging Face Hub."""
    n_layers: int
    width: int
    parameters: int
    """Numbers stored, tied embeddings counted once; the vision half included where there is one."""
    vocabulary: int
    hidden: int
    """Width of the MLP's hidden activation."""
    kv_width: int
    """Keys and values of one token in one layer: 2 x KV heads x head size."""
    gated: bool = False
    """Whether the Hub asks for a token and an accepted licence."""
    hub_id: str | None = None
    sha256: str | None = None
    """Of the packaged GGUF file, of the asset's weights, or of both halves (``models.eyes.digest_of``)."""
    reads_pictures: bool = False
    vision: tuple[int, int, int] | None = None
    """Width, MLP width and squares of the vision tower: the fields of ``memory.Vision``."""

    def weight_bytes(self, dtype: str) -> int:
        """Bytes of the weights alone, in memory, in one dtype."""
        return self.parameters * DTYPE_BYTES[dtype]


_HUB_VISION: Final = (1152, 4304, 64**2)
_SMALL_VISION: Final = (96, 256, 8**2)
_IMAGE_TEXT = "It reads pictures too, 256 tokens each."
APACHE_URL: Final = "https://www.apache.org/licenses/LICENSE-2.0"

_PACKAGED: Final = Entry(
    key="gemma-3-270m",
    title="Gemma 3 270M",
    description="The smallest Gemma 3, base model. Comes with ctxviz as 4-bit weights, unpacked to float32.",
    licence=GEMMA_TERMS_NAME,
    licence_url=GEMMA_TERMS_URL,
    source="package",
    n_layers=18,
    width=640,
    parameters=268_098_176,
    vocabulary=262_144,
    hidden=2048,
    kv_width=512,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)


def _hub(
    key: str,
    title: str,
    description: str,
    n_layers: int,
    width: int,
    reads_pictures: bool = False,
    **numbers: int,
) -> Entry:
    return replace(
        _PACKAGED,
        key=key,
        title=title,
        description=description,
        source="hub",
        n_layers=n_layers,
        width=width,
        gated=True,
        hub_id=f"google/{key}",
        sha256=None,
        reads_pictures=reads_pictures,
        vision=_HUB_VISION if reads_pictures else None,
        **numbers,
    )


_TINY_SHAPES: Final = Entry(
    key="tiny-shapes",
    title="tiny-shapes",
    description="A very small Gemma 3 that reads drawn shapes, 16 tokens a picture. Comes with ctxviz.",
    licence="Apache-2.0",
    licence_url=APACHE_URL,
    source="asset",
    n_layers=6,
    width=128,
    parameters=1_256_096,
    vocabulary=540,
    hidden=256,
    kv_width=128,
    sha256="2c5834ed7faa181732fe7897456d6abe3666c887c31d3e30bae3e3c54ac9cc86",
    reads_pictures=True,
    vision=_SMALL_VISION,
)

_WITH_EYES: Final = replace(
    _PACKAGED,
    key="gemma-3-270m-pictures",
    title="Gemma 3 270M with eyes",
    description="The same 270M, its weights untouched, reading drawn shapes through small trained eyes, "
    "16 tokens a picture. Comes with ctxviz.",
    source="eyes",
    parameters=_PACKAGED.parameters + 347_808,
    sha256="e54de6dc3bfeed7c8f48fb4565a24eefb3183c22b3abde911b4a704c73157d5d",
    reads_pictures=True,
    vision=_SMALL_VISION,
)

CATALOGUE: Final[dict[str, Entry]] = {
    entry.key: entry
    for entry in (
        _PACKAGED,
        _WITH_EYES,
        _TINY_SHAPES,
        _hub(
            "gemma-3-270m-it", "Gemma 3 270M instruct", "The smallest, tuned to follow instructions.", 18, 640
        ),
        _hub(
            "gemma-3-1b-it",
            "Gemma 3 1B instruct",
            "The 1B text model, tuned to follow instructions.",
            26,
            1152,
            parameters=999_885_952,
            hidden=6912,
        ),
        _hub(
            "gemma-3-4b-it",
            "Gemma 3 4B instruct",
            f"The 4B model. {_IMAGE_TEXT}",
            34,
            2560,
            reads_pictures=True,
            parameters=4_300_079_472,
            vocabulary=262_208,
            hidden=10_240,
            kv_width=2048,
        ),
        _hub(
            "gemma-3-12b-it",
            "Gemma 3 12B instruct",
            f"The 12B model. {_IMAGE_TEXT}",
            48,
            3840,
            reads_pictures=True,
            parameters=12_187_325_040,
            vocabulary=262_208,
            hidden=15_360,
            kv_width=4096,
        ),
        _hub(
            "gemma-3-27b-it",
            "Gemma 3 27B instruct",
            f"The 27B model. {_IMAGE_TEXT}",
            62,
            5376,
            reads_pictures=True,
            parameters=27_432_406_640,
            vocabulary=262_208,
            hidden=21_504,
            kv_width=4096,
        ),
    )
}
"""By key: first those that come with ctxviz, then the Hub's, smallest first. The first is the default."""
