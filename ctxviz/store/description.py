"""``run.json``: who made the run, of what, and each step's tokens; to JSON and back."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from ctxviz.errors import BundleError, SettingsError
from ctxviz.folds import Context, Fold, ImageSpan
from ctxviz.no_number import computed
from ctxviz.records import Baseline, ModelIdentity, TopTokens, WithoutContext
from ctxviz.run import SCHEMA_VERSION, Run
from ctxviz.settings import RunSettings
from ctxviz.shapes import writing
from ctxviz.store.fields import Fields, encodable, parse
from ctxviz.store.limits import LAYERS, STEPS, TEXT, WIDTH, broken
from ctxviz.store.stored_pictures import check_places

FORMAT: Final = "ctxviz-run"
BIG: Final = 2**31 - 1
OLDEST_VERSION: Final = 1
"""The first schema version, which knew no replays and no stored scale, is still read, and the second, whose
nulls also stood for what is no number (:mod:`ctxviz.store.earlier`)."""


@dataclass(frozen=True, slots=True)
class StepText:
    """What ``run.json`` says of one step."""

    position: int
    token_id: int
    text: str
    next_token_id: int
    next_text: str
    seconds: float
    baselines: tuple[Baseline, ...]
    tops: tuple[TopTokens, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """All of ``run.json``."""

    model: ModelIdentity
    context: Context
    settings: RunSettings
    outcome: str | None
    forgotten_vectors: int
    steps: tuple[StepText, ...]
    version: int
    scenes: tuple[str | None, ...]
    """For each picture the text of the scene it is said to be drawn from; None where it is another."""
    without_context: WithoutContext | None


def write(run: Run, steps: int, scenes: Sequence[str | None] = ()) -> bytes:
    """``run.json`` of the first ``steps`` steps, in ASCII; lone surrogates are replaced when it is read.

    ``scenes``: for each picture the text of the scene that it was drawn from, or None.
    """
    settings = asdict(run.settings) | {"fold": str(run.settings.fold)}
    images = [[span.start, span.end] for span in run.context.images]
    context = asdict(run.context) | {"fold": str(run.context.fold), "images": images}
    described = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "model": asdict(run.model),
        "settings": settings,
        "context": context,
        "outcome": run.outcome,
        "forgotten_vectors": run.forgotten_vectors,
        "steps": [_write_step(run, k) for k in range(steps)],
    }
    if any(scene is not None for scene in scenes):
        described["scenes"] = list(scenes)
    if run.without_context is not None:
        described["without_context"] = asdict(run.without_context)
    return json.dumps(described, allow_nan=False, separators=(",", ":")).encode("ascii")


def _write_step(run: Run, k: int) -> dict[str, Any]:
    position, token_id, text, next_token_id, next_text, seconds = run.token(k)
    return {
        "position": position,
        "token_id": token_id,
        "text": text,
        "next_token_id": next_token_id,
        "next_text": next_text,
        "seconds": _number(seconds),
        "baselines": [_write_baseline(run.baseline(k, dtype)) for dtype in run.dtypes],
        "tops": [_write_top(run.top(k, i)) for i in range(len(run.variants))],
    }


def _write_baseline(baseline: Baseline) -> dict[str, Any]:
    return {
        "dtype": baseline.dtype,
        "margin": _number(baseline.margin),
        "seconds": _number(baseline.seconds),
        "top": _write_top(baseline.top),
    }


def _write_top(top: TopTokens) -> dict[str, Any]:
    return {
        "ids": top.ids.tolist(),
        "probabilities": [_number(p) for p in top.probabilities.tolist()],
        "texts": list(top.texts),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def read(data: bytes) -> Description:
    """``run.json``, checked.

    Raises:
        BundleError: it is not one, or has another schema version.
    """
    fields = parse(data)
    if fields.get("format") != FORMAT:
        raise broken("its run.json does not describe a ctxviz run")
    version = _checked_version(fields.get("schema_version"))
    settings = _read_settings(fields.child("settings"), version)
    context = _read_context(fields.child("context"))
    _check_fold(settings.fold, len(context.token_ids), len(context.images))
    steps = fields.children("steps")
    if len(steps) > STEPS:
        raise broken(f"it holds more than {STEPS} steps")
    return Description(
        model=_read_model(fields.child("model")),
        context=context,
        settings=settings,
        outcome=fields.text_or_none("outcome"),
        forgotten_vectors=fields.integer("forgotten_vectors", 0, BIG),
        steps=tuple(_read_step(step, settings) for step in steps),
        version=version,
        scenes=_read_scenes(fields, len(context.images)),
        without_context=_read_without_context(fields, settings),
    )


def _checked_version(version: object) -> int:
    if type(version) is not int:
        raise broken("its schema version is not a whole number")
    if version > SCHEMA_VERSION:
        raise BundleError(
            f"The run file has schema version {str(version)[:20]}, newer than the {SCHEMA_VERSION} read here;"
            " update ctxviz to open it."
        )
    if version < OLDEST_VERSION:
        raise BundleError(
            f"The run file has schema version {str(version)[:20]}, older than the {OLDEST_VERSION} read here;"
            " open it with the ctxviz that wrote it, or make the run again."
        )
    return version


def _read_model(fields: Fields) -> ModelIdentity:
    libraries = fields.get("libraries")
    if not (isinstance(libraries, list) and all(_is_pair(pair) for pair in libraries)):
        raise broken("its list of libraries is not one of pairs")
    return ModelIdentity(
        key=fields.text("key"),
        name=fields.text("name"),
        architecture=fields.text("architecture"),
        n_layers=fields.integer("n_layers", 1, LAYERS),
        width=fields.integer("width", 1, WIDTH),
        vocabulary=fields.integer("vocabulary", 1, BIG),
        revision=fields.text_or_none("revision"),
        sha256=fields.text_or_none("sha256"),
        device=fields.text("device"),
        threads=fields.integer("threads", 1, BIG),
        libraries=tuple((encodable(name), encodable(version)) for name, version in libraries),
    )


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value)


def _fold(fields: Fields) -> Fold:
    try:
        return Fold.parse(fields.text("fold"))
    except SettingsError as error:
        raise broken(f"its fold has no meaning ({str(error).rstrip('.')})") from None


def _read_settings(fields: Fields, version: int) -> RunSettings:
    later: dict[str, Any] = {}
    if version > 1:
        hold = fields.get("hold")
        later = {
            "replays": fields.texts("replays"),
            "hold": None if hold is None else fields.integer("hold", 0, BIG),
            "budget": fields.flag("budget"),
        }
    try:
        return RunSettings(
            updates=fields.texts("updates"),
            arithmetics=fields.texts("arithmetics"),
            dtypes=fields.texts("dtypes"),
            first_layer=fields.integer("first_layer", 0, LAYERS),
            fold=_fold(fields),
            floor=fields.finite("floor"),
            max_new_tokens=fields.integer("max_new_tokens", 1, BIG),
            small_h=fields.finite("small_h"),
            vector_budget=fields.integer("vector_budget", 0, 2**53),
            **later,
        )
    except SettingsError as error:
        raise broken(f"its settings have no meaning ({str(error).rstrip('.')})") from None


def _read_context(fields: Fields) -> Context:
    ids, texts = fields.integers("token_ids"), fields.texts("token_texts")
    if len(ids) != len(texts):
        raise broken("its prompt has other numbers of tokens and of pieces")
    if not ids:
        raise broken("its prompt has no tokens")
    prompt, fold = fields.text("prompt", TEXT), _fold(fields)
    images = _read_images(fields, len(ids))
    hashes = fields.texts("image_sha256")
    if len(hashes) != len(images):
        raise broken("its prompt has other numbers of pictures and of their places")
    _check_fold(fold, len(ids), len(images))
    context = Context(prompt, ids, texts, fold, hashes, images)
    check_places(context)
    return context


def _read_images(fields: Fields, tokens: int) -> tuple[ImageSpan, ...]:
    """Places of pictures, in order and apart; a run written before pictures could be read has none."""
    listed = fields.get("images") if "images" in fields else []
    spans: list[ImageSpan] = []
    for pair in listed if isinstance(listed, list) else [None]:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(p) is int for p in pair)):
            raise broken("the place of a picture is not a pair of positions")
        before = spans[-1].end if spans else 0
        if not (before <= pair[0] and pair[0] + 3 <= pair[1] < tokens):
            raise broken("the place of a picture does not lie inside its prompt")
        spans.append(ImageSpan(*pair))
    return tuple(spans)


def _read_scenes(fields: Fields, pictures: int) -> tuple[str | None, ...]:
    """For each picture a scene or None; a run without drawn pictures, or an older one, tells none."""
    listed = fields.get("scenes") if "scenes" in fields else [None] * pictures
    if not (isinstance(listed, list) and len(listed) == pictures):
        raise broken("its list of scenes is not one for each picture")
    return tuple(None if text is None else _read_scene(text) for text in listed)


def _read_scene(text: object) -> str:
    if isinstance(text, str):
        with suppress(ValueError):
            return writing.write(writing.read(text))
    raise broken("the scene of a picture has no meaning")


def _read_without_context(fields: Fields, settings: RunSettings) -> WithoutContext | None:
    """What the unpatched model wrote; None where the file does not say, as an older one."""
    if "without_context" not in fields:
        return None
    said = fields.child("without_context")
    dtype, ids, texts = said.text("dtype"), said.integers("ids"), said.texts("texts")
    if dtype not in settings.dtypes:
        raise broken("its text without the context is of a dtype that its settings do not ask for")
    if not 0 < len(ids) == len(texts) <= STEPS:
        raise broken("its text without the context has no tokens, or other numbers of tokens and of pieces")
    return WithoutContext(dtype, ids, texts, said.flag("ended"))


def _check_fold(fold: Fold, tokens: int, pictures: int) -> None:
    if fold.kind == "span" and fold.end > tokens:
        raise broken(f"its fold {fold} reaches past its prompt of {tokens} tokens")
    if fold.kind in ("image", "text") and pictures < max(1, fold.number):
        raise broken(f"its fold {fold} needs a picture that its prompt has not")


def _read_step(fields: Fields, settings: RunSettings) -> StepText:
    baselines = tuple(
        Baseline(b.text("dtype"), _read_margin(b), _read_top(b.child("top")), b.duration("seconds"))
        for b in fields.children("baselines")
    )
    tops = tuple(_read_top(top) for top in fields.children("tops"))
    if tuple(b.dtype for b in baselines) != settings.ordered_dtypes or len(tops) != len(settings.variants):
        raise broken("a step has other variants than its settings ask for")
    return StepText(
        position=fields.integer("position", 0, BIG),
        token_id=fields.integer("token_id", 0, BIG),
        text=fields.text("text"),
        next_token_id=fields.integer("next_token_id", 0, BIG),
        next_text=fields.text("next_text"),
        seconds=fields.duration("seconds"),
        baselines=baselines,
        tops=tops,
    )


def _read_margin(fields: Fields) -> float:
    """JSON has no infinity, and a margin is always computed: null is no number."""
    return computed(fields.duration("margin"))


def _read_top(fields: Fields) -> TopTokens:
    ids, texts = fields.integers("ids"), fields.texts("texts")
    probabilities = fields.numbers("probabilities")
    if not len(ids) == len(texts) == len(probabilities):
        raise broken("a list of most probable tokens has columns of different lengths")
    if any(p > 1 or p < 0 for p in probabilities):
        raise broken("a probability is not between 0 and 1")
    return TopTokens(np.array(ids, np.int32), np.array(probabilities, np.float32), texts)
