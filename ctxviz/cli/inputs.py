"""What the command line is given: prompts, pictures, places to write to; checked before a model is loaded."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxviz.alarms import KINDS
from ctxviz.cli.terminal import sentence
from ctxviz.errors import PictureError, PromptError, SettingsError
from ctxviz.opening import NotRegularError, open_regular
from ctxviz.replaying import SAME_WEIGHTS
from ctxviz.settings import RunSettings

if TYPE_CHECKING:
    from ctxviz.models.sources import Source
    from ctxviz.pictures import Picture

MOST_PICTURES: Final = 32
"""Of one run; each is held decoded."""
PROMPT_LIMIT: Final = 2**20
"""Bytes of a prompt file; far beyond any model's window, far below what hurts."""


def read_prompt(argument: str) -> str:
    """The prompt itself, or with a leading ``@`` the contents of that file: UTF-8, less one final line break.

    Raises:
        PromptError: the file cannot be read, is too large or is not UTF-8; or the text is empty or holds
            characters that are not text.
    """
    if argument == "@":
        raise PromptError("The name of the prompt file is missing after @; give --prompt @FILE.")
    text = _read_file(argument[1:]) if argument.startswith("@") else _as_utf8(argument)
    if not text.strip():
        raise PromptError("The prompt is empty; give some text, or @FILE to read it from a file.")
    if "\0" in text:
        raise PromptError("The prompt holds a NUL character; remove it.")
    return text


def _as_utf8(argument: str) -> str:
    """An argument whose bytes Python could not read in the locale's encoding, read as UTF-8."""
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        raise PromptError(
            "The prompt is not valid UTF-8 text; type it again, or give it as @FILE saved in UTF-8."
        ) from None


