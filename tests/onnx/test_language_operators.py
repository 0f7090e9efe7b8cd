"""The operators that ONNX Runtime's exporters and optimizer write for language models.

Three routes agree with ONNX Runtime, and where its CPU build has no kernel, with what its
documentation says, written in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

Array: TypeAlias = Any
DOMAIN = "com.microsoft"
B, S, T, H, D = 2, 3, 5, 4, 8
"""Items, rows, keys, heads, and elements of a head."""


@dataclass
class Case:
    """A node, what it takes by the names of its inputs, and the names of its outputs.

    ``expected`` is what it must give if ONNX Runtime has no kernel for it.
    """

    operator: str
    inputs: Mapping[str, Array | None]
    outputs: Sequence[str] = ("y",)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = DOMAIN
    expected: Callable[..., Array] | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def feeds(self) -> dict[str, Array]:
        """The inputs that are there."""
        return {name: value for name, value in self.inputs.items() if value is not None}

    def model(self) -> Any:
        """A model of the node."""
        names = [name if value is not None else "" for name, value in self.inputs.items()]
        while not names[-1]:
            names.pop()
        node = onnx.helper.make_node(
            self.operator, names, list(self.outputs), domain=self.domain, **self.attributes
        )
        inputs = [port(name, value.dtype, value.shape) for name, value in self.feeds.items()]
        kinds = {"count": np.int32}
        outputs = [
            port(name, kinds.get(name, np.float32), self.shapes.get(name))
            for name in self.outputs
            if name
        ]
        graph = onnx.helper.make_graph([node], "one", inputs, outputs)
        opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(DOMAIN, 1)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def judged(self) -> list[Array]:
        """What must be returned."""
        if self.expected is not None:
            return [self.expected(*self.feeds.values())]
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        session = runtime.InferenceSession(self.model().SerializeToString(), options)
        return list(session.run(None, self.feeds))


def port(name: str, dtype: Any, shape: Any) -> Any:
    """A declaration of an input or an output."""
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return onnx.helper.make_tensor_value_info(name, number, shape)


def check(case: Case, trimmed: Callable[[int, Array], Array] = lambda _, x: x) -> None:
    """Hold three routes against what must be returned; ``trimmed`` drops what is not specified."""
    expected = case.judged()
    converted = tvm_nnef.convert(case.model())
    given = list(case.feeds.values())
    found = [tvm_nnef.evaluate(converted, *given)]
    for route in ("mapped", "formula"):
        found.append(tvm_nnef.build(converted, route=route, progress=False)(*given))
    for results in found:
        assert len(results) == len(expected)
        for number, (ours, theirs) in enumerate(zip(results, expected, strict=True)):
            own, other = (trimmed(number, np.asarray(each)) for each in (ours, theirs))
            assert own.dtype == other.dtype
            np.testing.assert_allclose(own, other, rtol=1e-4, atol=2e-5)


RANDOM = np.random.default_rng(5)


def reals(*shape: int) -> Array:
    """Normal numbers."""
    return RANDOM.standard_normal(shape).astype(np.float32)


def ints(low: int, high: int, *shape: int) -> Array:
    """Integers of 32 bits."""
    return RANDOM.integers(low, high, shape).astype(np.int32)


def sigmoid(x: Array) -> Array:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def erf(x: Array) -> Array:
    """The error function."""
    import math

    return np.vectorize(math.erf)(x)


def gelu(x: Array) -> Array:
    """x times the normal distribution function of it."""
    return x * (1 + erf(x / np.sqrt(2))) / 2


def softmax(x: Array) -> Array:
    """Over the last dimension."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def norm_of_groups(x: Array, scale: Array, bias: Array, groups: int) -> Array:
    """Groups of the last dimension normalized, then scaled."""
    split = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    mean, variance = split.mean((1, 3), keepdims=True), split.var((1, 3), keepdims=True)
    return ((split - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * scale + bias


def simple_cases() -> dict[str, Case]:
    """Activations, products, normalizations."""
    x, row = reals(2, 3, 8), reals(8)
    image = {"x": reals(1, 4, 6, 5), "w": reals(8, 4, 3, 3), "b": reals(8)}
    strided = {"pads": [1, 1, 1, 1], "strides": [2, 1]}
    summand = {**image, "z": reals(1, 8, 3, 5)}
    gemm = {"a": reals(3, 4), "b": reals(5, 4), "c": reals(5)}
    words, segments, mask = ints(0, 10, 2, 5), ints(0, 2, 2, 5), ints(1, 2, 2, 5)
    mask[0, 3:] = 0
    tables = {"words": reals(10, 8), "positions": reals(7, 8), "kinds": reals(2, 8)}
    scaled = {"gamma": reals(8), "beta": reals(8)}
    skip = {"x": x, "skip": reals(2, 3, 8), "gamma": reals(8)}
    cases = {
        "Gelu": Case("Gelu", {"x": x}),
        "BiasGelu": Case("BiasGelu", {"x": x, "b": row}),
        "FastGelu": Case("FastGelu", {"x": x}),
        "FastGelu of a sum": Case("FastGelu", {"x": x, "b": row}),
        "QuickGelu": Case("QuickGelu", {"x": x}, attributes={"alpha": 1.3}),
        "BiasAdd": Case(
            "BiasAdd", {"x": x, "b": row, "s": reals(2, 3, 8)}, expected=lambda x, b, s: x + b + s
        ),
        "BiasSplitGelu": Case(
            "BiasSplitGelu", {"x": x, "b": row},
            expected=lambda x, b: ((x + b)[..., :4] * gelu((x + b)[..., 4:])).astype(np.float32),
        ),
        "BiasSoftmax": Case(
            "BiasSoftmax", {"x": reals(2, 3, 4, 5), "b": reals(2, 1, 1, 5)},
            attributes={"axis": 3, "is_inner_broadcast": 0}, expected=lambda x, b: softmax(x + b),
        ),
        "SwiGLU": Case(
            "SwiGLU", {"x": x},
            attributes={"activation_alpha": 1.3, "activation_beta": 1.0, "limit": 0.7},
            expected=lambda x: (g := np.minimum(x[..., :4], np.float32(0.7)))
            * sigmoid(np.float32(1.3) * g) * (np.clip(x[..., 4:], -0.7, 0.7) + 1),
        ),
        "GemmFastGelu": Case(
            "GemmFastGelu", {"x": reals(2, 3, 4), "w": reals(4, 5), "b": reals(5)},
            expected=lambda x, w, b: (z := x @ w + b) / 2
            * (1 + np.tanh(np.float32(0.7978845608) * (z + np.float32(0.044715) * z**3))),
        ),
        "FusedGemm": Case(
            "FusedGemm", gemm, attributes={"transB": 1, "alpha": 0.5, "activation": "Tanh"}
        ),
        "FusedGemm with LeakyRelu": Case(
            "FusedGemm", gemm,
            attributes={"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.3},
        ),
        "CDist": Case("CDist", {"a": reals(3, 5), "b": reals(4, 5)}),
        "CDist with the root": Case(
            "CDist", {"a": reals(3, 5), "b": reals(1, 5)}, attributes={"metric": "euclidean"}
        ),
        "NhwcConv": Case(
            "NhwcConv", {"x": reals(1, 3, 4, 2), "w": reals(5, 2, 1, 1), "b": reals(5)},
            expected=lambda x, w, b: x @ w[:, :, 0, 0].T + b,
        ),
        "SimplifiedLayerNormalization": Case(
            "SimplifiedLayerNormalization", {"x": x, "gamma": row}, domain="",
            attributes={"axis": -1, "epsilon": 1e-3, "stash_type": 1},
        ),
        "SkipLayerNormalization": Case(
            "SkipLayerNormalization", {**skip, "beta": reals(8), "bias": reals(8)},
            ("y", "", "", "sum"), {"epsilon": 1e-3},
        ),
        "SkipLayerNormalization of one item": Case(
            "SkipLayerNormalization", {"x": x, "skip": reals(3, 8), "gamma": reals(8)}
        ),
        "SkipSimplifiedLayerNormalization": Case(
            "SkipSimplifiedLayerNormalization", {**skip, "bias": reals(8)}, ("y", "", "", "sum")
        ),
        "EmbedLayerNormalization": Case(
            "EmbedLayerNormalization",
            {"ids": words, "segments": segments, **tables, **scaled, "mask": mask},
            ("y", "count", "sum"),
        ),
        "EmbedLayerNormalization with positions": Case(
            "EmbedLayerNormalization",
            {"ids": words, "no segments": None, "words": tables["words"],
             "positions": tables["positions"], "no kinds": None, **scaled, "no mask": None,
             "where": ints(0, 7, 1, 5)}, ("y", "count"),
        ),
        "GroupNorm": Case(
            "GroupNorm", {"x": reals(2, 3, 2, 8), **scaled},
            attributes={"groups": 4, "activation": 1},
            expected=lambda x, g, b: (n := norm_of_groups(x, g, b, 4)) * sigmoid(n),
        ),
        "SkipGroupNorm": Case(
            "SkipGroupNorm",
            {"x": reals(2, 3, 2, 8), **scaled, "skip": reals(2, 8), "bias": reals(8)},
            attributes={"groups": 2, "activation": 0},
            expected=lambda x, g, b, s, c: norm_of_groups(x + s[:, None, None] + c, g, b, 2),
        ),
    }  # fmt: skip
    for name, values in (
        ("Relu", None), ("LeakyRelu", [0.2]), ("Clip", [-0.3, 0.4]), ("HardSigmoid", [0.1, 0.4]),
        ("Tanh", None), ("Sigmoid", None), ("HardSwish", None),
    ):  # fmt: skip
        more = {"activation_params": values} if values else {}
        attributes = {**strided, "activation": name, **more}
        cases[f"FusedConv with {name}"] = Case("FusedConv", summand, attributes=attributes)
    for flags in range(8):
        a, b, batch = flags & 1, flags >> 1 & 1, flags >> 2
        left = (4, 3) if a else (3, 4)
        right = (6, 4) if b else (4, 6)
        shapes = [(s[0], 2, 5, s[1]) if batch else (2, 5, *s) for s in (left, right)]
        flags_ = {"transA": a, "transB": b, "transBatchA": batch, "transBatchB": batch}
        factors = {"a": reals(*shapes[0]), "b": reals(*shapes[1])}
        cases[f"FusedMatMul {a}{b}{batch}"] = Case(
            "FusedMatMul", factors, attributes={**flags_, "alpha": 0.7}
        )
    return cases


def experts_of(
    x: Array, r: Array, w1: Array, w2: Array, w3: Array | None = None, fusion: int = 0
) -> Array:
    """The two best experts of each row, by NumPy."""
    chosen = np.argsort(-r, 1)[:, :2]
    shares = np.take_along_axis(softmax(r), chosen, 1)
    result = np.zeros_like(x)
    for row, (best, counts) in enumerate(zip(chosen, shares, strict=True)):
        for expert, share in zip(best, counts / counts.sum(), strict=True):
            z = w1[expert] @ x[row]
            inner = z * sigmoid(z) if w3 is None else z * sigmoid(z) * (w3[expert] @ x[row])
            if fusion == 2:
                half = len(z) // 2
                inner = z[:half] * sigmoid(z[:half]) * z[half:]
            result[row] += share * (w2[expert] @ inner)
    return result


def recurrent_cases() -> dict[str, Case]:
    """Mixtures of experts, and operators with a state that is not a cache."""
    cases = {}
    weights = {"w1": reals(4, 16, 8), "b1": reals(4, 16), "w2": reals(4, 8, 16), "b2": reals(4, 8)}
    for name in ("relu", "gelu", "silu", "identity"):
        cases[f"MoE with {name}"] = Case(
            "MoE", {"x": reals(2, 3, 8), "r": reals(6, 4), **weights},
            attributes={"k": 2, "activation_type": name, "normalize_routing_weights": 1},
        )  # fmt: skip
    gated = {**weights, "w1": reals(4, 32, 8), "b1": reals(4, 32)}
    cases["MoE with swiglu"] = Case(
        "MoE", {"x": reals(6, 8), "r": reals(6, 4), **gated},
        attributes={"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 0.8,
                    "activation_alpha": 1.7, "activation_beta": 1.0},
    )  # fmt: skip
    plain = {"x": reals(6, 8), "r": reals(6, 4)}
    routing = {"k": 2, "normalize_routing_weights": 1}
    cases["MoE with halves"] = Case(
        "MoE", {**plain, "w1": reals(4, 32, 8), "no b1": None, "w2": reals(4, 8, 16)},
        attributes={**routing, "activation_type": "swiglu", "swiglu_fusion": 2},
        expected=lambda x, r, w1, w2: experts_of(x, r, w1, w2, fusion=2),
    )  # fmt: skip
    cases["MoE with three weights"] = Case(
        "MoE", {**plain, "w1": reals(4, 16, 8), "no b1": None, "w2": reals(4, 8, 16),
                "no b2": None, "w3": reals(4, 16, 8)},
        attributes={**routing, "activation_type": "silu"}, expected=experts_of,
    )  # fmt: skip
    rows = {"q": reals(2, 5, 8) / 3, "k": reals(2, 5, 8) / 3, "v": reals(2, 5, 12)}
    state, decay, beta = reals(2, 2, 4, 6) / 3, -np.abs(reals(2, 5, 2)), sigmoid(reals(2, 5, 2))
    for rule in ("linear", "gated", "delta", "gated_delta"):
        more = {"g": decay if "gated" in rule else None, "b": beta if "delta" in rule else None}
        cases[f"LinearAttention {rule}"] = Case(
            "LinearAttention", {**rows, "s": state, **more}, ("y", "state"),
            {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule},
        )  # fmt: skip
    cases["CausalConvWithState"] = Case(
        "CausalConvWithState",
        {"x": reals(2, 4, 5), "w": reals(4, 1, 3), "b": reals(4), "s": reals(2, 4, 2)},
        ("y", "state"), {"activation": "silu"},
    )  # fmt: skip
    return cases


def heads_apart(x: Array) -> Array:
    """[batch, row, head, element] as [batch, head, row, element]."""
    return x.transpose(0, 2, 1, 3)


def plain_attention(q: Array, k: Array, v: Array) -> Array:
    """Attention of [batch, row, head, element]."""
    q, k, v = map(heads_apart, (q, k, v))
    found = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(np.float32(q.shape[-1]))) @ v
    return heads_apart(found).reshape(found.shape[0], found.shape[2], -1)


def attention_cases() -> dict[str, Case]:
    """MultiHeadAttention, DecoderMaskedMultiHeadAttention, Attention, RotaryEmbedding."""
    wide, narrow = H * D, {"num_heads": H}
    cross = {"q": reals(B, S, wide), "k": reals(B, T, wide), "v": reals(B, T, wide)}
    own = {name: reals(B, S, wide) for name in "qkv"}
    row = {name: reals(B, 1, wide) for name in "qkv"}
    past = {"pk": reals(B, H, 4, D), "pv": reals(B, H, 4, D)}
    room = {"pk": reals(B, H, 9, D), "pv": reals(B, H, 9, D), "n": np.array([4], np.int32)}
    kv = ("y", "k2", "v2")
    causal = {**narrow, "unidirectional": 1}
    shared = {**narrow, "past_present_share_buffer": 1}
    padded = np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], np.int32)
    name = "MultiHeadAttention"
    cases = {
        f"{name} of narrow values": Case(
            name, {**cross, "v": reals(B, T, H * 6)}, attributes=narrow
        ),
        f"{name} with biases and lengths": Case(
            name, {**cross, "b": reals(3 * wide), "m": np.array([3, 5], np.int32)},
            attributes={**narrow, "scale": 0.4},
        ),
        f"{name} with a mask and a bias": Case(
            name, {**cross, "no bias": None, "m": ints(0, 2, B, T), "ab": reals(1, H, S, T)},
            attributes={**narrow, "mask_filter_value": -5.0},
        ),
        f"{name} with a mask of rows, and scores": Case(
            name, {**cross, "no bias": None, "m": ints(0, 2, B, S, T)}, (*kv, "qk"), narrow
        ),
        f"{name} with a past": Case(
            name, {**own, "b": None, "m": None, "ab": None, **past}, kv, causal
        ),
        f"{name} with room": Case(
            name, {**own, "b": None, "m": None, "ab": None, **room}, kv, causal
        ),
        f"{name} of a cache": Case(
            name, {"q": cross["q"], "k": reals(B, H, T, D), "v": reals(B, H, T, D)},
            attributes=narrow,
        ),
        f"{name} of packed rows": Case(
            name, {"q": reals(B, S, H, 3, D)}, attributes=narrow,
            expected=lambda q: plain_attention(*(q[:, :, :, at] for at in range(3))),
        ),
        f"{name} of packed keys": Case(
            name, {"q": reals(B, S, wide), "k": reals(B, T, H, 2, D)}, attributes=narrow,
            expected=lambda q, k: plain_attention(
                q.reshape(B, S, H, D), k[:, :, :, 0], k[:, :, :, 1]
            ),
        ),
        "DecoderMaskedMultiHeadAttention with room": Case(
            "DecoderMaskedMultiHeadAttention", {**row, "m": None, "ab": None, **room}, kv, shared
        ),
        "DecoderMaskedMultiHeadAttention with all": Case(
            "DecoderMaskedMultiHeadAttention",
            {**row, "m": padded, "ab": reals(1, H, 1, T), **room, "beams": None, "order": None,
             "b": reals(3 * wide)}, kv, shared,
        ),
        "DecoderMaskedMultiHeadAttention of a cache": Case(
            "DecoderMaskedMultiHeadAttention",
            {"q": row["q"], "k": reals(B, H, T, D), "v": reals(B, H, T, D)}, attributes=narrow,
        ),
    }  # fmt: skip
    projected = {"x": reals(B, S, 16), "w": reals(16, 3 * wide), "b": reals(3 * wide)}
    masks = {
        "a mask": np.array([[1, 1, 0], [0, 1, 1]], np.int32),
        "lengths": np.array([2, 3], np.int32),
        "ends and starts": np.array([2, 3, 0, 1], np.int32),
        "a mask of rows": ints(0, 2, B, S, S),
    }
    for what, mask in masks.items():
        cases[f"Attention with {what}"] = Case(
            "Attention", {**projected, "m": mask}, attributes=causal if what == "a mask" else narrow
        )
    cases["Attention with a past"] = Case(
        "Attention", {**projected, "m": ints(0, 2, B, S + 4), "p": reals(2, B, H, 4, D)},
        ("y", "present"), causal,
    )  # fmt: skip
    cases["Attention of narrow values"] = Case(
        "Attention", {"x": projected["x"], "w": reals(16, 2 * wide + H * 4),
                      "b": reals(2 * wide + H * 4), "m": None, "p": None, "ab": reals(B, H, S, S)},
        attributes={**narrow, "qkv_hidden_sizes": [wide, wide, H * 4]},
    )  # fmt: skip
    angles = {"cos": np.cos(reals(16, 4)), "sin": np.sin(reals(16, 4))}
    few = {name: table[:, :3].copy() for name, table in angles.items()}
    for pairs in (0, 1):
        cases[f"RotaryEmbedding {pairs}"] = Case(
            "RotaryEmbedding",
            {"x": reals(B, S, wide), "p": RANDOM.integers(0, 16, (B, S)), **angles},
            attributes={"interleaved": pairs},
        )  # fmt: skip
        cases[f"RotaryEmbedding {pairs} of a part, from a position on"] = Case(
            "RotaryEmbedding", {"x": reals(B, H, S, D), "p": np.array([5]), **few},
            attributes={"interleaved": pairs, "rotary_embedding_dim": 6, "num_heads": H},
        )  # fmt: skip
    return cases


