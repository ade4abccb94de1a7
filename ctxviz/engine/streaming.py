"""A run as an iterator: one ``next()`` is one token with all its variants, or one reference.

The history is the baseline's, greedy, in the highest precision chosen; every dtype has its own context pass
on that history, shared by its variants.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.application import Scratch
from ctxviz.engine.context_pass import ContextPass, ContextState
from ctxviz.engine.patched_pass import patched_pass
from ctxviz.engine.prompt import look, prepare
from ctxviz.engine.reading import PromptReading, memory_explained
from ctxviz.engine.references import Recompute, Unpatched, error_budget, floor_is_due
from ctxviz.engine.replay import replayers
from ctxviz.errors import PrecisionError
from ctxviz.numerics import distances
from ctxviz.numerics.distances import Distribution
from ctxviz.records import Baseline, Reference, Step, TopTokens, VariantStep
from ctxviz.run import END_OF_TEXT
from ctxviz.settings import BUDGET_DTYPES, RunSettings, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxviz.engine.anatomy import Anatomy
    from ctxviz.models import LoadedModel
    from ctxviz.pictures import Picture
    from ctxviz.records import ModelIdentity

TOP_TOKENS: Final = 8
NEAR: Final = 4
"""A mismatch whose margin is below this many noise floors may be a tie: the floor is measured on the spot."""


class Stream:
    """Iterator of :class:`Step` and :class:`Reference`; references follow the steps they belong to.

    ``outcome`` says why it ended: ``finished`` or ``end of text``; it is None before. Whoever wants to tell
    how far a long prompt is read, or to leave off in its middle, iterates over ``reading`` first.

    Raises on iteration:
        OutOfMemoryError: memory ran out; what was yielded stays valid.
        PrecisionError: the baseline's logits are not numbers in the dtype that writes the history.
    """

    def __init__(
        self,
        model: LoadedModel,
        prompt: str,
        settings: RunSettings,
        *,
        pictures: Sequence[Picture] = (),
        keep_patches: bool = False,
        follow: Sequence[int] | None = None,
    ) -> None:
        self.context = prepare(model, prompt, settings, pictures)
        self.pictures = tuple(pictures)
        self.outcome: str | None = None
        self._model = model
        self._settings = settings
        self._keep_patches = keep_patches
        self._follow = follow
        self._anatomies = {dtype: self._anatomy(dtype) for dtype in settings.ordered_dtypes}
        self._wider = {dtype: self._anatomy(dtype) for dtype in BUDGET_DTYPES} if settings.budget else {}
        self._sight = look(model, pictures, self.context)
        self._passes = {d: ContextPass(anatomy, self._sight) for d, anatomy in self._anatomies.items()}
        self._unpatched = Unpatched(self._anatomies, self._sight)
        self._scratch = Scratch()
        self._floors: dict[str, float | None] = dict.fromkeys(self._anatomies)
        self._ids = list(self.context.token_ids)
        longest = len(self.context.kept(len(self._ids) + settings.max_new_tokens))
        self._replayers = replayers(self._anatomies, settings, self._sight, longest, model.vocabulary)
        self._ready: deque[Reference] = deque()
        self._index = 0
        self.reading = PromptReading(tuple(self._passes.values()), self._ids[:-1])
        """Reads the prompt before its query token; what is left of it is read by the first step."""
        self._baselines: dict[str, Distribution] = {}
        self._measured: set[str] = set()
        self._recompute: tuple[int, Recompute] | None = None
        self._floor_seconds = 0.0

    @property
    def identity(self) -> ModelIdentity:
        """The model, where it runs in the dtypes of these settings."""
        return self._model.identity_in(self._settings.needed_dtypes)

    def _anatomy(self, dtype: str) -> Anatomy:
        return anatomy_of(self._model.in_dtype(dtype), self._model.architecture)

    def __iter__(self) -> Iterator[Step | Reference]:
        return self

    def __next__(self) -> Step | Reference:
        with memory_explained():
            return self._next()

    def flush(self) -> list[Reference]:
        """Measure now what waits for a full batch: for a run that pauses or is stopped."""
        ready = [*self._ready, *self._unpatched.measure()]
        self._ready.clear()
        return ready

    def _next(self) -> Step | Reference:
        if self._ready:
            return self._ready.popleft()
        if self._index and self._measure_references():
            return self._ready.popleft()
        if self.outcome is not None or self._index == self._settings.max_new_tokens:
            self.outcome = self.outcome or "finished"
            self._ready.extend(self._unpatched.measure())
            if self._ready:
                return self._ready.popleft()
            raise StopIteration
        return self._step()

    def _measure_references(self) -> bool:
        """References due after the last step; True where there are some."""
        for dtype in self._baselines:
            if floor_is_due(self._index - 1) and dtype not in self._measured:
                self._measure_floor(self._index - 1, dtype, self._ids[:-1])
        self._baselines, self._measured = {}, set()
        if self._unpatched.is_due:
            self._ready.extend(self._unpatched.measure())
        return bool(self._ready)

    def _measure_floor(self, step: int, dtype: str, history: list[int]) -> None:
        started = time.perf_counter()
        if self._recompute is None or self._recompute[0] != step:
            kept = self.context.kept(len(history))
            self._recompute = (step, Recompute(history, kept, self._sight))
        floor = error_budget(
            self._anatomies[dtype],
            self._wider,
            step,
            dtype,
            self._recompute[1],
            len(history),
            self._baselines[dtype],
        )
        self._floor_seconds += time.perf_counter() - started
        gap = floor.noise_floor_linf
        if gap is not None and math.isfinite(gap):
            self._floors[dtype] = gap
        self._measured.add(dtype)
        self._ready.append(floor)

    def _is_tie(self, dtype: str, margin: float) -> bool:
        """Whether a mismatch in this step lies inside the noise floor."""
        latest = self._floors[dtype]
        if dtype not in self._measured and (
            latest is None or margin < NEAR * latest or floor_is_due(self._index)
        ):
            self._measure_floor(self._index, dtype, self._ids)
        floor = self._floors[dtype]
        return floor is not None and margin < floor

    def _step(self) -> Step:
        read = 0.0 if self._index else self.reading.finish()
        started, self._floor_seconds = time.perf_counter() - read, 0.0
        position, query = len(self._ids) - 1, self._ids[-1]
        positions = self.context.kept(len(self._ids))
        kept_ids = tuple(self._ids[p] for p in positions)
        baselines: list[Baseline] = []
        variants: list[VariantStep] = []
        for dtype, context_pass in self._passes.items():
            state = context_pass.advance(query)
            self._baselines[dtype] = distribution = Distribution(state.logits)
            top = self._top(distribution)
            baselines.append(Baseline(dtype, distances.margin(distribution), top, state.seconds))
            variants += [
                self._variant(variant, kept_ids, positions, state, baselines[-1].margin)
                for variant in self._settings.variants
                if variant.dtype == dtype
            ]
        self._unpatched.add(self._index, kept_ids, positions, dict(self._baselines))
        next_id = self._next_token(baselines[0])
        step = Step(
            index=self._index,
            position=position,
            token_id=query,
            text=self._model.piece(query),
            next_token_id=next_id,
            next_text=self._model.piece(next_id),
            baselines=tuple(baselines),
            variants=tuple(variants),
            seconds=time.perf_counter() - started - self._floor_seconds,
            kept_ids=kept_ids,
            kept_positions=positions,
        )
        self._index += 1
        self._ids.append(next_id)
        if next_id in self._model.eos_ids:
            self.outcome = END_OF_TEXT
        return step

    def _variant(
        self,
        variant: Variant,
        kept_ids: tuple[int, ...],
        positions: tuple[int, ...],
        context: ContextState,
        margin: float,
    ) -> VariantStep:
        started, baseline = time.perf_counter(), self._baselines[variant.dtype]
        replayer = self._replayers.get(variant.dtype) if variant.arithmetic == "written" else None
        patched = patched_pass(
            self._anatomies[variant.dtype],
            variant,
            kept_ids,
            positions,
            context,
            scratch=self._scratch if replayer is None else replayer.scratch,
            small_h=self._settings.small_h,
            keep_vectors=self._settings.vector_budget > 0,
            keep_patches=self._keep_patches,
            sight=self._sight,
        )
        distribution = Distribution(patched.logits)
        gap = distances.compare(baseline, distribution)
        top = self._top(distribution)
        seconds = time.perf_counter() - started
        replays, layers = (), patched.layers
        if replayer is not None:
            replays, layers = replayer.replay(variant, self._index, kept_ids, positions, patched, baseline)
        return VariantStep(
            variant=variant,
            match=gap.match,
            tie=not gap.match and self._is_tie(variant.dtype, margin),
            tvd=gap.tvd,
            logit_linf=gap.linf,
            kl=gap.kl,
            rank=gap.rank,
            top=top,
            seconds=seconds,
            layers=layers,
            vectors=patched.vectors,
            patches=patched.patches,
            replays=replays,
        )

    def _next_token(self, baseline: Baseline) -> int:
        if self._follow is not None and self._index < len(self._follow):
            return self._follow[self._index]
        return _next_token(baseline, self._index)

    def _top(self, distribution: Distribution) -> TopTokens:
        ids, probabilities = distances.top(distribution, TOP_TOKENS)
        return TopTokens(ids, probabilities, tuple(self._model.piece(int(i)) for i in ids))


def _next_token(baseline: Baseline, step: int) -> int:
    if not len(baseline.top.ids):
        raise PrecisionError(_no_next_token(baseline.dtype, kept=step > 0))
    return int(baseline.top.ids[0])


def _no_next_token(dtype: str, *, kept: bool) -> str:
    stays = "what was made so far is kept, " if kept else ""
    if dtype in ("float16", "bfloat16"):
        wider = "float32 or bfloat16" if dtype == "float16" else "float32"
        return (
            f"The model overflows in {dtype} and has no next token; {stays}"
            f"so add {wider} to the dtypes and generate again."
        )
    return (
        f"The model's logits are not numbers in {dtype}, so it has no next token and its weights may be "
        f"damaged; {stays}so download or export the model again."
    )


def stream(
    model: LoadedModel,
    prompt: str,
    settings: RunSettings,
    *,
    pictures: Sequence[Picture] = (),
    keep_patches: bool = False,
    follow: Sequence[int] | None = None,
) -> Stream:
    """Generate from ``prompt`` while every token's context is turned into weight patches.

    Args:
        model: what :func:`ctxviz.load_model` returned.
        prompt: text; special tokens are added as the tokenizer does, and a model that reads pictures gets it
            in its chat template, with the pictures first or where ``<start_of_image>`` stands in the text.
        settings: rules, arithmetic, dtypes, fold, number of tokens.
        pictures: what the prompt shows, for models that read pictures; see :mod:`ctxviz.pictures`.
        keep_patches: put each token's updates into its step (for export).
        follow: the ids of the new tokens, for a history that is given; beyond them the baseline chooses.

    Raises:
        PromptError, PictureError, SettingsError: at once, before anything is computed.
        MemoryRefusedError: replays were asked for, and the written weights do not fit beside the model.
    """
    return Stream(model, prompt, settings, pictures=pictures, keep_patches=keep_patches, follow=follow)
