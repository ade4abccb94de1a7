"""A source of invented tokens at a steady rate, and a server with a page that shows it.

``python tests/browser/harness.py PORT`` serves the page; ``?layers=62&tokens=512&rate=20`` choose the run.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ctxviz.folds import Context, Fold, ImageSpan
from ctxviz.pictures import from_image
from ctxviz.records import (
    INTEGER_LAYER_METRICS,
    LAYER_METRICS,
    Baseline,
    LayerStats,
    ModelIdentity,
    Reference,
    Step,
    TopTokens,
    VariantStep,
    WithoutContext,
)
from ctxviz.run import Run, replay_name
from ctxviz.settings import RunSettings
from ctxviz.shapes.drawing import draw
from ctxviz.shapes.scenes import Scene, Thing
from ctxviz.ui.views import View
from tests.synthetic import synthetic_run

PROMPT = [
    "<bos>",
    "As",
    " a",
    " slightly",
    " irritable",
    " robot",
    " on",
    " Mars",
    ",",
    " give",
    " tomorrow",
    "'s",
    " weather",
    ":",
]
WORDS = [
    " The", " forecast", ":", " dust", ",", " more", " dust", ",", " and", " a", " wind", " nobody",
    " asked", " for", ".", "\n", " Minus", " sixty", " degrees", " مرحبا", " 火星", "<0xE2>", "<img src=x>",
    "  ", " =2+2", " Please", " stop", " asking", " me", " about", " it", ".",
]  # fmt: skip
SCENES = (
    Scene((Thing(0, "red", "circle"), Thing(4, "blue", "square"))),
    Scene((Thing(2, "yellow", "triangle"), Thing(7, "green", "circle")), "black"),
)
LEVELS = {"h_abs_min": -4.0, "scale_max_abs": 2.5, "scale_ratio": -1.0, "output_error": -5.5, "cosine": -0.1}


def settings(tokens: int, updates: tuple[str, ...] = ("direct", "stable")) -> RunSettings:
    return RunSettings(updates=updates, dtypes=("float32", "bfloat16"), max_new_tokens=tokens)


def empty_run(layers: int, wanted: RunSettings) -> Run:
    identity = ModelIdentity("synthetic", "A synthetic model", "none", layers, 640, 1000)
    return Run(identity, Context("".join(PROMPT), tuple(range(len(PROMPT))), tuple(PROMPT)), wanted)


def tokens(run: Run, seed: int = 7) -> Iterator[Step | Reference]:
    """As an engine would: every step, its references some steps later. Another seed has other words too."""
    random = np.random.default_rng(seed)
    count = run.settings.max_new_tokens
    for index in range(count):
        yield _step(run, index, random, seed - 7)
        if (index + 1) % 8 == 0 or index + 1 == count:
            for dtype in run.dtypes:
                for late in range(index - index % 8, index + 1):
                    yield Reference(late, dtype, unpatched_tvd=float(0.97 + 0.03 * random.random()))
        if index & (index - 1) == 0:
            for dtype in run.dtypes:
                floor = 3e-7 if dtype == "float32" else 3e-3
                yield Reference(index, dtype, noise_floor_tvd=floor, noise_floor_linf=40 * floor)


def whole(layers: int, count: int, updates: tuple[str, ...] = ("direct", "stable"), seed: int = 7) -> Run:
    """A finished run."""
    run = empty_run(layers, settings(count, updates))
    for event in tokens(run, seed):
        run.append(event) if isinstance(event, Step) else run.refer(event)
    run.outcome = "finished"
    return run


def pictured(sides: tuple[int, ...], fold: str, stored: bool = True, sizes: tuple[int, ...] = ()) -> Run:
    """A finished run of a prompt with pictures: ``<bos>``, each picture and a word, then a few more words.

    ``sides`` are image tokens in a row of each picture; ``sizes`` their heights in pixels, their widths 256.
    """
    pieces, spans = ["<bos>"], []
    for side in sides:
        spans.append(ImageSpan(len(pieces), len(pieces) + side * side + 2))
        pieces += ["<start_of_image>", *["<image_soft_token>"] * side * side, "<end_of_image>", "\n\n"]
    pieces += ["Describe", " the", " picture", ".", "\n"]
    heights = sizes or (256,) * len(sides)
    pictures = tuple(
        from_image(draw(SCENES[k % len(SCENES)]).resize((256, h)), "p") for k, h in enumerate(heights)
    )
    context = Context(
        "Describe the picture.",
        tuple(pieces.index(piece) for piece in pieces),
        tuple(pieces),
        Fold.parse(fold),
        tuple(picture.sha256 for picture in pictures),
        tuple(spans),
    )
    identity = ModelIdentity("synthetic", "A synthetic model", "none", 4, 640, 1000)
    run = Run(identity, context, settings(6), pictures if stored else ())
    for event in tokens(run):
        run.append(event) if isinstance(event, Step) else run.refer(event)
    run.outcome = "finished"
    return run


def replayed(layers: int, count: int) -> Run:
    """A finished run with replays, of which the second variant's batch of two has a tie at token 6, another
    token at 7, and no number at 9."""
    run = synthetic_run(layers, 16, count, replays=("same", "batch"), hold=2, faults=False)
    for metric, step, value in (("match", 6, 0.0), ("match", 7, 0.0), ("tvd", 9, math.inf)):
        run._series[replay_name("batch", metric)].array[step, 1] = value
    floors = run._references["noise_floor_linf"].array
    floors[5, 0] = run.baseline(6, "float32").margin * 1.01
    floors[7, 0] = 0.0
    return run


def overflowed(layers: int, count: int) -> Run:
    """A finished run of synthetic vectors, parts of whose first variant are no number: layer 2 at token 3,
    TVD and logit gap of tokens 5 and 6, the change of coordinate 5 of layer 1 at token 3. Layer 1 at token
    4 and the logit gap of token 2 were not measured.
    """
    run = synthetic_run(layers, 16, count, faults=False)
    for name in ("h_abs_min", "scale_max_abs", "scale_ratio", "output_error"):
        run._fields[name].array[3, 0, 2] = math.inf
        run._fields[name].array[4, 0, 1] = math.nan
    for name in ("tvd", "logit_linf"):
        run._series[name].array[5:7, 0] = math.inf
    run._series["logit_linf"].array[2, 0] = math.nan
    vectors = run.vectors(3, 0)
    assert vectors is not None
    vectors.h[2] = vectors.delta_scale[2] = math.inf
    vectors.delta_scale[1, 5] = math.inf
    return run


def answered(layers: int, count: int) -> Run:
    """A finished run of synthetic vectors, and what the model wrote without the context."""
    run = synthetic_run(layers, 16, count)
    run.without_context = WithoutContext("float32", (3, 4, 5), (" Dear", " <b>sand", "\n"), ended=False)
    return run


def play(view: View, run: Run, rate: float) -> threading.Thread:
    """Let a run grow at ``rate`` tokens a second in a thread of its own."""

    def grow() -> None:
        view.tell("loading", stage="loading weights", progress=0.4)
        time.sleep(0.3)
        view.tell("running")
        started = time.monotonic()
        for event in tokens(run):
            if isinstance(event, Reference):
                run.refer(event)
                continue
            due = started + event.index / rate
            time.sleep(max(0.0, due - time.monotonic()))
            run.append(event)
            ARRIVALS.setdefault(view.id, []).append(time.time())
        run.outcome = "finished"
        view.tell("done")

    thread = threading.Thread(target=grow, daemon=True)
    thread.start()
    return thread


ARRIVALS: dict[str, list[float]] = {}


def _step(run: Run, index: int, random: np.random.Generator, shift: int = 0) -> Step:
    word, before = (WORDS[(at + shift) % len(WORDS)] for at in (index, index - 1))
    top = TopTokens(np.array([5, 6], np.int32), np.array([0.8, 0.1], np.float32), (word, " ash"))
    return Step(
        index=index,
        position=len(PROMPT) + index,
        token_id=4,
        text=before,
        next_token_id=5,
        next_text=word,
        baselines=tuple(Baseline(d, 2.0, top, 0.02) for d in run.dtypes),
        variants=tuple(_variant(run, k, index, random, top) for k in range(len(run.variants))),
        seconds=0.05,
    )


def _variant(run: Run, k: int, index: int, random: np.random.Generator, top: TopTokens) -> VariantStep:
    variant = run.variants[k]
    low = variant.dtype == "bfloat16"
    tvd = 10 ** random.normal(-2.4 if low else -6.4, 0.5) if index % 11 else 0.0
    match = not low or random.random() > 0.06
    tie = not match and random.random() < 0.3
    other = top if match else TopTokens(top.ids[::-1], top.probabilities[::-1], (" ash", top.texts[0]))
    return VariantStep(
        variant,
        match,
        tie,
        min(tvd, 1.0),
        tvd * 40,
        tvd * tvd,
        int(not match),
        other,
        0.02,
        _layers(run, k, random),
    )


def _layers(run: Run, k: int, random: np.random.Generator) -> LayerStats:
    layers = run.model.n_layers
    columns = {}
    for name in LAYER_METRICS:
        if name in INTEGER_LAYER_METRICS:
            columns[name] = random.integers(0, 5, layers).astype(np.int32)
            continue
        level = LEVELS.get(name, -3.0) + (
            2 if name == "scale_ratio" and run.variants[k].update == "direct" else 0
        )
        wave = [0.8 * math.sin(1.7 * layer) - (1.5 if layer == 4 else 0.0) for layer in range(layers)]
        columns[name] = (10 ** (level + np.array(wave) + random.normal(0, 0.4, layers))).astype(np.float32)
    if random.random() < 0.2:
        columns["h_abs_min"][random.integers(layers)] = 0.0
    columns["cosine"] = (1 - np.minimum(columns["cosine"], 1)).astype(np.float32)
    columns["multiplier"][::2] *= -1
    columns["drift_batch"][3:4] = np.inf
    columns["drift_rounded"][1:2] = np.nan
    if run.variants[k].update == "stable":
        columns["down_ratio"][:] = np.nan
    return LayerStats(**columns)


def main(port: int) -> None:
    """Serve the page until the process is ended."""
    import streamlit as st
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from ctxviz.ui.routes import middleware, routes

    async def arrivals(_: Request) -> Response:
        return JSONResponse(ARRIVALS)

    page = Path(__file__).with_name("harness_page.py")
    app = st.App(page, routes=[Route("/arrivals", arrivals), *routes()], middleware=middleware())
    app.run(
        config={
            "server.port": port,
            "server.address": "localhost",
            "server.headless": True,
            "server.fileWatcherType": "none",
            "browser.gatherUsageStats": False,
        }
    )


if __name__ == "__main__":
    # The page imports this file by name; it must meet this module, not a second copy.
    sys.modules["harness"] = sys.modules["__main__"]
    main(int(sys.argv[1]))