CASES = {**simple_cases(), **recurrent_cases(), **attention_cases()}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CASES)
def test_an_operator_agrees(name: str) -> None:
    check(CASES[name])


def group_query(
    rows: int = 1,
    past: int = 0,
    room: int = 0,
    lengths: Sequence[int] = (),
    packed: bool = False,
    rotary: str = "",
    bias: int = 0,
    sink: bool = False,
    scores: int = 0,
    norms: bool = False,
    valid: Sequence[int] = (),
    batch: int = 2,
    **attributes: Any,
) -> Case:
    """A GroupQueryAttention; ``lengths`` are those of the items, new rows included."""
    heads, groups, size = 4, 2, 16
    total = max(lengths) if lengths else past + rows
    ends = np.array(lengths or [total] * batch, np.int32)
    cached = (batch, groups, room or past, size)
    has_past = past > 0 or room > 0
    given: dict[str, Array | None] = {
        "q": reals(batch, rows, (heads + 2 * groups if packed else heads) * size),
        "k": None if packed else reals(batch, rows, groups * size),
        "v": None if packed else reals(batch, rows, groups * size),
        "pk": reals(*cached) if has_past else None,
        "pv": reals(*cached) if has_past else None,
        "ends": ends - 1,
        "total": np.array([total], np.int32),
        "cos": np.cos(reals(32, size // 2)) if rotary else None,
        "sin": np.sin(reals(32, size // 2)) if rotary else None,
        "positions": np.tile(np.arange(past, past + rows), (batch, 1)) + 2 * (past > 0)
        if rotary == "positions" else None,
        "bias": reals(1 if bias == 1 else batch, heads, rows, total) if bias else None,
        "sink": reals(heads) if sink else None,
        "ks": None, "vs": None,
        "qn": reals(size) if norms else None, "kn": reals(size) if norms else None,
        "valid": np.array(valid, np.int32) if valid else None,
    }  # fmt: skip
    present = [batch, groups, room or past + rows, size]
    more = {"do_rotary": 1, "rotary_interleaved": int(rotary == "pairs")} if rotary else {}
    if scores:
        more["qk_output"] = scores
    return Case(
        "GroupQueryAttention", given, ("y", "k2", "v2", *(["qk"] if scores else [])),
        {"num_heads": heads, "kv_num_heads": groups, **more, **attributes},
        shapes={"k2": present, "v2": present},
    )  # fmt: skip


def trimmed_to(case: Case) -> Callable[[int, Array], Array]:
    """What is specified of results: rows and entries that items have."""
    ends = case.feeds["ends"] + 1
    rows = case.feeds["q"].shape[1]
    valid = case.feeds.get("valid", np.minimum(ends, rows))

    def trimmed(number: int, x: Array) -> Array:
        x = x.copy()
        for item, (end, count) in enumerate(zip(ends, valid, strict=True)):
            if number == 0:
                x[item, count:] = 0
            elif number < 3:
                x[item, :, end:] = 0
        return x

    return trimmed


GROUP_QUERY: dict[str, dict[str, Any]] = {
    "a prompt": {"rows": 4},
    "a row after a past": {"past": 5},
    "rows after a past": {"rows": 3, "past": 5, "batch": 1},
    "a row with room": {"past": 5, "room": 12},
    "a prompt with room": {"rows": 4, "room": 12},
    "prompts of different lengths": {"rows": 4, "room": 12, "lengths": [3, 4]},
    "items of different lengths": {"room": 12, "lengths": [3, 7], "rotary": "halves"},
    "packed": {"past": 5, "packed": True, "rotary": "halves"},
    "a packed prompt": {"rows": 4, "packed": True, "rotary": "pairs"},
    "positions": {"past": 5, "rotary": "positions"},
    "positions of a prompt": {"rows": 4, "rotary": "positions"},
    "a bias": {"rows": 4, "bias": 1},
    "a bias with room": {"room": 12, "lengths": [7, 7], "bias": 2},
    "sinks": {"rows": 4, "sink": True},
    "smooth": {"rows": 4, "smooth_softmax": 1},
    "a window of one": {"rows": 6, "local_window_size": 1},
    "a window": {"rows": 6, "local_window_size": 3},
    "a window after a past": {"past": 6, "local_window_size": 3},
    "softcap": {"rows": 4, "softcap": 1.5},
    "both directions": {"rows": 4, "causal": 0},
    "scores": {"rows": 4, "scores": 1, "local_window_size": 2},
    "weights": {"rows": 4, "scores": 2},
    "padded rows": {"rows": 4, "past": 2, "room": 12, "lengths": [6, 5], "valid": [3, 4]},
    "all": {
        "room": 12, "lengths": [7, 4], "packed": True, "rotary": "pairs", "sink": True, "bias": 1,
        "local_window_size": 3, "softcap": 2.0, "scale": 0.3,
    },
}  # fmt: skip


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", GROUP_QUERY)
def test_group_query_attention_agrees(name: str) -> None:
    case = group_query(**GROUP_QUERY[name])
    check(case, trimmed_to(case))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_group_query_attention_agrees(seed: int) -> None:
    random = np.random.default_rng(seed)

    def flip() -> bool:
        return bool(random.integers(2))

    rows, past = (int(random.integers(1, 6)), 0) if flip() else (1, int(random.integers(1, 9)))
    more: dict[str, Any] = {
        **({"local_window_size": int(random.integers(1, 6))} if flip() else {}),
        **({"softcap": float(random.uniform(0.5, 3))} if flip() else {}),
        **({"scale": float(random.uniform(0.1, 1))} if flip() else {}),
    }
    room = past + rows + int(random.integers(0, 4)) if flip() else 0
    case = group_query(
        rows, past, room, packed=flip(), rotary=str(random.choice(["", "halves", "pairs"])),
        bias=int(random.integers(3)), sink=flip(), **more,
    )  # fmt: skip
    check(case, trimmed_to(case))


def test_norms_of_heads_are_those_of_the_documentation() -> None:
    case = group_query(rows=4, norms=True)
    plain = group_query(rows=4)

    def normed(x: Array, scale: Array) -> Array:
        split = x.reshape(*x.shape[:2], -1, 16)
        return (split / np.sqrt((split**2).mean(-1, keepdims=True) + 1e-6) * scale).reshape(x.shape)

    given = {name: value for name, value in case.inputs.items() if name in plain.inputs}
    for side in "qk":
        given[side] = normed(case.feeds[side], case.feeds[f"{side}n"])
    plain.inputs = {**given, "qn": None, "kn": None, "valid": None}
    expected = plain.judged()
    found = tvm_nnef.evaluate(tvm_nnef.convert(case.model()), *case.feeds.values())
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("attributes", "word"),
    [({"sliding_window_cache": 1}, "local_window_size"), ({"k_quant_type": "PER_TENSOR"}, "reals")],
)
def test_what_cannot_be_converted_says_what_to_change(
    attributes: Mapping[str, Any], word: str
) -> None:
    with pytest.raises(tvm_nnef.UnsupportedError, match=word):
        tvm_nnef.convert(group_query(past=4, **attributes).model())
