"""The functions of those operations of tract that have no body in ``tract.nnef``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import sum_of_products, terms
from tvm_nnef.converters.common.symbolic import Size, maximum
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import kind
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1 import calls
from tvm_nnef.converters.nnef1.operators import broadcasting
from tvm_nnef.converters.nnef1.operators.convolution import conv, deconv
from tvm_nnef.converters.nnef1.operators.layout import gather, section
from tvm_nnef.converters.nnef1.operators.linear import product
from tvm_nnef.converters.nnef1.operators.operation import (
    Converted,
    Operation,
    OperatorFunction,
    in_range,
)
from tvm_nnef.converters.nnef1.operators.reductions import reduced

DTYPES: Mapping[str, str] = MappingProxyType(
    {f"{letter}{bits}": f"{name}{bits}"
     for letter, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}
    | {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool"}
)  # fmt: skip
"""The dtypes of tract's datum types."""

_REALS = ("f16", "f32", "f64")
_REDUCTIONS: Mapping[str, str] = MappingProxyType(
    {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}
)


def _text(name: str, operation: Operation) -> str:
    value = operation.call.arguments[name]
    assert isinstance(value, str)
    return value


def _cast(operation: Operation, builder: Builder) -> Tensor:
    """The elements in another dtype; real to int drops the fraction."""
    x, dtype = operation.tensor("input"), DTYPES[_text("to", operation).lower()]
    if kind(dtype) == "bool" and x.kind != "bool":
        return builder.call("math.ne", x, builder.constant(0, x.dtype), as_type="bool")
    return builder.call("math.iden", x) if x.dtype == dtype else builder.cast(x, dtype)


def _broadcast(operation: Operation, builder: Builder) -> Tensor:
    """Dimensions of 1 stretched to a shape of the same rank."""
    x, shape = operation.tensor("input"), operation.sizes("shape")
    pairs = zip(x.shape, shape, strict=False)
    if len(shape) != x.rank or any(own not in (1, wanted) for own, wanted in pairs):
        reason = f"{list(map(str, x.shape))} cannot be broadcast to {list(map(str, shape))}"
        hint = "the rank must stay, and dimensions that are not 1"
        raise Unconvertible(reason.replace("'", ""), hint, mismatch=True)
    found = builder.expand(x, shape)
    return builder.call("math.iden", x) if found is x else found


def _plain(name: str, operation: Operation, builder: Builder) -> Tensor:
    """An operator of SkriptND on one tensor."""
    return builder.call(name, operation.tensor("x"))


def _is_inf(operation: Operation, builder: Builder) -> Tensor:
    """Whether elements are infinite, of the signs that count."""
    return builder.call(
        "extra.is_inf", operation.tensor("x"), as_type="bool",
        positive=operation.flag("detect_positive"), negative=operation.flag("detect_negative"),
    )  # fmt: skip


def _gelu(operation: Operation, builder: Builder) -> Tensor:
    """GELU by a hyperbolic tangent."""
    if operation.flag("fast_impl"):
        raise Unconvertible("'fast_impl' is its own approximation", "write it without")
    return builder.call("nn.gelu", operation.tensor("x"), approximate="TANH")


def _xor(operation: Operation, builder: Builder) -> Tensor:
    x, y = operation.operands("x", "y")
    return broadcasting.binary("math.xor", x, y, builder)


def _bits(name: str, operation: Operation, builder: Builder) -> Tensor:
    """An operator on the bits of two tensors of integers."""
    x, y = operation.operands("x", "y")
    rank = max(x.rank, y.rank)
    x, y = (broadcasting.with_rank(each, rank, builder) for each in (x, y))
    broadcasting.broadcast_shape(x, y)
    bits = np.dtype(x.dtype).itemsize * 8
    # Formulas compute in 32 or 64 signed bits, in which the topmost bit is the sign.
    top = bits if x.dtype in ("uint8", "uint16", "uint32") else bits - 1
    return builder.binary(f"extra.bitwise_{name}", x, y, bits=bits, top=top)


