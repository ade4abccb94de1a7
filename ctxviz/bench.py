"""Speed and memory: ctxviz against stock cached decoding, side by side in one process.

Both sides are timed alternately, token by token, so that whatever else the machine does falls on both;
figures are medians. A step of ctxviz is the context pass, the patched pass and the metrics of one variant.
The references (noise floor, unpatched model) are measured after a step, on a schedule, and are counted apart.
With pictures both sides read the same ones, and the new tokens are a given text: a caption would soon end.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxviz.bench_material import PASSAGE, Material
from ctxviz.errors import CtxvizError
from ctxviz.folds import Context
from ctxviz.models.progress import Progress, silent
from ctxviz.records import Step
from ctxviz.settings import REPLAY_KINDS, REPLAYS, RunSettings

if TYPE_CHECKING:
    import torch

    from ctxviz.engine import Stream
    from ctxviz.models import LoadedModel
    from ctxviz.pictures import Picture

DTYPES: Final = ("float32", "bfloat16")
KINDS: Final = (("factored", "direct"), ("written", "direct"), ("written", "stable"), ("written", "floored"))
TARGETS: Final = {("factored", "direct"): 2.3, ("written", "direct"): 3.5, ("written", "stable"): 4.5}
"""Largest ratio to stock decoding that is aimed for."""
WARM_UP: Final = 3
EARLY, LATE, AROUND = 20, 200, 5
"""Flatness: tokens 20 and 200, each the median of that many tokens on either side."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; seconds are medians per token, ``context`` the tokens given, pictures too."""

    model: str
    dtype: str
    arithmetic: str
    update: str
    context: int
    stock_seconds: float
    seconds: float
    references_seconds: float
    """Spent on references, per token, beside ``seconds``."""
    image_tokens: int = 0
    """Of ``context``, the tokens that stand for tiles of pictures."""

    @property
    def ratio(self) -> float:
        return self.seconds / self.stock_seconds

    @property
    def target(self) -> float | None:
        return TARGETS.get((self.arithmetic, self.update))


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """One kind of replay beside a stock cached decode; seconds are medians of one pass.

    ``passes`` is how many a token takes (``ulp`` tries several seeds), ``stock_two_seconds`` a stock decode
    of a batch of two.
    """

    dtype: str
    kind: str
    stock_seconds: float
    stock_two_seconds: float
    seconds: float
    passes: int

    @property
    def ratio(self) -> float:
        """One pass beside one stock decode."""
        return self.seconds / self.stock_seconds


@dataclass(frozen=True, slots=True)
class _Timings:
    """Seconds per token, entry k for the k-th new token, after ``context``."""

    context: Context
    stock: list[float]
    steps: list[float]
    references: float


