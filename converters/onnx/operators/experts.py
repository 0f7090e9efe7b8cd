"""Mixtures of experts: rows that each go through the products of a few of many weights."""

from __future__ import annotations

from collections.abc import Callable

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.ranking import first_in_order
from tvm_nnef.converters.common.symbolic import product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.fused import halves, swiglu
from tvm_nnef.converters.onnx.operators.quantized import DOMAIN
from tvm_nnef.converters.onnx.registry import operator

_ACTIVATIONS: dict[str, Callable[[Tensor, Builder], Tensor]] = {
    "relu": lambda x, builder: builder.call("nn.relu", x),
    "gelu": lambda x, builder: builder.call("nn.gelu", x, approximate="TANH"),
    "silu": lambda x, builder: builder.call("nn.silu", x),
    "identity": lambda x, builder: x,
}


@operator("MoE", domain=DOMAIN)
def mixture_of_experts(node: Node, builder: Builder) -> Tensor:
    """The sum of what the best experts of each row make of it, weighted by their probabilities."""
    if node.flag("use_sparse_mixer"):
        raise Unconvertible("use_sparse_mixer cannot be converted", "route by the largest values")
    x = node.input(0)
    rows = builder.reshape(x, (product(x.shape[:-1]), x.shape[-1]))
    chosen, shares = _routes(node, builder)
    inner = _activated(node, builder.unsqueeze(rows, [1]), chosen, builder)
    found = _of_experts(inner, chosen, node.input(4), node.optional(5), builder)
    weighted = builder.binary("math.mul", found, builder.unsqueeze(shares, [2]))
    mixed = builder.call("math.sum_reduce", weighted, as_shape=rows.shape, axes=[1], squeeze=True)
    return builder.reshape(mixed, x.shape)


def _routes(node: Node, builder: Builder) -> tuple[Tensor, Tensor]:
    """The experts of each row, and how much each of them counts."""
    scores, count = node.input(1), node.integer("k", 1)
    shares = builder.call("nn.softmax", scores, axes=[1])
    best, chosen = first_in_order(shares, 1, count, builder, largest=True)
    if node.flag("normalize_routing_weights"):
        whole = (scores.shape[0], 1)
        total = builder.call("math.sum_reduce", best, as_shape=whole, axes=[1])
        best = builder.binary("math.div", best, total)
    return chosen, best


def _activated(node: Node, rows: Tensor, chosen: Tensor, builder: Builder) -> Tensor:
    """The first products of experts, through the activation."""
    kind, fusion = node.text("activation_type", "relu"), node.integer("swiglu_fusion")
    first = _of_experts(rows, chosen, node.input(2), node.optional(3), builder)
    third = node.optional(6)
    more = None if third is None else _of_experts(rows, chosen, third, node.optional(7), builder)
    if kind == "swiglu":
        if more is None and fusion == 1:
            size = first.shape[-1]
            first, more = (builder.slice(first, -1, at, size, 2) for at in range(2))
        elif more is None:
            first, more = halves(first, builder)
        return swiglu(
            first, more, builder, alpha=node.real("activation_alpha", 1.0),
            beta=node.real("activation_beta"),
            limit=node.real("swiglu_limit") if node.has("swiglu_limit") else None,
        )  # fmt: skip
    if kind not in _ACTIVATIONS:
        hint = f"those that can be: {', '.join((*_ACTIVATIONS, 'swiglu'))}"
        raise Unconvertible(f"the activation '{kind}' cannot be converted", hint)
    activated = _ACTIVATIONS[kind](first, builder)
    return activated if more is None else builder.binary("math.mul", activated, more)


def _of_experts(
    x: Tensor, chosen: Tensor, weights: Tensor, bias: Tensor | None, builder: Builder
) -> Tensor:
    """Products [row, choice, element] of rows and the weights of the experts chosen for them."""
    shape = (*chosen.shape, weights.shape[1])
    found = builder.call("onnx.expert_products", x, weights, chosen, as_shape=shape)
    if bias is None:
        return found
    added = builder.call("extra.gather", bias, chosen, as_shape=shape, axis=0)
    return builder.binary("math.add", found, added)
