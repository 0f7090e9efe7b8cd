"""Converters of tract's operations that have no body in ``tract.nnef``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import sum_of_products, terms
from tvm_nnef.converters.common.ranking import first_in_order
from tvm_nnef.converters.common.symbolic import Size, maximum
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import kind
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1 import calls, tract_indexing
from tvm_nnef.converters.nnef1.operators import broadcasting
from tvm_nnef.converters.nnef1.operators.borders import BORDERS
from tvm_nnef.converters.nnef1.operators.convolution import conv, deconv
from tvm_nnef.converters.nnef1.operators.layout import section
from tvm_nnef.converters.nnef1.operators.linear import product
from tvm_nnef.converters.nnef1.operators.operation import (
    Converted,
    Operation,
    OperatorFunction,
)
from tvm_nnef.converters.nnef1.operators.pooling import max_pool
from tvm_nnef.converters.nnef1.operators.reductions import position, reduced

DTYPES: Mapping[str, str] = MappingProxyType(
    {f"{letter}{bits}": f"{name}{bits}"
     for letter, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}
    | {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool"}
)  # fmt: skip
"""The dtypes of tract's datum types."""

_REALS = ("f16", "f32", "f64")
_NARROW = {
    name: (int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("int8", "int16", "uint8", "uint16")
}


def _text(name: str, operation: Operation) -> str:
    value = operation.call.arguments[name]
    assert isinstance(value, str)
    return value


def _cast(operation: Operation, builder: Builder) -> Tensor:
    """Convert a cast to another dtype; real to int drops the fraction, and saturates at the
    limits.
    """
    x, dtype = operation.tensor("input"), DTYPES[_text("to", operation).lower()]
    if x.kind == "real" and dtype in _NARROW:
        limits = (builder.constant(each, x.dtype) for each in _NARROW[dtype])
        # NaN becomes 0, which no comparison of a minimum and a maximum gives.
        number = builder.select(builder.call("math.ne", x, x, as_type="bool"),
                                builder.constant(0, x.dtype), x)  # fmt: skip
        return builder.cast(builder.call("math.clamp", number, *limits), dtype)
    if kind(dtype) == "bool" and x.kind != "bool":
        return builder.call("math.ne", x, builder.constant(0, x.dtype), as_type="bool")
    return builder.call("math.iden", x) if x.dtype == dtype else builder.cast(x, dtype)


def _broadcast(operation: Operation, builder: Builder) -> Tensor:
    """Broadcast to a shape: dimensions of 1 are stretched, missing leading dimensions added."""
    x, shape = operation.tensor("input"), operation.sizes("shape")
    own = (*[1] * (len(shape) - x.rank), *x.shape)
    if len(own) != len(shape) or any(a not in (1, b) for a, b in zip(own, shape, strict=True)):
        reason = f"{list(map(str, x.shape))} cannot be broadcast to {list(map(str, shape))}"
        hint = "dimensions are aligned from the right, and must be equal or 1"
        raise Unconvertible(reason.replace("'", ""), hint, mismatch=True)
    result = builder.expand(builder.unsqueeze(x, list(range(len(shape) - x.rank))), shape)
    return builder.call("math.iden", x) if result is x else result


def _plain(name: str, operation: Operation, builder: Builder) -> Tensor:
    """Convert to an operator of SkriptND on one tensor."""
    return builder.call(name, operation.tensor("input"))


def _standard(name: str, operation: Operation, builder: Builder) -> Tensor:
    """Convert to an operator of SkriptND on one tensor, which the specification names 'x'."""
    return builder.call(name, operation.tensor("x"))


def _is_inf(operation: Operation, builder: Builder) -> Tensor:
    """Convert the test whether elements are infinite, for the signs in question."""
    return builder.call(
        "extra.is_inf", operation.tensor("input"), as_type="bool",
        positive=operation.flag("detect_positive"), negative=operation.flag("detect_negative"),
    )  # fmt: skip


def _gelu(operation: Operation, builder: Builder) -> Tensor:
    """Convert GELU by a hyperbolic tangent."""
    if operation.flag("fast_impl"):
        raise Unconvertible("'fast_impl' is its own approximation", "write it without")
    return builder.call("nn.gelu", operation.tensor("input"), approximate="TANH")


def _xor(operation: Operation, builder: Builder) -> Tensor:
    x, y = operation.operands("x", "y")
    return broadcasting.binary("math.xor", x, y, builder)


def _bits(name: str, operation: Operation, builder: Builder) -> Tensor:
    """Convert an operator on the bits of two tensors of integers, or on two of logicals."""
    x, y = operation.operands("x", "y")
    if x.kind == "bool":
        return broadcasting.binary(f"math.{name}", x, y, builder)
    rank = max(x.rank, y.rank)
    x, y = (broadcasting.with_rank(each, rank, builder) for each in (x, y))
    broadcasting.broadcast_shape(x, y)
    bits = np.dtype(x.dtype).itemsize * 8
    # Formulas compute in 32 or 64 signed bits, in which the topmost bit is the sign.
    top = bits if x.dtype in ("uint8", "uint16", "uint32") else bits - 1
    return builder.binary(f"extra.bitwise_{name}", x, y, bits=bits, top=top)


def _bits_not(operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    return builder.call("math.not" if x.kind == "bool" else "extra.bitwise_not", x)


def _product(operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    return reduced("prod", x, operation.axes(x.rank), builder)


def _last_position(name: str, operation: Operation, builder: Builder) -> Tensor:
    """Return the position of the last extremum; over several dimensions, that in row-major
    order.
    """
    x = operation.tensor("input")
    axes = operation.axes(x.rank)
    volume = 1
    for axis in axes:
        size = x.shape[axis]
        if not isinstance(size, int):
            hint = "give the shapes of the inputs: convert(…, input_shapes={…})"
            raise Unconvertible(f"dimension {axis} is known only at run time", hint)
        volume *= size
        x = builder.slice(x, axis, size - 1, -1, -1)
    mirrored = position(name, x, axes, "int64", builder)
    return builder.binary("math.sub", builder.constant(volume - 1, "int64"), mirrored)


def _shape_of(operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    return builder.call("layout.shape", x, as_type="int64", as_shape=(x.rank,))


def _range(operation: Operation, builder: Builder) -> Tensor:
    """Convert a range: numbers from a first one on, with a step, up to an excluded end."""
    start, end, step = (operation.call.arguments[name] for name in ("start", "end", "step"))
    if step == 0:
        raise Unconvertible("'step' is 0", "give another number")
    if isinstance(start, float) and isinstance(end, float) and isinstance(step, float):
        return builder.constant(np.arange(start, end, step, dtype=np.float32))
    (first, last, delta) = (
        operation.sizes(name)[0] for name in ("start", "end", "step")
    )  # fmt: skip
    if not isinstance(delta, int):
        raise Unconvertible("'step' is known only at run time", "write a number")
    count: Size = maximum(-((first - last) // delta), 0)
    return builder.call(
        "extra.range",
        builder.dimension(first),
        builder.dimension(delta),
        as_shape=(count,),
        count=count,
    )


def _cumulative_sum(operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    return builder.call(
        "math.cumsum", x, axis=operation.axis(x.rank), exclusive=operation.flag("exclusive"),
        reverse=operation.flag("reverse"),
    )  # fmt: skip


def _top_k(operation: Operation, builder: Builder) -> tuple[Tensor, Tensor]:
    """Convert a top-k: the largest or smallest elements along a dimension, in order, and their
    positions.
    """
    x, k = operation.tensor("input"), operation.integer("k")
    axis, largest = operation.axis(x.rank), operation.flag("largest")
    size = x.shape[axis]
    if k < 0 or (isinstance(size, int) and k > size):
        hint = "it must not be negative, nor exceed the dimension"
        raise Unconvertible(f"'k' is {k} for a dimension of {size}", hint, mismatch=True)
    return first_in_order(x, axis, k, builder, largest=largest)


def _triangle(operation: Operation, builder: Builder) -> Tensor:
    """Convert a triangle: the elements on one side of a diagonal of matrices, zeros elsewhere."""
    x = operation.tensor("input")
    if x.rank < 2:
        raise Unconvertible(f"its input has rank {x.rank}", "it must be at least 2", mismatch=True)
    k = builder.constant(operation.integer("k"), "int32")
    return builder.call("extra.trilu", x, k, upper=operation.flag("upper"))


def _gather(operation: Operation, builder: Builder) -> Tensor:
    """Convert a gather: the slices along a dimension that indices select, possibly in another
    dtype.
    """
    slices = tract_indexing.gather(operation, builder)
    name = _text("datum_type", operation)
    return builder.cast(slices, _known(name)) if name else slices


def _known(name: str) -> str:
    if name.lower() not in DTYPES:
        raise Unconvertible(
            f"the datum type '{name}' is not known", f"it is one of {', '.join(DTYPES)}"
        )
    return DTYPES[name.lower()]


def _einsum(operation: Operation, builder: Builder) -> Tensor:
    """Convert an einsum: sums of products over named dimensions, in at least the precision of
    'acc'.
    """
    equation, operands = _text("expr", operation).replace(" ", ""), operation.tensors("inputs")
    if _text("output", operation):
        raise Unconvertible("'output' asks for quantized results", "leave it empty")
    if _text("acc", operation).lower() not in _REALS:
        raise Unconvertible("'acc' is not a real datum type", "write 'f32'")
    # tract takes an empty result for one that is not written.
    operand_terms, result = terms(equation.removesuffix("->"), operands)
    for term in operand_terms:
        if len(set(term)) < len(term):
            raise Unconvertible(f"'{term}' repeats a dimension", "use each letter once")
    product = sum_of_products(list(zip(operands, operand_terms, strict=True)), result, builder)
    return builder.call("math.iden", product) if product in operands else product


def _downsample(operation: Operation, builder: Builder) -> Tensor:
    """Convert a downsampling: every n-th element along a dimension, from an offset on."""
    x, stride = operation.tensor("input"), operation.integer("stride")
    axis, first = operation.axis(x.rank), operation.integer("modulo")
    if stride < 1 or first < 0:
        reason = f"'stride' is {stride} and 'modulo' {first}"
        raise Unconvertible(reason, "'stride' must be positive, and 'modulo' not negative")
    result = builder.slice(x, axis, first, x.shape[axis], stride)
    return builder.call("math.iden", x) if result is x else result


def _attention(operation: Operation, builder: Builder) -> Tensor:
    """Convert an attention: means of values, weighted by the softmax of scaled products of queries
    and keys.
    """
    q, k, v = operation.operands("q", "k", "v")
    for name in ("datum_type", "acc_datum_type"):
        if _text(name, operation).lower() not in _REALS:
            raise Unconvertible(f"'{name}' is not a real datum type", "write 'f32'")
    scores = product(q, k, False, True, builder)
    rows, columns = scores.shape[-2:]
    width = k.shape[-1]
    # tract scales by a width that is known, if the document has no factor.
    if not isinstance(width, int):
        hint = "give the shapes of the inputs: convert(…, input_shapes={…})"
        raise Unconvertible("its last dimension is known only at run time", hint)
    factor = operation.real("scale") or width**-0.5
    scores = builder.binary("math.mul", scores, builder.constant(factor, scores.dtype))
    if not operation.is_number("mask", 0.0):
        scores = builder.binary("math.add", scores, operation.tensor("mask"))
    if operation.flag("is_causal"):
        if not isinstance(rows, int) or not isinstance(columns, int) or rows > columns:
            reason = f"'is_causal' needs a key for each query, got {columns} for {rows}"
            raise Unconvertible(reason, "give a mask instead", mismatch=True)
        # The last query belongs to the last key.
        later = np.triu(np.full((rows, columns), -np.inf, np.float32), 1 + columns - rows)
        scores = builder.binary("math.add", scores, builder.constant(later, scores.dtype))
    weights = builder.call("nn.softmax", scores, axes=[scores.rank - 1])
    return product(weights, v, False, False, builder)


def _max_pool(operation: Operation, builder: Builder) -> Tensor:
    """Convert a max-pooling, in which a window covers only elements of the input."""
    border = operation.choice("border", BORDERS)
    return max_pool(operation, builder, "ignore" if border == "constant" else border)


_CONVOLUTIONS = {"conv": conv, "deconv": deconv}


def _convolution(function: OperatorFunction, operation: Operation, builder: Builder) -> Converted:
    """Convert a convolution whose bias may be a vector of channels."""
    bias_argument, bias = operation.call.arguments["bias"], operation.tensor("bias")
    if not isinstance(bias_argument, calls.Tensor) or bias.rank != 1:
        return function(operation, builder)
    row = builder.reshape(bias, (1, *bias.shape))
    if row.value is not None:
        row.source = bias.source
    operands = (
        each for each in operation.call.arguments.values() if isinstance(each, calls.Tensor)
    )
    scope = {each.label: operation.scope[each.label] for each in operands} | {
        bias_argument.label: row
    }
    return function(replace(operation, scope=scope), builder)


FUNCTIONS: Mapping[str, OperatorFunction] = MappingProxyType({
    # tract rounds the number of elements up, as Python does.
    "slice": partial(section, rounded_up=True),
    # In tract the border 'constant' of a maximum is not zeros: only elements of the input count.
    "max_pool": _max_pool,
    "round": partial(_standard, "math.round"),
    "square": partial(_standard, "math.sqr"),
    "recip": partial(_standard, "math.rcp"),
    **{name: partial(_convolution, each.function) for name, each in _CONVOLUTIONS.items()},
    "tract_core_cast": _cast,
    "tract_core_broadcast": _broadcast,
    "tract_core_erf": partial(_plain, "nn.erf"),
    "tract_onnx_erf": partial(_plain, "nn.erf"),
    "tract_core_round_even": partial(_plain, "extra.round_even"),
    "tract_core_bitnot": _bits_not,
    **{f"tract_core_bit{name}": partial(_bits, name) for name in ("and", "or", "xor")},
    "tract_core_is_inf": _is_inf,
    "tract_core_gelu_approx": _gelu,
    "tract_transformers_gelu_approx": _gelu,
    "tract_core_xor": _xor,
    "tract_core_product_reduce": _product,
    "tract_core_argmax_reduce_last": partial(_last_position, "math.argmax"),
    "tract_core_argmin_reduce_last": partial(_last_position, "math.argmin"),
    "tract_core_shape_of": _shape_of,
    "tract_core_range": _range,
    "tract_core_cumsum": _cumulative_sum,
    "tract_core_topk": _top_k,
    "tract_core_trilu": _triangle,
    "tract_core_one_hot": tract_indexing.one_hot,
    "tract_core_gather": _gather,
    "tract_core_gather_elements": tract_indexing.gather_elements,
    "tract_core_gather_nd": tract_indexing.gather_nd,
    "tract_core_scatter_elements": tract_indexing.scatter_elements,
    "tract_core_scatter_nd": tract_indexing.scatter_nd,
    "tract_core_einsum": _einsum,
    "tract_core_downsample": _downsample,
    "tract_transformers_sdpa": _attention,
})  # fmt: skip
"""The functions of operations without a body, and of those that tract defines in another way."""
