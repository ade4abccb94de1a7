"""The prompts of a sweep: texts, and the pictures that are shown with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxviz.errors import PictureError, SettingsError
from ctxviz.presets import PRESETS
from ctxviz.sweep import values

if TYPE_CHECKING:
    from ctxviz.pictures import Picture

PRESET_PROMPTS: Final = "presets"
MOST_PICTURES: Final = 32
"""Of one prompt."""
MOST_TOGETHER: Final = 64
"""Different pictures of a sweep; each is held decoded until the sweep ends."""
_ENTRY: Final = ("text", "pictures")
_FORMS: Final = f'a list of texts and of {{ text = "…", pictures = […] }}, or "{PRESET_PROMPTS}"'
_PICTURES: Final = "a list of picture files beside the sweep's file, or of drawn scenes as links write them"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text and the pictures that are shown with it, in order; two are the same where ``key`` is."""

    text: str
    pictures: tuple[Picture, ...] = ()

    @property
    def hashes(self) -> tuple[str, ...]:
        """The sha256 of each picture's file."""
        return tuple(picture.sha256 for picture in self.pictures)

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        return self.text, self.hashes


def read_prompts(table: dict[str, Any], folder: Path) -> tuple[Prompt, ...]:
    """The prompts of a specification whose pictures' files are named from ``folder``.

    ``pictures`` beside ``prompts`` are shown with every prompt that does not say its own.

    Raises:
        SettingsError: a prompt is missing, blank, there twice, or has too many pictures; or a picture cannot
            be read.
    """
    album = _Album(folder)
    shared = album.pictures(table, "The sweep's pictures")
    if table.get("prompts") == PRESET_PROMPTS:
        return tuple(Prompt(preset.prompt, shared) for preset in PRESETS)
    if "prompts" not in table:
        raise SettingsError(f"The sweep names no prompts; add prompts = {_FORMS}.")
    entries = table["prompts"]
    if not isinstance(entries, list) or not entries:
        raise values.refused("prompts", entries, f"{_FORMS} (not an empty one)")
    prompts = tuple(_read(entry, number, album, shared) for number, entry in enumerate(entries, 1))
    seen: set[object] = set()
    for number, prompt in enumerate(prompts, 1):
        if prompt.key in seen:
            raise SettingsError(
                f"The sweep's prompts hold {values.shown(prompt.text)} with the same pictures twice, the "
                f"second time as number {number}; leave it out."
            )
        seen.add(prompt.key)
    return prompts


def _read(entry: object, number: int, album: _Album, shared: tuple[Picture, ...]) -> Prompt:
    fields = {"text": entry} if isinstance(entry, str) else entry
    if not isinstance(fields, dict):
        raise SettingsError(f"The sweep's prompts hold {values.shown(entry)}; they must be {_FORMS}.")
    for key in fields:
        if key not in _ENTRY:
            raise SettingsError(
                f"Number {number} of the sweep's prompts has an unknown key {values.shown(key)}; use only "
                f"{' and '.join(_ENTRY)}."
            )
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise SettingsError(
            f"The sweep's prompts must hold text without NUL characters, and number {number} does not."
        )
    own = album.pictures(fields, f"The pictures of the sweep's prompts, number {number},")
    return Prompt(text, own if "pictures" in fields else shared)


class _Album:
    """Pictures by name, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Picture] = {}

    def pictures(self, fields: dict[str, Any], where: str) -> tuple[Picture, ...]:
        """Those that ``fields`` name, if any; ``where`` begins the sentence of an error."""
        names = fields.get("pictures", [])
        if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
            raise SettingsError(f"{where} are {values.shown(names)}; they must be {_PICTURES}.")
        if len(names) > MOST_PICTURES:
            raise SettingsError(
                f"{where} are {len(names)}, and a prompt takes at most {MOST_PICTURES}; leave some away."
            )
        return tuple(self._picture(name, where) for name in names)

    def _picture(self, name: str, where: str) -> Picture:
        if name not in self._read:
            if len(self._read) == MOST_TOGETHER:
                raise SettingsError(
                    f"The sweep shows more than {MOST_TOGETHER} different pictures; make two sweeps of it."
                )
            try:
                self._read[name] = _picture(name, self._folder)
            except PictureError as error:
                sentence = str(error)
                raise SettingsError(
                    f"{where} cannot all be read: {sentence[0].lower()}{sentence[1:]}"
                ) from None
        return self._read[name]


def _picture(name: str, folder: Path) -> Picture:
    """The drawn scene of that text, or the picture in the file of that name."""
    from ctxviz.pictures import read_file
    from ctxviz.shapes.recognition import scene_picture
    from ctxviz.shapes.writing import read

    try:
        scene = read(name)
    except ValueError:
        return read_file(folder / name)
    return scene_picture(scene)
