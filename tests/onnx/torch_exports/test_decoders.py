"""Decoders of ``transformers`` with random weights and small sizes, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

torch: Any = pytest.importorskip("torch", reason="decoders need PyTorch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
transformers: Any = pytest.importorskip("transformers", reason="decoders need transformers")

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 64, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "n_positions": 64}
DECODERS: dict[str, tuple[dict[str, Any], int]] = {
    "Llama": (SIZES, 2),
    "Qwen2": (SIZES, 2),
    "Gemma2": ({**SIZES, "head_dim": 8, "sliding_window": 64}, 2),
    "Phi": ({**SIZES, "num_key_value_heads": 4}, 4),
    "GPT2": ({**GPT2, "bos_token_id": 1, "eos_token_id": 2}, 4),
}
"""Configurations, and the heads of their keys; each has eight elements."""


class Flat(torch.nn.Module):  # type: ignore[misc]
    """A decoder whose cache is an argument and a result: keys and values of each layer."""

    def __init__(self, decoder: Any) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids: Any, past_key_values: Any) -> Any:
        cache = transformers.cache_utils.DynamicCache()
        for layer, (key, value) in enumerate(past_key_values):
            cache.update(key, value, layer)
        found = self.decoder(input_ids=input_ids, past_key_values=cache, use_cache=True)
        return found.logits, [(each.keys, each.values) for each in found.past_key_values.layers]


def decoder(name: str) -> Any:
    """A decoder with random weights."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**DECODERS[name][0])
    kind = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    return Flat(getattr(transformers, kind)(config).eval())


def inputs(name: str, rows: int, past: int) -> tuple[Any, Any]:
    """Token ids, and a cache of a length."""
    heads = DECODERS[name][1]
    cache = [tuple(torch.randn(1, heads, past, 8) for _ in range(2)) for _ in range(2)]
    return torch.randint(0, 50, (1, rows)), cache


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_agrees_at_any_length(name: str) -> None:
    module, dynamic = decoder(name), torch.export.Dim.DYNAMIC
    names = ["logits", *(f"present_{layer}_{kind}" for layer in range(2) for kind in range(2))]
    options: dict[str, Any] = {
        "example_inputs": inputs(name, 3, 5),
        "dynamic_shapes": ({1: dynamic}, [({2: dynamic}, {2: dynamic})] * 2),
        "output_names": names,
    }
    model = tvm_nnef.convert(module, **options)
    for rows, past in ((3, 5), (1, 4), (1, 1), (2, 0)):
        ids, cache = inputs(name, rows, past)
        with torch.no_grad():
            logits, present = module(ids, cache)
        given = [each.numpy() for pair in cache for each in pair]
        found = tvm_nnef.evaluate(model, ids.numpy(), *given)
        expected = [logits, *(each for pair in present for each in pair)]
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_cache_of_a_decoder_becomes_state() -> None:
    module, dynamic = decoder("Llama"), torch.export.Dim.DYNAMIC
    names = ["logits", *(f"present_{layer}_{kind}" for layer in range(2) for kind in range(2))]
    model = tvm_nnef.convert(
        module, example_inputs=inputs("Llama", 3, 5), output_names=names, bounds=16,
        dynamic_shapes=({1: dynamic}, [({2: dynamic}, {2: dynamic})] * 2),
        state={"past_key_values": "present"},
    )  # fmt: skip
    executable = tvm_nnef.build(model, progress=False)
    ids, cache = inputs("Llama", 7, 0)
    at = 0
    for rows in (4, 1, 1, 1):
        part = ids[:, at : at + rows]
        at += rows
        with torch.no_grad():
            logits, cache = module(part, cache)
        (found,) = executable(part.numpy())
        np.testing.assert_allclose(found, logits.numpy(), rtol=1e-4, atol=1e-5)
