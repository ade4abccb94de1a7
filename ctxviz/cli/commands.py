"""The commands and their options; ``main`` turns every failure into an exit status and at most one line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ctxviz import __version__, alarms
from ctxviz.cli.terminal import OutputError, ReaderGoneError, sentence, tolerate, write
from ctxviz.errors import CtxvizError, SettingsError
from ctxviz.folds import Fold
from ctxviz.settings import ARITHMETICS, DTYPES, REPLAYS, UPDATE_RULES, RunSettings

INTERRUPTED = 130
OUTPUT_LOST = "The output cannot be written; send it where there is room."
DEFAULTS = RunSettings()

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What a context does to a transformer, shown as weight patches. The page: streamlit run app.py",
)

NoProgress = Annotated[bool, typer.Option("--no-progress", help="No bar on stderr, not even on a terminal.")]
Device = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda, mps, or CUDA devices such as cuda:0,cuda:1.")
]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads; by default torch decides.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    tolerate(sys.stderr)
    if sys.stdout is None:
        return _say("Standard output is closed; send it to a file, a pipe or /dev/null.", 2)
    tolerate(sys.stdout)
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        status = app(args=given, prog_name="python -m ctxviz", standalone_mode=False) or 0
    except typer.TyperException as error:
        return _say(error.format_message(), error.exit_code)
    except CtxvizError as error:
        return _say(error, 2)
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except OSError:
        # The help and the version are printed by others; where that failed, it fails here again.
        if not _output_fails():
            raise
        return _say(OUTPUT_LOST, 2)
    if _output_fails():
        return _say(OUTPUT_LOST, 2)
    return _say("Interrupted.", status) if status > 128 else status


def _output_fails() -> bool:
    """Whether what is still to be put on stdout cannot be; it is then given up."""
    try:
        write("")
    except OutputError:
        return True
    except ReaderGoneError:
        return False
    return False


def _say(message: object, status: int) -> int:
    with contextlib.suppress(OSError):  # a terminal that is gone
        print(f"ctxviz: {sentence(message)}", file=sys.stderr, flush=True)
    return status


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ctxviz {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it and end.")
    ] = False,
) -> None:
    """What a context does to a transformer, shown as weight patches. The page: streamlit run app.py"""


@app.command()
def models() -> None:
    """The catalogue: what there is, what is ready, the memory each needs, its licence."""
    from ctxviz.cli.catalogue import list_models

    list_models()


@app.command()
def fetch(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key of the catalogue, or a Hub id.")],
    no_progress: NoProgress = False,
) -> None:
    """Make a model ready ahead of time."""
    from ctxviz.cli.catalogue import fetch_model

    fetch_model(key, with_bar=not no_progress)


@app.command()
def run(
    model: Annotated[str, typer.Option(help="A key of the catalogue, a Hub id, a folder, or a .gguf file.")],
    prompt: Annotated[
        str, typer.Option(metavar="TEXT|@FILE", help="The text, or @FILE: UTF-8, less one final line break.")
    ],
    image: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Repeatable: a picture, for models that read them; first in the prompt, or where it says "
            "<start_of_image>.",
        ),
    ] = None,
    update: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help=f"Repeatable: {', '.join(UPDATE_RULES)}. [stable]"),
    ] = None,
    arithmetic: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help=f"Repeatable: {', '.join(ARITHMETICS)}. [written]"),
    ] = None,
    dtype: Annotated[
        list[str] | None, typer.Option(metavar="DTYPE", help=f"Repeatable: {', '.join(DTYPES)}. [float32]")
    ] = None,
    first_layer: Annotated[int, typer.Option(help="The first layer that is patched.")] = DEFAULTS.first_layer,
    fold: Annotated[
        str,
        typer.Option(
            metavar="all|all-but-bos|image|image:N|text|START:END",
            help="What is folded into weights; pictures count from 1, positions from 0.",
        ),
    ] = "all",
    floor: Annotated[
        float, typer.Option(help="tau of the floored rule, above 0 and at most 1.")
    ] = DEFAULTS.floor,
    max_new_tokens: Annotated[int, typer.Option(help="How many tokens to write.")] = DEFAULTS.max_new_tokens,
    replay: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help=f"Repeatable, run written weights again: {', '.join(REPLAYS)}. [none]"
        ),
    ] = None,
    hold: Annotated[
        int | None,
        typer.Option(metavar="STEP", help="Run the weights of this token again at all later ones."),
    ] = None,
    budget: Annotated[
        bool,
        typer.Option("--budget", help="Also compare with eager attention, float32 and float64."),
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ALARM",
            help=f"Repeatable, exit 3 where it fires: {', '.join(alarms.KINDS)}.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="RUN_FILE", help="Keep the run, for the page (.ctxviz); replaces the file."),
    ] = None,
    keep_pictures: Annotated[
        bool,
        typer.Option("--keep-pictures", help="Put the pictures into --save's file; else only their hash."),
    ] = False,
    save_patches: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the patches: one safetensors file a step and variant."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One line per step and variant on stdout, held back until the step's unpatched_tvd is "
            "measured (at most 8 steps). noise_floor_tvd and what --budget adds are measured at steps 0, 1, "
            "2, 4, 8, ...; other steps carry the latest.",
        ),
    ] = False,
    threads: Threads = None,
    device: Device = "auto",
    no_progress: NoProgress = False,
) -> int:
    """Let a model write, and measure how well weight patches stand in for its context."""
    from ctxviz.cli.drive import Job, run_job
    from ctxviz.cli.inputs import (
        check_alarms,
        check_replays,
        check_run_file,
        make_patch_folder,
        read_pictures,
        read_prompt,
        require_pictures,
    )
    from ctxviz.models.sources import resolve

    settings = RunSettings(
        updates=tuple(update or DEFAULTS.updates),
        arithmetics=tuple(arithmetic or DEFAULTS.arithmetics),
        dtypes=tuple(dtype or DEFAULTS.dtypes),
        first_layer=first_layer,
        fold=Fold.parse(fold),
        floor=floor,
        max_new_tokens=max_new_tokens,
        vector_budget=0 if save is None else DEFAULTS.vector_budget,
        replays=tuple(replay or ()),
        hold=hold,
        budget=budget,
    )
    check_replays(settings)
    check_alarms(fail_on or [], settings)
    if hold is not None and hold >= max_new_tokens:
        raise SettingsError(
            f"Token {hold} cannot be held in a run of {max_new_tokens}; choose an earlier one."
        )
    text = read_prompt(prompt)
    if keep_pictures and (save is None or not image):
        missing = "--save RUN_FILE" if save is None else "--image FILE"
        raise SettingsError(
            f"There are no pictures to keep in a file; add {missing}, or leave --keep-pictures out."
        )
    pictures = read_pictures(image or [], keep=keep_pictures)
    if save is not None:
        check_run_file(save, [*(image or [])])
    if save_patches is not None:
        make_patch_folder(save_patches)
    source = resolve(model)
    if pictures:
        require_pictures(source)
    return run_job(
        Job(
            model,
            text,
            settings,
            save,
            save_patches,
            as_json,
            threads,
            device,
            with_bar=not no_progress,
            fail_on=tuple(fail_on or ()),
            pictures=pictures,
            keep_pictures=keep_pictures,
        )
    )


@app.command()
def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What to run: see assets/sweeps.")],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Where the cells go. [the specification's name, without .toml, beside it]"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The summary as one line per cell and variant on stdout.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and run nothing.")] = False,
    threads: Threads = None,
    device: Annotated[str | None, typer.Option(help="As for run; by default the specification's.")] = None,
    no_progress: NoProgress = False,
) -> int:
    """Run every combination a specification asks for; finished ones are kept and never run again."""
    from ctxviz.cli.sweeping import Request, run_sweep

    if out is not None and not out.strip():
        raise SettingsError("The name of the sweep's folder is empty; name one, or leave --out away.")
    folder = None if out is None else Path(out)
    return run_sweep(Request(spec, folder, as_json, dry_run, threads, device, with_bar=not no_progress))


@app.command()
def bench(
    as_json: Annotated[
        bool, typer.Option("--json", help="One line per row on stdout, the rest on stderr.")
    ] = False,
    model: Annotated[
        str, typer.Option(help="A key of the catalogue, a folder, or a .gguf file.")
    ] = "gemma-3-270m",
    context: Annotated[
        int, typer.Option(min=8, help="Tokens of the prompt, those of pictures not counted.")
    ] = 64,
    image_tokens: Annotated[
        int,
        typer.Option(min=0, help="Put drawn pictures of at least so many tokens together before the text."),
    ] = 0,
    tokens: Annotated[int, typer.Option(min=3, help="Tokens measured per row.")] = 24,
    threads: Threads = None,
    device: Device = "auto",
    no_progress: NoProgress = False,
) -> None:
    """Measure speed and memory, side by side with stock cached decoding in the same process."""
    from ctxviz.cli.benchmark import run_bench

    run_bench(
        model,
        context,
        tokens,
        image_tokens=image_tokens,
        as_json=as_json,
        threads=threads,
        device=device,
        with_bar=not no_progress,
    )


TrainingFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Where the model goes; run it again to continue.")
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same training on the same machine.")]


@app.command("train-tiny")
def train_tiny(
    folder: TrainingFolder,
    seed: Seed = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; one is fastest beside other work.")] = 1,
    no_progress: NoProgress = False,
) -> None:
    """Train tiny-shapes, the small model that reads drawn shapes, from nothing."""
    from ctxviz.cli import training

    training.train_tiny(folder, seed, threads, with_bar=not no_progress)


@app.command("train-eyes")
def train_eyes(
    folder: TrainingFolder,
    seed: Seed = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    no_progress: NoProgress = False,
) -> None:
    """Train the eyes that Gemma 3 270M reads drawn shapes with; its own weights stay as they are."""
    from ctxviz.cli import training

    training.train_eyes(folder, seed, threads, with_bar=not no_progress)
