"""What an architecture's stock transformers modules are called: data only, no forward code.

Gemma 3 decoder block (sequential, pre- and post-norms)::

    x ─┬─ input_layernorm ─ self_attn ─ post_attention_layernorm ──(+)─ v (resid_mid)
       └────────────────────────────────────────────────────────────┘
    v ─┬─ pre_feedforward_layernorm ─ z ─ mlp (gate, up, down) ─ post_feedforward_layernorm ──(+)─ out
       └───────────────────────────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ctxviz.errors import ModelError


@dataclass(frozen=True, slots=True)
class Architecture:
    """Names of the submodules the engine hooks; those below ``layers`` are relative to one layer."""

    name: str
    model_types: tuple[str, ...]
    """``config.model_type`` values of transformers."""
    layers: str = "model.layers"
    """Path of the list of decoder layers."""
    text_config: str | None = None
    """Attribute of the configuration that holds the language model's part; None: the configuration itself."""
    pre_mlp_norm: str = "pre_feedforward_layernorm"
    """Its input is resid_mid (v), its output z."""
    gate: str = "mlp.gate_proj"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    """Its input is the hidden activation a, its output h_down."""
    post_mlp_norm: str = "post_feedforward_layernorm"
    scale_offset: float = 1.0
    """The norms store w and apply m = scale_offset + w."""
    norm_epsilon: str = "eps"
    """The norms' attribute that holds the epsilon under the root."""
    reads_pictures: bool = False
    """Whether its stock model takes pictures, given the processor's files."""

    def text_config_of(self, config: Any) -> Any:
        """The part of a transformers configuration that describes the decoder."""
        return config if self.text_config is None else getattr(config, self.text_config)


GEMMA3_TEXT: Final = Architecture("Gemma 3 (text)", ("gemma3_text",))
GEMMA3_IMAGE_TEXT: Final = replace(
    GEMMA3_TEXT,
    name="Gemma 3 (image and text)",
    model_types=("gemma3",),
    layers="model.language_model.layers",
    text_config="text_config",
    reads_pictures=True,
)
ARCHITECTURES: Final = (GEMMA3_TEXT, GEMMA3_IMAGE_TEXT)


def for_model_type(model_type: object) -> Architecture:
    """The architecture of a ``config.json``'s ``model_type``.

    Raises:
        ModelError: no architecture here has it.
    """
    for architecture in ARCHITECTURES:
        if model_type in architecture.model_types:
            return architecture
    known = " or ".join(t for a in ARCHITECTURES for t in a.model_types)
    raise ModelError(
        f"The architecture {str(model_type)[:40]!r} is not supported; choose a model of type {known}."
    )


def for_config(config: Any) -> Architecture:
    """The architecture of a transformers configuration.

    Raises:
        ModelError: no architecture here has its model type.
    """
    return for_model_type(getattr(config, "model_type", None))
