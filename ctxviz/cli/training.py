"""The ``train-tiny`` and ``train-eyes`` commands: the shipped picture models, made again from nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ctxviz.cli.terminal import bar, write
from ctxviz.errors import SettingsError

MAX_THREADS = 1024


def train_tiny(folder: Path, seed: int, threads: int, *, with_bar: bool) -> None:
    """Train tiny-shapes into ``folder``, or go on with what is there.

    Raises:
        SettingsError: the folder cannot be used.
    """
    _require_unfinished(folder, "model.safetensors")
    _require_usable(seed, threads)
    import torch

    from ctxviz.training import report
    from ctxviz.training.looking import LookingPlan
    from ctxviz.training.train_tiny import Plan, train

    torch.set_num_threads(threads)
    with bar(with_bar) as progress:
        model, processor = train(Plan(LookingPlan(seed)), folder, _reporter("training tiny-shapes", progress))
        rows = _collect(report.tiny_table(model, processor), progress)
    processor.save_pretrained(folder)
    report.write(rows, folder)
    model.save_pretrained(folder)
    _done(folder, rows)


def train_eyes(folder: Path, seed: int, threads: int, *, with_bar: bool) -> None:
    """Train the eyes of Gemma 3 270M into ``folder``, or go on with what is there.

    Raises:
        SettingsError: the folder cannot be used.
        ModelError: the packaged model is missing or damaged.
    """
    from ctxviz.models.eyes import EYES, PARTS

    _require_unfinished(folder, EYES)
    _require_usable(seed, threads)
    import torch
    from safetensors.torch import save_file

    from ctxviz.models.preparing import LANGUAGE_HALF, prepare
    from ctxviz.models.sources import resolve
    from ctxviz.training import report
    from ctxviz.training.looking import LookingPlan
    from ctxviz.training.train_eyes import Plan, train

    torch.set_num_threads(threads)
    with bar(with_bar) as progress:
        language = prepare(resolve(LANGUAGE_HALF), progress).folder
        model, processor = train(
            Plan(LookingPlan(seed)), language, folder, _reporter("training the eyes", progress)
        )
        rows = _collect(report.eyes_table(model, processor), progress)
    processor.save_pretrained(folder)
    for unshipped in ("tokenizer.json", "tokenizer_config.json"):
        (folder / unshipped).unlink(missing_ok=True)
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    report.write(rows, folder)
    state = model.state_dict()
    save_file({name: state[name].contiguous() for name in state if name.startswith(PARTS)}, folder / EYES)
    _done(folder, rows)


def _require_usable(seed: int, threads: int) -> None:
    if seed >= 1 << 32:
        raise SettingsError(f"The seed is {seed}; choose one below {1 << 32}.")
    if threads > MAX_THREADS:
        raise SettingsError(f"{threads} threads cannot be used; choose 1 to {MAX_THREADS}.")


def _require_unfinished(folder: Path, result: str) -> None:
    if str(folder).strip() in ("", "."):
        raise SettingsError("No folder is named; name one of its own for the training.")
    try:
        exists = (folder / result).exists()
    except OSError as error:
        raise SettingsError(f"The folder cannot be used ({error.strerror}); name another.") from None
    if exists:
        raise SettingsError(f"{str(folder)!r} holds a trained model already; name another folder.")


def _reporter(what: str, progress: Any) -> Callable[[int, int, str], None]:
    def report(done: int, steps: int, words: str) -> None:
        progress(f"{what}, step {done} of {steps}: {words}", done / steps)

    return report


def _collect(rows: Iterator[dict[str, Any]], progress: Any) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        progress(f"examined: {row['scenes']}", None)
        found.append(row)
    return found


def _done(folder: Path, rows: list[dict[str, Any]]) -> None:
    """The table on stdout; the training's state is no longer needed."""
    from ctxviz.training.checkpoint import STATE

    (folder / STATE).unlink(missing_ok=True)
    for row in rows:
        write(json.dumps(row) + "\n")