def _read_file(name: str) -> str:
    shown = repr(name if len(name) <= 80 else name[:79] + "…")
    try:
        with open_regular(Path(name)) as file:
            data = file.read(PROMPT_LIMIT + 1)
    except FileNotFoundError:
        raise PromptError(
            f"There is no prompt file {shown}; check its path, "
            "or put a prompt that begins with @ into a file."
        ) from None
    except IsADirectoryError:
        raise PromptError(f"The prompt file {shown} is a folder; name a text file.") from None
    except NotRegularError:
        raise PromptError(
            f"The prompt file {shown} is a device, a pipe or a socket and is not read; "
            "put the prompt into a text file."
        ) from None
    except (OSError, ValueError) as error:
        raise PromptError(
            f"The prompt file {shown} cannot be read ({_reason(error)}); name another."
        ) from None
    if len(data) > PROMPT_LIMIT:
        raise PromptError(
            f"The prompt file {shown} is larger than {PROMPT_LIMIT // 2**20} MiB; use a shorter text."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PromptError(f"The prompt file {shown} is not UTF-8 text; save it as UTF-8.") from None
    return text.removesuffix("\n").removesuffix("\r")


def read_pictures(paths: Sequence[Path], *, keep: bool) -> tuple[Picture, ...]:
    """The pictures in these files, in this order; what was done to one is told on stderr.

    Raises:
        PictureError: one cannot be read.
        BundleError: they are to be kept in a run file, which cannot hold them.
    """
    if not paths:
        return ()
    from ctxviz.pictures import read_file
    from ctxviz.store import check_pictures

    if len(paths) > MOST_PICTURES:
        raise PictureError(
            f"{len(paths)} pictures are given, and a prompt takes at most {MOST_PICTURES}; leave some away."
        )
    pictures = tuple(read_file(path) for path in paths)
    if keep:
        check_pictures(pictures)
    tell_notes(pictures)
    return pictures


def tell_notes(pictures: Iterable[Picture]) -> None:
    """Say on stderr what was done to each picture as it was read."""
    for picture in pictures:
        if picture.notes:
            told = sentence(f"The picture “{picture.name}”: {'; '.join(picture.notes)}.")
            with contextlib.suppress(OSError):  # a terminal that is gone
                print(f"ctxviz: {told}", file=sys.stderr, flush=True)


def require_pictures(source: Source) -> None:
    """See that a model reads pictures, as far as can be told without loading it.

    Raises:
        PictureError: it reads text only.
        ModelError: its folder is not a model's.
    """
    if source.entry is not None:
        reads = source.entry.reads_pictures
    elif source.kind == "folder" and source.path is not None:
        from ctxviz.models import processors
        from ctxviz.models.folders import inspect, read_configuration

        reads = inspect(source.path).architecture.reads_pictures and processors.reads_pictures(
            source.path, read_configuration(source.path)
        )
    else:
        # A GGUF file holds the text half alone; a Hub model is not known before it is fetched.
        reads = source.kind != "gguf"
    if not reads:
        raise PictureError(
            f"{source.title} reads text only and cannot see a picture; choose a model that reads pictures, "
            "such as tiny-shapes, or leave the picture away."
        )


def check_alarms(names: Sequence[str], settings: RunSettings) -> None:
    """See that there are alarms of these names, and that each could fire in a run of these settings.

    Raises:
        SettingsError: one is unknown, or nothing that it looks at would be measured.
    """
    written = "written" in settings.arithmetics
    replayed = written and any(kind in settings.replays for kind in SAME_WEIGHTS)
    never = {
        "replay-failure": (replayed, "add --replay batch and written patches"),
        "near-overflow": ("float16" in settings.dtypes, "add --dtype float16"),
        "swallowed": (written, "add --arithmetic written"),
    }
    for name in names:
        if name not in KINDS:
            raise SettingsError(f"Unknown alarm {name[:40]!r}; choose from {', '.join(KINDS)}.")
        possible, remedy = never.get(name, (True, ""))
        if not possible:
            raise SettingsError(f"The alarm {name} could never fire in this run; {remedy}, or leave it out.")


def check_replays(settings: RunSettings) -> None:
    """See that what is to be replayed will be written.

    Raises:
        SettingsError: replays or a held patch are asked for, and no variant is written.
    """
    if settings.replay_kinds and "written" not in settings.arithmetics:
        raise SettingsError("Only written patches can be replayed or held; add --arithmetic written.")


def check_run_file(target: Path, pictures: Sequence[Path] = ()) -> None:
    """See that a run can be written to this path later on, and that it is none of the ``pictures``.

    Raises:
        SettingsError: it is a folder, device, pipe or socket, its name is too long, or its folder is missing
            or not writable.
    """
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"The run file {_short(target)} cannot be written ({_reason(error)}); name another."
        ) from None
    if any(target.exists() and target.samefile(picture) for picture in pictures):
        raise SettingsError(f"The run file {_short(target)} is one of the pictures; name another.")
    if stat.S_ISDIR(mode):
        raise SettingsError(f"The run file {str(target)!r} is a folder; name a file.")
    if not stat.S_ISREG(mode):
        raise SettingsError(
            f"The run file {str(target)!r} is a device, a pipe or a socket and is left alone; name a file."
        )
    if not target.parent.is_dir():
        raise SettingsError(f"The folder of the run file {str(target)!r} does not exist; make it first.")
    if not os.access(target.parent, os.W_OK):
        raise SettingsError(
            f"The folder of the run file {str(target)!r} cannot be written to; choose another."
        )


def make_patch_folder(target: Path) -> None:
    """Make the folder for patches, unless it is there.

    Raises:
        SettingsError: it cannot be made or written to.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"The patch folder {_short(target)} cannot be made ({_reason(error)}); choose another."
        ) from None
    if not os.access(target, os.W_OK):
        raise SettingsError(f"The patch folder {str(target)!r} cannot be written to; choose another.")


def _short(path: Path) -> str:
    text = str(path)
    return repr(text if len(text) <= 80 else text[:79] + "…")


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