def _product(operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    return reduced("prod", x, operation.axes(x.rank), builder)


def _last_position(name: str, operation: Operation, builder: Builder) -> Tensor:
    """The position of the last extreme along a dimension."""
    x, axes = operation.tensor("input"), operation.axes(operation.tensor("input").rank)
    if len(axes) != 1:
        raise Unconvertible(f"'axes' is {axes}", "name one dimension")
    (axis,) = axes
    size = x.shape[axis]
    if not isinstance(size, int):
        hint = "give the shapes of the inputs: convert(…, input_shapes={…})"
        raise Unconvertible(f"dimension {axis} is known only at run time", hint)
    backwards = builder.slice(x, axis, size - 1, -1, -1)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    found = builder.call(name, backwards, as_type="int64", as_shape=shape, axis=axis)
    return builder.call("math.sub", builder.constant(size - 1, "int64"), found, as_shape=shape)


def _shape_of(operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("x")
    return builder.call("layout.shape", x, as_type="int64", as_shape=(x.rank,))


def _range(operation: Operation, builder: Builder) -> Tensor:
    """Numbers from a first one on, a step apart, up to an end that is left out."""
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
    """The largest or smallest elements along a dimension, in order, and their positions."""
    x, k = operation.tensor("input"), operation.integer("k")
    axis, largest = operation.axis(x.rank), operation.flag("largest")
    size = x.shape[axis]
    if k < 1 or (isinstance(size, int) and k > size):
        hint = "it must be positive, and not exceed the dimension"
        raise Unconvertible(f"'k' is {k} for a dimension of {size}", hint, mismatch=True)
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    values, indices = Tensor(x.dtype, shape), Tensor("int64", shape)
    builder.add("algo.top_k", (x,), (values, indices), k=k, axis=axis, largest=largest)
    return values, indices


def _triangle(operation: Operation, builder: Builder) -> Tensor:
    """The elements on one side of a diagonal of matrices, zeros elsewhere."""
    x = operation.tensor("input")
    if x.rank < 2:
        raise Unconvertible(f"its input has rank {x.rank}", "it must be at least 2", mismatch=True)
    k = builder.constant(operation.integer("k"), "int32")
    return builder.call("extra.trilu", x, k, upper=operation.flag("upper"))


def _one_hot(operation: Operation, builder: Builder) -> Tensor:
    """A row with one number among others for each index."""
    index, dim = operation.tensor("input"), operation.integer("dim")
    axis = in_range("axis", operation.integer("axis"), index.rank + 1)
    if dim < 1:
        raise Unconvertible(f"'dim' is {dim}", "give a positive number")
    values = builder.constant([operation.real("value_off"), operation.real("value_on")], "float32")
    return builder.call(
        "extra.one_hot", index, values, as_type="float32", axis=axis, depth=dim,
        as_shape=(*index.shape[:axis], dim, *index.shape[axis:]),
    )  # fmt: skip


def _gather_elements(operation: Operation, builder: Builder) -> Tensor:
    """The elements along a dimension that indices of the same rank select."""
    x, indices = operation.tensor("input"), operation.tensor("indices")
    axis = operation.axis(x.rank)
    _check_rank(indices, x.rank)
    return builder.call("extra.gather_elements", x, indices, as_shape=indices.shape, axis=axis)


def _check_rank(indices: Tensor, rank: int) -> None:
    if indices.rank != rank:
        reason = f"the input has rank {rank}, 'indices' {indices.rank}"
        raise Unconvertible(reason, "they must be equal", mismatch=True)


def _check_updates(updates: Tensor, shape: tuple[Size, ...]) -> None:
    if updates.shape != shape:
        found, wanted = (", ".join(map(str, each)) for each in (updates.shape, shape))
        reason = f"'updates' has the shape [{found}]"
        raise Unconvertible(reason, f"it must be [{wanted}]", mismatch=True)


def _tuple_length(indices: Tensor, rank: int) -> int:
    """The number of dimensions that a row of indices names."""
    length = indices.shape[-1] if indices.rank else 0
    if not isinstance(length, int) or not 1 <= length <= rank:
        reason = f"'indices' has the shape [{', '.join(map(str, indices.shape))}]"
        hint = f"its last dimension must be from 1 to {rank}"
        raise Unconvertible(reason, hint, mismatch=True)
    return length


def _gather_nd(operation: Operation, builder: Builder) -> Tensor:
    """The parts that rows of indices name."""
    x, indices = operation.tensor("input"), operation.tensor("indices")
    batch = operation.integer("batch_dims")
    if not 0 <= batch < min(x.rank, max(indices.rank, 1)):
        raise Unconvertible(f"'batch_dims' is {batch}", "name leading dimensions", mismatch=True)
    length = _tuple_length(indices, x.rank - batch)
    if x.shape[:batch] != indices.shape[:batch]:
        reason = f"the first {batch} dimensions of the input and of 'indices' differ"
        raise Unconvertible(reason, "they must be equal", mismatch=True)
    shape = (*indices.shape[:-1], *x.shape[batch + length :])
    return builder.call("extra.gather_nd", x, indices, as_shape=shape, batch_dims=batch)


def _scatter_elements(operation: Operation, builder: Builder) -> Tensor:
    """A copy with the elements changed that indices select along a dimension."""
    x, updates = operation.operands("input", "updates")
    indices, axis = operation.tensor("indices"), operation.axis(x.rank)
    _check_rank(indices, x.rank)
    _check_updates(updates, indices.shape)
    how = _REDUCTIONS[operation.choice("reduction", list(_REDUCTIONS))]
    return builder.call(f"extra.scatter_elements_{how}", x, indices, updates, axis=axis)


def _scatter_nd(operation: Operation, builder: Builder) -> Tensor:
    """A copy with the parts changed that rows of indices name."""
    x, updates = operation.operands("input", "updates")
    indices = operation.tensor("indices")
    length = _tuple_length(indices, x.rank)
    _check_updates(updates, (*indices.shape[:-1], *x.shape[length:]))
    how = _REDUCTIONS[operation.choice("reduction", list(_REDUCTIONS))]
    return builder.call(f"extra.scatter_nd_{how}", x, indices, updates)


def _einsum(operation: Operation, builder: Builder) -> Tensor:
    """Sums of products over named dimensions; sums are at least as exact as 'acc' says."""
    equation, operands = _text("expr", operation).replace(" ", ""), operation.tensors("inputs")
    if _text("output", operation):
        raise Unconvertible("'output' asks for quantized results", "leave it empty")
    if _text("acc", operation).lower() not in _REALS:
        raise Unconvertible("'acc' is not a real datum type", "write 'f32'")
    found, result = terms(equation, operands)
    for each, term in zip(operands, found, strict=True):
        if len(set(term)) < len(term):
            raise Unconvertible(f"'{term}' repeats a dimension", "use each letter once")
        if len(term) != each.rank:
            reason = f"'{term}' names {len(term)} dimensions of a tensor of rank {each.rank}"
            raise Unconvertible(reason, "write a letter for each", mismatch=True)
    if not set(result) <= set("".join(found)) or len(set(result)) < len(result):
        raise Unconvertible(f"'{result}' names other dimensions", "use letters of operands once")
    sizes: dict[str, Size] = {}
    for each, term in zip(operands, found, strict=True):
        for name, size in zip(term, each.shape, strict=True):
            if sizes.setdefault(name, size) != size:
                reason = f"dimension '{name}' is {sizes[name]} and {size}"
                raise Unconvertible(reason, "they must be equal", mismatch=True)
    product = sum_of_products(list(zip(operands, found, strict=True)), result, builder)
    return builder.call("math.iden", product) if product in operands else product


def _downsample(operation: Operation, builder: Builder) -> Tensor:
    """Every so many elements along a dimension, from one on."""
    x, stride = operation.tensor("input"), operation.integer("stride")
    axis, first = operation.axis(x.rank), operation.integer("modulo")
    if stride < 1 or not 0 <= first < stride:
        reason = f"'stride' is {stride} and 'modulo' {first}"
        raise Unconvertible(reason, "'modulo' must be from 0 to below 'stride'")
    found = builder.slice(x, axis, first, x.shape[axis], stride)
    return builder.call("math.iden", x) if found is x else found


def _attention(operation: Operation, builder: Builder) -> Tensor:
    """Means of values, weighted by the softmax of scaled products of queries and keys."""
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
        if rows != columns or not isinstance(rows, int):
            reason = f"'is_causal' needs as many queries as keys, got {rows} and {columns}"
            raise Unconvertible(reason, "give a mask instead", mismatch=True)
        later = np.triu(np.full((rows, rows), -np.inf, np.float32), 1)
        scores = builder.binary("math.add", scores, builder.constant(later, scores.dtype))
    weights = builder.call("nn.softmax", scores, axes=[scores.rank - 1])
    return product(weights, v, False, False, builder)


_CONVOLUTIONS = {"conv": conv, "deconv": deconv}


def _convolution(function: OperatorFunction, operation: Operation, builder: Builder) -> Converted:
    """A convolution whose bias may be a vector of channels."""
    given, bias = operation.call.arguments["bias"], operation.tensor("bias")
    if not isinstance(given, calls.Tensor) or bias.rank != 1:
        return function(operation, builder)
    row = builder.reshape(bias, (1, *bias.shape))
    if row.value is not None:
        row.source = bias.source
    operands = (
        each for each in operation.call.arguments.values() if isinstance(each, calls.Tensor)
    )
    scope = {each.label: operation.scope[each.label] for each in operands} | {given.label: row}
    return function(replace(operation, scope=scope), builder)


FUNCTIONS: Mapping[str, OperatorFunction] = MappingProxyType({
    # tract rounds the number of elements up, as Python does.
    "slice": partial(section, rounded_up=True),
    **{name: partial(_convolution, each.function) for name, each in _CONVOLUTIONS.items()},
    "tract_core_cast": _cast,
    "tract_core_broadcast": _broadcast,
    "tract_core_erf": partial(_plain, "nn.erf"),
    "tract_onnx_erf": partial(_plain, "nn.erf"),
    "tract_core_round_even": partial(_plain, "extra.round_even"),
    "tract_core_bitnot": partial(_plain, "extra.bitwise_not"),
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
    "tract_core_one_hot": _one_hot,
    "tract_core_gather": gather.function,
    "tract_core_gather_elements": _gather_elements,
    "tract_core_gather_nd": _gather_nd,
    "tract_core_scatter_elements": _scatter_elements,
    "tract_core_scatter_nd": _scatter_nd,
    "tract_core_einsum": _einsum,
    "tract_core_downsample": _downsample,
    "tract_transformers_sdpa": _attention,
})  # fmt: skip
"""The functions of operations without a body, and of those that tract defines otherwise."""
