"""The model with its context: stock cached decoding, listened to at the query token."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch

from ctxviz.engine.anatomy import Anatomy, Doubles, first_tensor, listening, to_double
from ctxviz.engine.sight import BLIND, Sight

PREFILL_CHUNK: Final = 1024
"""Tokens per prefill call; bounds the attention mask's memory for long prompts."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextState:
    """What the model with its context did at the query token, in one dtype."""

    logits: torch.Tensor
    """[vocabulary], in the model's dtype."""
    resid_mid: Doubles
    """v_C, [n_layers, d]."""
    mlp_in: Doubles
    """z_C, [n_layers, d]."""
    layer_out: Doubles
    """The residual stream after each layer, [n_layers, d]."""
    seconds: float


class ContextPass:
    """One sequence in one dtype, decoded token by token with the stock KV cache."""

    def __init__(self, anatomy: Anatomy, sight: Sight = BLIND) -> None:
        self._anatomy = anatomy
        self._sight = sight
        self._cache: Any = None
        self._length = 0

    def prefill(self, ids: list[int]) -> None:
        """Read all tokens before the first query token. ``ids`` may not be empty."""
        for start, end in self.parts(len(ids)):
            self.read(ids[start:end])

    def parts(self, tokens: int) -> list[tuple[int, int]]:
        """Start and end of what :meth:`read` is to be given, one after the other, of so many tokens.

        Everything up to the end of the last picture is read at once: a model's mask for image tokens counts
        their positions from the start of what it is given.
        """
        first = max(self._sight.end, PREFILL_CHUNK)
        ends = [*range(first, tokens, PREFILL_CHUNK), tokens]
        return list(pairwise([0, *ends]))

    @torch.inference_mode()
    def read(self, ids: list[int]) -> None:
        """Read the next tokens of the prompt; those before them have been read."""
        start = self._length
        pictures = self._sight.arguments(self._anatomy, [range(start, start + len(ids))])
        device = next(self._anatomy.model.parameters()).device
        with self._anatomy.lock:
            output = self._anatomy.model(
                input_ids=torch.tensor([ids], device=device),
                cache=self._cache,
                use_cache=True,
                logits_to_keep=1,
                **pictures,
            )
        self._cache = output.cache
        self._length += len(ids)

    @torch.inference_mode()
    def advance(self, token_id: int) -> ContextState:
        """Decode one query token and return its logits and what each layer did."""
        started = time.perf_counter()
        count, width = len(self._anatomy.layers), self._anatomy.width
        resid_mid, mlp_in, layer_out = (np.empty((count, width)) for _ in range(3))
        hooks: list[tuple[Any, Any]] = []
        for index, part in enumerate(self._anatomy.layers):

            def at_norm(_: Any, args: Any, output: torch.Tensor, index: int = index) -> None:
                resid_mid[index] = to_double(args[0][0, -1])
                mlp_in[index] = to_double(output[0, -1])

            def at_layer(_: Any, __: Any, output: Any, index: int = index) -> None:
                layer_out[index] = to_double(first_tensor(output)[0, -1])

            hooks += [(part.pre_mlp_norm, at_norm), (part.layer, at_layer)]
        device = next(self._anatomy.model.parameters()).device
        with self._anatomy.lock, listening(hooks):
            output = self._anatomy.model(
                input_ids=torch.tensor([[token_id]], device=device),
                cache=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
        self._cache = output.cache
        seconds = time.perf_counter() - started
        return ContextState(output.logits[0, -1], resid_mid, mlp_in, layer_out, seconds)
