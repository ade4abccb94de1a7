"""What is handed out with a patch of a prompt with pictures: the script's bits, PEFT's logits, refusals."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ctxviz.engine import stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.application import Scratch
from ctxviz.engine.context_pass import ContextPass
from ctxviz.engine.patched_pass import patched_pass
from ctxviz.engine.prompt import look
from ctxviz.errors import BundleError
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.pictures import Picture, read_file
from ctxviz.records import Step
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.store import adapter_files, save_patch, script
from tests.tiny_models import save_tiny_picture_folder

PROMPT = "the robot on mars says"
TOLERANCE = 3e-3
"""Of the total variation between PEFT's side branches and the context, as in test_peft_adapter.py."""
WRONG = 5e-2

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing. is deprecated:FutureWarning")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny_picture_folder(tmp_path_factory.mktemp("seeing"))))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Noise that lies on its side, and noise that is partly transparent."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    paths = (folder / "a.png", folder / "b.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(random.integers(0, 256, (20, 30, 3), np.uint8)).save(paths[0], exif=exif)
    Image.fromarray(random.integers(0, 256, (16, 16, 4), np.uint8), "RGBA").save(paths[1])
    return paths


@dataclasses.dataclass(frozen=True)
class Built:
    """Step 0 of a run with its patch, and the engine's logits, float32 [vocabulary]."""

    run: Run
    step: Step
    pictures: tuple[Picture, ...]
    logits: np.ndarray
    context_logits: np.ndarray


def built(model: LoadedModel, fold: str, files: Sequence[Path], dtype: str = "float32") -> Built:
    settings = RunSettings(dtypes=(dtype,), fold=Fold.parse(fold), max_new_tokens=1)
    pictures = tuple(read_file(path) for path in files)
    running = stream(model, PROMPT, settings, pictures=pictures, keep_patches=True)
    run = Run(model.identity, running.context, settings, pictures)
    step = next(item for item in running if isinstance(item, Step))
    run.append(step)
    anatomy = anatomy_of(model.in_dtype(dtype), model.architecture)
    sight = look(model, pictures, run.context)
    context = ContextPass(anatomy, sight)
    context.prefill(list(run.context.token_ids[:-1]))
    state = context.advance(run.context.token_ids[-1])
    made = patched_pass(
        anatomy,
        settings.variants[0],
        step.kept_ids,
        step.kept_positions,
        state,
        scratch=Scratch(),
        small_h=1e-3,
        sight=sight,
    )
    return Built(run, step, pictures, made.logits.float().numpy(), state.logits.float().numpy())


def ran(
    model: LoadedModel, made: Built, folder: Path, *arguments: str, pictures: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The script, run in ``folder`` without ctxviz; it leaves logits.npy there."""
    patch = save_patch(folder, made.run, made.step, made.step.variants[0])
    count = len(made.pictures) if pictures is None else pictures
    (folder / "apply.py").write_text(
        script(patch.name, str(model._ready.folder), pictures=count)
        + "\nimport sys, numpy\nassert not any(m.split('.')[0] == 'ctxviz' for m in sys.modules)"
        + "\nnumpy.save('logits.npy', logits.float().numpy())\n",
        encoding="utf-8",
    )
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "apply.py", *arguments],
        cwd=folder,
        env=os.environ | offline,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    ("fold", "dtype"), [("all", "float32"), ("image", "float32"), ("text", "float32"), ("text", "bfloat16")]
)
def test_the_script_gives_the_written_logits_bit_for_bit(
    model: LoadedModel, files: tuple[Path, Path], tmp_path: Path, fold: str, dtype: str
) -> None:
    made = built(model, fold, files, dtype)
    keeps = fold == "text"
    assert made.step.kept_ids.count(383) == (8 if keeps else 0)
    given = ("--image", *map(str, files)) if keeps else ()
    done = ran(model, made, tmp_path, *given)
    assert done.returncode == 0, done.stderr[-2000:]
    np.testing.assert_array_equal(np.load(tmp_path / "logits.npy"), made.logits)
    if keeps and dtype == "float32":
        # The pictures are really looked at: without them the same patch says something else.
        blind = ran(model, made, tmp_path, pictures=0)
        assert blind.returncode == 0, blind.stderr[-2000:]
        assert np.abs(np.load(tmp_path / "logits.npy") - made.logits).max() > 0.01


def test_one_picture_is_kept_and_the_other_folded(
    model: LoadedModel, files: tuple[Path, Path], tmp_path: Path
) -> None:
    made = built(model, "image:1", files)
    assert made.step.kept_ids.count(383) == 4
    done = ran(model, made, tmp_path, "--image", *map(str, files))
    assert done.returncode == 0, done.stderr[-2000:]
    # The tower reads one picture here and both at once in the engine.
    np.testing.assert_allclose(np.load(tmp_path / "logits.npy"), made.logits, atol=1e-4, rtol=0)


def test_the_script_refuses_what_it_cannot_do_in_a_sentence(
    model: LoadedModel, files: tuple[Path, Path], tmp_path: Path
) -> None:
    made = built(model, "text", files)
    for given in ((), files[:1], files[::-1]):
        done = ran(model, made, tmp_path, *(("--image", *map(str, given)) if given else ()))
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith("Give the context's own picture files")
    span = made.run.context.images[0]
    part = built(model, f"1:{span.start + 3}", files)
    done = ran(model, part, tmp_path, "--image", *map(str, files))
    assert (done.returncode, done.stdout) == (1, "")
    assert "keeps a part of a picture only" in done.stderr.splitlines()[-1]


def test_the_picture_script_fits_a_page() -> None:
    lines = script("step00000-stable-written-float32-from0.safetensors", "google/gemma-3-4b-it", pictures=1)
    assert len(lines.splitlines()) < 70
    assert max(map(len, lines.splitlines())) <= 110


def adapter(model: LoadedModel, made: Built, folder: Path) -> str:
    """Writes the adapter's folder; its README."""
    layers = anatomy_of(model.in_dtype("float32"), model.architecture).layers
    patches = made.step.variants[0].patches
    assert patches is not None
    contents = adapter_files(
        patches,
        base_model=str(model._ready.folder),
        dtype="float32",
        stored_scales={layer.scale_name: layer.stored_scale for layer in layers},
        kept_ids=made.step.kept_ids,
        kept_positions=made.step.kept_positions,
        images=made.run.context.images,
    )
    folder.mkdir()
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return contents["README.md"].decode()


@pytest.mark.parametrize("fold", ["all", "image", "text", "image:1"])
def test_the_code_of_the_adapters_readme_gives_the_logits_of_the_context(
    model: LoadedModel, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fold: str
) -> None:
    made = built(model, fold, files)
    code = adapter(model, made, tmp_path / "a").split("```")[1].removeprefix("python")
    shown = {"text": made.pictures, "image:1": made.pictures[1:]}.get(fold, ())
    assert ("pixel_values" in code) == bool(shown)
    if shown:
        which = {"text": "pictures 1, 2 of the context", "image:1": "picture 2 of the context"}[fold]
        assert which in code
        assert code.count("pictures = []") == 1
        code = code.replace("pictures = []", "pictures = shown")
    monkeypatch.chdir(tmp_path / "a")
    names: dict[str, Any] = {"shown": [picture.image for picture in shown]}
    with torch.no_grad():
        exec(code, names)
        logits = names["logits"]
        with names["model"].disable_adapter():
            exec(code[code.index("logits = ") :], names)

    def error(found: torch.Tensor) -> float:
        wanted = torch.from_numpy(made.context_logits).double().softmax(-1)
        return float((found.double().softmax(-1) - wanted).abs().sum() / 2)

    assert error(logits) < TOLERANCE
    assert error(names["logits"]) > WRONG


def test_an_adapter_of_a_part_of_a_picture_is_refused(
    model: LoadedModel, files: tuple[Path, Path], tmp_path: Path
) -> None:
    made = built(model, "1:6", files)
    with pytest.raises(BundleError, match="keeps a part of a picture only"):
        adapter(model, made, tmp_path / "a")
