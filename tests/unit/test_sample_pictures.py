"""The sample pictures in assets are the gallery's scenes, drawn."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ctxviz.shapes.drawing import draw
from ctxviz.shapes.gallery import GALLERY

FOLDER = Path(__file__).parents[2] / "assets" / "pictures"


@pytest.mark.parametrize("sample", GALLERY, ids=lambda sample: sample.title)
def test_a_sample_is_its_scene(sample):
    with Image.open(FOLDER / f"{sample.title.lower().replace(' ', '-')}.png") as picture:
        assert np.array_equal(np.asarray(picture), np.asarray(draw(sample.scene)))


def test_there_are_no_others():
    assert len(list(FOLDER.iterdir())) == len(GALLERY)
