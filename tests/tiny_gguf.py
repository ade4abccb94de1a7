"""Tiny GGUF files for tests, written as llama.cpp's converter would: norms as 1 + w, its own key names."""

from __future__ import annotations

from pathlib import Path

import gguf
from transformers import Gemma3ForCausalLM

from tests.tiny_models import tiny_gemma3, tiny_pieces

_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_model(**overrides: object) -> Gemma3ForCausalLM:
    """A tiny model in the layer pattern that GGUF takes for granted: every sixth layer attends fully."""
    pattern = ["sliding_attention"] * 5 + ["full_attention"]
    return tiny_gemma3(**({"num_hidden_layers": 6, "layer_types": pattern} | overrides))


def save_tiny_gguf(
    path: Path,
    model: Gemma3ForCausalLM,
    *,
    skip: str = "",
    architecture: str = "gemma3",
    tokenizer: bool = True,
) -> Path:
    """Write a float32 GGUF file; ``skip`` leaves out the tensor of that GGUF name."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_sliding_window(config.sliding_window)
    full = config.rope_parameters["full_attention"]
    writer.add_rope_freq_base(full["rope_theta"])
    if full["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full["factor"])
    if tokenizer:
        _add_tokenizer(writer)
    for name, tensor in model.state_dict().items():
        gguf_name = _gguf_name(name)
        tied = gguf_name == "output.weight" and config.tie_word_embeddings
        if gguf_name != skip and not tied:
            numbers = tensor.double() + 1 if gguf_name.endswith("norm.weight") else tensor
            writer.add_tensor(gguf_name, numbers.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    pieces = tiny_pieces()
    control, unknown, byte, normal = 3, 2, 6, 1
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(i) for i in range(len(pieces))])
    writer.add_token_types([control] * 3 + [unknown] + [byte] * 256 + [normal] * (len(pieces) - 260))
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_eot_token_id(4)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)


def _gguf_name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{_LAYER[part]}.weight"
