"""A run as one ``.ctxviz`` file: a zip of ``run.json``, three Parquet tables and, if wanted, its pictures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from ctxviz.errors import BundleError
from ctxviz.records import LAYER_METRICS, LayerStats, LayerVectors, Reference, Replay, Step, VariantStep
from ctxviz.run import REFERENCE_METRICS, REPLAY_METRICS, Run, replay_name
from ctxviz.settings import REPLAY_KINDS
from ctxviz.store import archive, description, earlier, reading, stored_pictures, tables
from ctxviz.store.description import Description
from ctxviz.store.files import write_whole
from ctxviz.store.limits import COORDINATE_ROWS, LAYERS, STEPS, TABLE_ROWS, WIDTH


def save_run(
    run: Run, target: str | Path | BinaryIO, *, vectors: bool = True, pictures: bool = False
) -> None:
    """Write a run, finished or not; the same run gives the same bytes. A path is replaced whole or not.

    ``vectors=False`` leaves out the coordinates, by far the largest part. ``pictures=True`` puts the files of
    its pictures in, and tells the scenes of drawn ones; otherwise only their sha256 is told.

    Raises:
        BundleError: the run is larger than a bundle may be, or its pictures are wanted and not at hand.
        OSError: the file cannot be written.
    """
    n = len(run)
    _check_size(run, n, vectors)
    data = archive.pack(
        {
            archive.DESCRIPTION: description.write(
                run, n, stored_pictures.scenes(run.pictures) if pictures else ()
            ),
            "steps.parquet": tables.steps_table(run, n),
            "layers.parquet": tables.layers_table(run, n),
            "coordinates.parquet": tables.coordinates_table(run, n, vectors),
            **(stored_pictures.written(run.pictures, run.context) if pictures else {}),
        }
    )
    if isinstance(target, (str, Path)):
        write_whole(Path(target), data)
    else:
        target.write(data)


def _check_size(run: Run, n: int, vectors: bool) -> None:
    layers, width, v = run.model.n_layers, run.model.width, len(run.variants)
    cells = layers * width
    if n > STEPS or layers > LAYERS or width > WIDTH or n * v * layers > TABLE_ROWS:
        raise BundleError(
            "The run is too long to be saved as one file; run it again for fewer tokens or variants."
        )
    kept = sum(run.vectors(k, i) is not None for k in range(n) for i in range(v)) if vectors else 0
    if cells > TABLE_ROWS or kept * cells > COORDINATE_ROWS:
        raise BundleError("The run's coordinates are too many for one file; save it without them.")


def load_run(source: str | Path | bytes | BinaryIO) -> Run:
    """Read a run back, with its pictures where the file holds them all; nothing in the file is trusted.

    Raises:
        BundleError: the file is not a bundle, is damaged or too large, or has another schema version.
    """
    parts = archive.unpack(source)
    about = description.read(parts[archive.DESCRIPTION])
    series, references = reading.read_steps(parts["steps.parquet"], about)
    layers = reading.read_layers(parts["layers.parquet"], about)
    vectors = reading.read_coordinates(parts["coordinates.parquet"], about)
    earlier.tell_apart(about, series, layers, vectors)
    pictures = stored_pictures.read(parts, about.context, about.scenes)
    run = Run(about.model, about.context, about.settings, pictures)
    for k in range(len(about.steps)):
        run.append(_step(about, k, series, layers, vectors))
    for k in range(len(about.steps)):
        for column, dtype in enumerate(run.dtypes):
            values = {name: _known(float(references[name][k, column])) for name in REFERENCE_METRICS}
            run.refer(Reference(k, dtype, **values))
    run.forgotten_vectors += about.forgotten_vectors
    run.outcome = about.outcome
    run.without_context = about.without_context
    return run


def load_description(source: str | Path | bytes | BinaryIO) -> Description:
    """What a run's file says besides its tables, which are not read: many files are so looked through fast.

    Raises:
        BundleError: as :func:`load_run`, of the tables only where they are missing or too large.
    """
    return description.read(archive.unpack(source)[archive.DESCRIPTION])


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _replays(series: dict[str, NDArray[Any]], k: int, i: int) -> tuple[Replay, ...]:
    """The replays that were measured at step k of variant i."""
    found = {
        kind: {m: float(series[replay_name(kind, m)][k, i]) for m in REPLAY_METRICS} for kind in REPLAY_KINDS
    }
    return tuple(
        Replay(kind, bool(v["match"]), v["tvd"], v["shift"], v["seconds"])
        for kind, v in found.items()
        if not math.isnan(v["match"])
    )


def _step(
    about: Description,
    k: int,
    series: dict[str, NDArray[Any]],
    layers: dict[str, NDArray[Any]],
    vectors: dict[tuple[int, int], LayerVectors],
) -> Step:
    said = about.steps[k]
    variants = tuple(
        VariantStep(
            variant=variant,
            match=bool(series["match"][k, i]),
            tie=bool(series["tie"][k, i]),
            tvd=float(series["tvd"][k, i]),
            logit_linf=float(series["logit_linf"][k, i]),
            kl=float(series["kl"][k, i]),
            rank=int(series["rank"][k, i]),
            top=said.tops[i],
            seconds=float(series["seconds"][k, i]),
            layers=LayerStats(**{name: layers[name][k, i] for name in LAYER_METRICS}),
            vectors=vectors.get((k, i)),
            replays=_replays(series, k, i),
        )
        for i, variant in enumerate(about.settings.variants)
    )
    return Step(
        index=k,
        position=said.position,
        token_id=said.token_id,
        text=said.text,
        next_token_id=said.next_token_id,
        next_text=said.next_text,
        baselines=said.baselines,
        variants=variants,
        seconds=said.seconds,
    )
