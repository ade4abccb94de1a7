"""The pictures of one tab: which a run of a model gets, and which come back after a reload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from ctxviz.errors import ModelError
from ctxviz.figures.text import readable
from ctxviz.folds import Fold
from ctxviz.models.sources import resolve
from ctxviz.pictures import Picture
from ctxviz.run import Run
from ctxviz.ui.picture_source import reads_pictures, scene_of, scenes_of
from ctxviz.ui.views import View

MODEL_SHOWN: Final = 64
"""Characters of a model's name."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run was asked for with."""

    pictures: tuple[Picture, ...]
    fold: Fold


ASKED: Final[WeakKeyDictionary[View, Asked]] = WeakKeyDictionary()
"""Of the views whose run was asked for here, from that moment on; a reload may come before the run begins."""


@dataclass(kw_only=True)
class TabPictures:
    """What the prompt shows, and the choices before."""

    pictures: list[Picture] = field(default_factory=list)
    """What the prompt shows, in order, for models that read pictures."""
    former: list[list[Picture]] = field(default_factory=list)
    """The pictures before the latest choices, which can be undone."""
    taken: int = 0
    """How often files were chosen."""

    def used(self, model: str) -> tuple[Picture, ...]:
        """The pictures that a run of this model gets: none where it reads text only."""
        return tuple(self.pictures) if reads_pictures(model) else ()

    def shows(self, pictures: Sequence[Picture]) -> bool:
        """Whether these are the pictures that are chosen."""
        return hashes(pictures) == hashes(self.pictures)

    def differs_from(self, run: Run, model: str, prompt: str) -> tuple[str, ...]:
        """What ``run`` was made from that is not what ``model`` would get now; nothing where all is the same.

        ``another prompt``; ``another picture``, ``other pictures``, or where one of the two has none
        ``with a picture``, ``with 2 pictures``, ``without a picture``.
        """
        now, then = hashes(self.used(model)), run.context.image_sha256
        one = len(then) == 1
        prompts = ("another prompt",) if run.context.prompt != prompt else ()
        if now == then:
            return prompts
        if not then:
            return (*prompts, "without a picture")
        if not now:
            return (*prompts, "with a picture" if one else f"with {len(then)} pictures")
        return (*prompts, "another picture" if one else "other pictures")

    def other_model(self, run: Run, model: str) -> str:
        """The name of the model that made ``run`` where ``model`` is another; else empty.

        Told by the key alone, as no weights are loaded here; empty too where ``model`` names none.
        """
        try:
            key = resolve(model).key
        except ModelError:
            return ""
        return "" if run.model.key == key else readable(run.model.name, MODEL_SHOWN)

    def bring_back(self, view: View) -> Asked | None:
        """Take the pictures that the run of ``view`` was asked for with, if that was the last choice.

        An address holds the scenes of the last choice and no other picture. So the run's pictures are taken
        only where one of them is no scene, and those that are scenes are the address's.
        """
        asked = ASKED.get(view)
        if asked is None or all(scene_of(picture) is not None for picture in asked.pictures):
            return None
        if scenes_of(asked.pictures) != scenes_of(self.pictures):
            return None
        self.pictures[:] = asked.pictures
        return asked


def hashes(pictures: Sequence[Picture]) -> tuple[str, ...]:
    """What tells pictures from others: the sha256 of each file."""
    return tuple(picture.sha256 for picture in pictures)