def first_token_seconds(
    model: str, device: str, threads: int | None = None, pictures: Sequence[Picture] = ()
) -> float:
    """Wall time of a new process that loads the model and writes one token, the interpreter's start included.

    Raises:
        CtxvizError: the process failed; the message is its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{index}.png" for index in range(len(pictures))]
        for file, picture in zip(files, pictures, strict=True):
            file.write_bytes(picture.data)
        return _first_token_seconds(model, device, threads, files)


def _first_token_seconds(model: str, device: str, threads: int | None, pictures: list[Path]) -> float:
    command = [sys.executable, "-m", "ctxviz", "run", "--model", model, "--prompt", PASSAGE.strip()]
    command += ["--max-new-tokens", "1", "--json", "--no-progress", "--device", device]
    command += [] if threads is None else ["--threads", str(threads)]
    command += [argument for file in pictures for argument in ("--image", str(file))]
    started = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise CtxvizError(
            done.stderr.strip().removeprefix("ctxviz: ") or "The first token could not be measured."
        )
    return seconds


def _stream(model: LoadedModel, given: Material, settings: RunSettings) -> Stream:
    from ctxviz.engine import stream

    follow = None if given.follow is None else list(islice(cycle(given.follow), settings.max_new_tokens))
    return stream(model, given.prompt, settings, pictures=given.pictures, follow=follow)


def rows(model: LoadedModel, given: Material, tokens: int, progress: Progress = silent) -> Iterator[Row]:
    """Every dtype and kind of patching, each beside stock decoding of the same length."""
    for dtype in DTYPES:
        for arithmetic, update in KINDS:
            progress(f"{dtype} {arithmetic} {update}", None)
            settings = _settings(dtype, arithmetic, update, tokens + WARM_UP)
            timings = _alternate(model, given, settings)
            yield _row(model, settings, 0, timings, WARM_UP, len(timings.steps))


def replays(
    model: LoadedModel, given: Material, tokens: int, progress: Progress = silent
) -> Iterator[ReplayRow]:
    """Every kind of replay of written stable patches, alternating with stock decodes of one and of two rows.

    Raises:
        CtxvizError: the model ended its text too early.
    """
    from ctxviz.numerics.rounding import ULP_SEEDS

    for dtype in DTYPES:
        progress(f"{dtype} replays", None)
        settings = replace(
            _settings(dtype, "written", "stable", tokens + WARM_UP), replays=REPLAYS, hold=WARM_UP
        )
        run = _stream(model, given, settings)
        one, two = (_StockDecoding(model, dtype, run, rows) for rows in (1, 2))
        stock: dict[int, list[float]] = {1: [], 2: []}
        passes: dict[str, list[float]] = {kind: [] for kind in REPLAY_KINDS}
        for step in (item for item in run if isinstance(item, Step)):
            stock[1].append(one.step(step.token_id))
            stock[2].append(two.step(step.token_id))
            for replay in step.variants[0].replays:
                passes[replay.kind].append(replay.seconds)
        if len(stock[1]) < settings.max_new_tokens:
            raise _ended(len(stock[1]))
        beside, beside_two = (statistics.median(stock[rows][WARM_UP:]) for rows in (1, 2))
        for kind, seconds in passes.items():
            count = ULP_SEEDS if kind == "ulp" else 1
            yield ReplayRow(dtype, kind, beside, beside_two, statistics.median(seconds[-tokens:]), count)


def flatness(model: LoadedModel, given: Material, progress: Progress = silent) -> tuple[Row, Row]:
    """Written stable float32 around token 20 and around token 200 of one run."""
    progress(f"float32 written stable to token {LATE + AROUND}", None)
    settings = _settings("float32", "written", "stable", LATE + AROUND)
    timings = _alternate(model, given, settings)
    early, late = (
        _row(model, settings, token, timings, token - AROUND, token + AROUND) for token in (EARLY, LATE)
    )
    return early, late


def resident_bytes() -> int:
    """Memory this process holds now."""
    import psutil

    return psutil.Process().memory_info().rss


def _settings(dtype: str, arithmetic: str, update: str, tokens: int) -> RunSettings:
    return RunSettings((update,), (arithmetic,), (dtype,), max_new_tokens=tokens, vector_budget=0)


def _row(
    model: LoadedModel, settings: RunSettings, written: int, timings: _Timings, first: int, last: int
) -> Row:
    """The row of tokens ``first`` to ``last - 1``, after the prompt and so many ``written`` tokens."""
    return Row(
        model.identity.key,
        settings.dtypes[0],
        settings.arithmetics[0],
        settings.updates[0],
        len(timings.context.token_ids) + written,
        statistics.median(timings.stock[first:last]),
        statistics.median(timings.steps[first:last]),
        timings.references / len(timings.steps),
        sum(len(span.tokens) for span in timings.context.images),
    )


def _ended(tokens: int) -> CtxvizError:
    return CtxvizError(f"The model ended its text after {tokens} tokens; choose another --context.")


def _alternate(model: LoadedModel, given: Material, settings: RunSettings) -> _Timings:
    """Steps of ctxviz and of stock decoding in turn, on the same tokens."""
    steps = _stream(model, given, settings)
    stock = _StockDecoding(model, settings.dtypes[0], steps)
    timings: tuple[list[float], list[float]] = ([], [])
    references = 0.0
    while True:
        started = time.perf_counter()
        item = next(steps, None)
        seconds = time.perf_counter() - started
        if item is None:
            break
        if isinstance(item, Step):
            timings[1].append(seconds)
            timings[0].append(stock.step(item.token_id))
        else:
            references += seconds
    if len(timings[0]) < settings.max_new_tokens:
        raise _ended(len(timings[0]))
    return _Timings(steps.context, *timings, references)


class _StockDecoding:
    """The stock model with its own cache, one token at a time, greedy: the fastest plain way to decode."""

    def __init__(self, model: LoadedModel, dtype: str, beside: Stream, rows: int = 1) -> None:
        from transformers import DynamicCache

        self._model = model.in_dtype(dtype)
        self._device = next(self._model.parameters()).device
        self._cache = DynamicCache(config=self._model.config)
        self._rows = rows
        prompt = list(beside.context.token_ids[:-1])
        self._forward(prompt, **self._pictures(model, beside.pictures, prompt))

    def step(self, token_id: int) -> float:
        """Decode one token; seconds it took, the choice of the next token included."""
        started = time.perf_counter()
        logits = self._forward([token_id])
        int(logits[0, -1].argmax())
        return time.perf_counter() - started

    def _pictures(
        self, model: LoadedModel, pictures: Sequence[Picture], prompt: list[int]
    ) -> dict[str, torch.Tensor]:
        """What the stock model is given besides ids to read pictures with its own vision tower."""
        import torch

        if not pictures:
            return {}
        images = [picture.image for picture in pictures]
        read = model.processor.image_processor(images=images, return_tensors="pt", do_pan_and_scan=False)
        pixels = read["pixel_values"].to(self._device, self._model.dtype)
        types = torch.tensor([[int(i == model.image_id) for i in prompt]] * self._rows, device=self._device)
        return {"pixel_values": pixels.repeat(self._rows, 1, 1, 1), "token_type_ids": types}

    def _forward(self, ids: list[int], **pictures: torch.Tensor) -> torch.Tensor:
        import torch

        with torch.inference_mode():
            tokens = torch.tensor([ids] * self._rows, device=self._device)
            return self._model(
                input_ids=tokens, cache=self._cache, use_cache=True, logits_to_keep=1, **pictures
            ).logits
