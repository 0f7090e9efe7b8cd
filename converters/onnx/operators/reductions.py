"""Reductions, argmax and argmin, sorting, cumulative sums, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import size_of
from tvm_nnef.converters.common.ranking import first_in_order
from tvm_nnef.converters.common.symbolic import Size, number, product, quotient
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.layout import sizes_without
from tvm_nnef.converters.onnx.registry import Converter, operator

Step: TypeAlias = "Callable[[Tensor, Builder], Tensor]"


@dataclass(frozen=True, slots=True)
class _Reduction:
    """The functions of each element, of pairs of them, and of the result."""

    join: str
    before: Step | None = None
    after: Step | None = None


def _one(name: str, x: Tensor, builder: Builder) -> Tensor:
    return builder.call(name, x)


_ABS, _SQR = partial(_one, "math.abs"), partial(_one, "math.sqr")


def _root(x: Tensor, builder: Builder) -> Tensor:
    if x.kind == "real":
        return builder.call("math.sqrt", x)
    return builder.cast(builder.call("math.sqrt", builder.cast(x, "float64")), x.dtype)


def _logarithm(x: Tensor, builder: Builder) -> Tensor:
    if x.kind == "real":
        return builder.call("math.log", x)
    return builder.cast(builder.call("math.log", builder.cast(x, "float64")), x.dtype)


_REDUCTIONS: Mapping[str, _Reduction] = {
    "ReduceSum": _Reduction("sum"),
    "ReduceProd": _Reduction("prod"),
    "ReduceMax": _Reduction("max"),
    "ReduceMin": _Reduction("min"),
    "ReduceMean": _Reduction("mean"),
    "ReduceL1": _Reduction("sum", _ABS),
    "ReduceL2": _Reduction("sum", _SQR, _root),
    "ReduceSumSquare": _Reduction("sum", _SQR),
    "ReduceLogSum": _Reduction("sum", None, _logarithm),
}
_BOOLEAN = {"max": "any", "min": "all"}


def _reduce(node: Node, builder: Builder) -> Tensor:
    return _reduced(_REDUCTIONS[node.operator], node, builder)


def _reduced(reduction: _Reduction, node: Node, builder: Builder) -> Tensor:
    x = node.input(0)
    axes = _axes(node, x)
    if reduction.before:
        x = reduction.before(x, builder)
    if axes != []:
        x = _joined(reduction.join, x, axes, node, builder)
    return reduction.after(x, builder) if reduction.after else x


def _axes(node: Node, x: Tensor) -> list[int] | None:
    """The axes where they are known, counted from the front; [] where nothing is reduced."""
    given, where = node.value(1), node.optional(1)
    axes = node.integers("axes")
    if given is not None:
        axes = [int(axis) for axis in given.reshape(-1)]
    elif where is not None and where.size:
        return None
    if not axes:
        nothing = node.flag("noop_with_empty_axes")
        return [] if nothing else list(range(x.rank))
    return sorted({axis % x.rank for axis in axes}) if x.rank else []


def _joined(join: str, x: Tensor, axes: list[int] | None, node: Node, builder: Builder) -> Tensor:
    keep = node.flag("keepdims", True)
    if axes is None:
        return _joined_at(join, x, node, builder)
    return reduce_axes(join, x, axes, keep, builder)


def reduce_axes(join: str, x: Tensor, axes: Sequence[int], keep: bool, builder: Builder) -> Tensor:
    """``sum``, ``prod``, ``max``, ``min`` or ``mean`` over axes that are known."""
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    if not keep:
        shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
    if join == "mean" and x.kind == "int":
        total = reduce_axes("sum", x, axes, keep, builder)
        count = product([x.shape[axis] for axis in axes])
        return builder.binary("extra.truncate_div", total, number(count))
    name = _BOOLEAN[join] if x.kind == "bool" else join
    return builder.call(
        f"math.{name}_reduce", x, as_shape=shape, axes=list(axes), squeeze=None if keep else True
    )


def _joined_at(join: str, x: Tensor, node: Node, builder: Builder) -> Tensor:
    """Over axes that arrive at run time, into the shape that the model declares."""
    keep = node.flag("keepdims", True)
    shape = node.known_shape() or sizes_without(node, builder, keep)
    axes = node.input(1)
    if x.kind == "bool":
        wide = _joined_at(join, builder.cast(x, "int32"), node, builder)
        # The maximum of nothing is the least number, which is not a truth value.
        return builder.binary("math.gt" if join == "max" else "math.ne", wide, 0, "bool")
    strides = builder.call("onnx.reduce_strides", axes, as_shape=(x.rank,), sizes=list(x.shape))
    volume = product(shape)
    name = "sum" if join == "mean" else join
    flat = builder.call(f"onnx.{name}_at", x, strides, as_shape=(volume,), volume=volume)
    if join == "mean":
        count = quotient(x.shape, shape)
        flat = _divided(flat, builder.dimension(count), builder)
    return builder.reshape(flat, shape)


def _divided(x: Tensor, count: Tensor, builder: Builder) -> Tensor:
    if x.kind == "real":
        return builder.binary("math.div", x, builder.cast(count, x.dtype))
    return builder.binary("extra.truncate_div", x, builder.cast(count, x.dtype))


REDUCTIONS = tuple(Converter(name, 1, _reduce) for name in _REDUCTIONS)


@operator("ReduceLogSumExp")
def reduce_log_sum_exp(node: Node, builder: Builder) -> Tensor:
    """The logarithm of the sum of powers of e, shifted so as not to overflow."""
    x = node.input(0)
    axes = _axes(node, x)
    if axes == []:
        return x
    if x.kind != "real":
        x = builder.cast(x, "float64")
    if axes is None:
        powers = builder.call("math.exp", x)
        total = _joined_at("sum", powers, node, builder)
        return builder.cast(builder.call("math.log", total), node.dtype())
    max_values = reduce_axes("max", x, axes, True, builder)
    finite = builder.call("onnx.finite_or_zero", max_values)
    powers = builder.call("math.exp", builder.binary("math.sub", x, finite))
    total = reduce_axes("sum", powers, axes, True, builder)
    found = builder.binary("math.add", builder.call("math.log", total), finite)
    if not node.flag("keepdims", True):
        found = builder.squeeze(found, axes)
    return builder.cast(found, node.input(0).dtype)


def _position(largest: bool, node: Node, builder: Builder) -> Tensor:
    x = node.input(0)
    axis, keep = node.axis(x.rank), node.flag("keepdims", True)
    shape = [size for position, size in enumerate(x.shape) if keep or position != axis]
    if keep:
        shape[axis] = 1
    call = partial(builder.call, as_shape=shape, axis=axis)
    if node.flag("select_last_index"):
        extreme = reduce_axes("max" if largest else "min", x, [axis], True, builder)
        position = call("onnx.last_position", x, extreme, as_type="int32", squeeze=not keep)
        return builder.cast(position, "int64")
    name = "math.argmax" if largest else "math.argmin"
    return call(name, x, as_type="int64", squeeze=None if keep else True)


POSITIONS = (
    Converter("ArgMax", 1, partial(_position, True)),
    Converter("ArgMin", 1, partial(_position, False)),
)


@operator("TopK")
def top_k(node: Node, builder: Builder) -> Sequence[Tensor]:
    """The largest (or least) elements along an axis, in order, and their positions."""
    x = node.input(0)
    axis, largest = node.axis(x.rank, -1), node.flag("largest", True)
    given = node.sizes(1)
    known = node.known_shape(0) or node.known_shape(1)
    if node.has("k"):
        count: Size = node.integer("k")
    elif given is not None:
        (count,) = given
    else:
        most = x.shape[axis]
        bound = node.bound(axis, most=most)
        count = known[axis] if known else size_of(node.input(1), bound, builder, most)
    found = first_in_order(x, axis, count, builder, largest=largest)
    if count == 1 and not isinstance(x.shape[axis], int):
        # SkriptND takes at most as many elements as there are; 0 or 1 would not broadcast.
        return tuple(builder.one_slice(each, axis, 0) for each in found)
    return found


def _softmax_axes(node: Node, x: Tensor) -> list[int]:
    """One axis; before opset 13 all from it on."""
    if node.version >= 13:
        return [node.axis(x.rank, -1)]
    return list(range(node.axis(x.rank, 1), x.rank))


@operator("Softmax")
def softmax(node: Node, builder: Builder) -> Tensor:
    """Powers of e that add up to 1."""
    x = node.input(0)
    return builder.call("nn.softmax", x, axes=_softmax_axes(node, x))


@operator("LogSoftmax")
def log_softmax(node: Node, builder: Builder) -> Tensor:
    """The logarithm of a softmax, by differences."""
    x = node.input(0)
    return builder.call("extra.log_softmax", x, axes=_softmax_axes(node, x))


@operator("Hardmax")
def hardmax(node: Node, builder: Builder) -> Tensor:
    """1 at the first largest element, 0 elsewhere."""
    x = node.input(0)
    axes = _softmax_axes(node, x)
    if len(axes) > 1 or not axes:
        wanted = x.shape
        start = axes[0] if axes else x.rank
        rows = number(product(wanted[:start]))
        flat = builder.reshape(x, (rows, x.size // max(rows, 1)))
        return builder.reshape(builder.call("onnx.hardmax", flat, axis=1), wanted)
    return x if x.shape[axes[0]] == 0 else builder.call("onnx.hardmax", x, axis=axes[0])


def _cumulative_sum(node: Node, builder: Builder) -> Tensor:
    """Convert CumSum: to the standard operator, whose work is linear, if the axis is known."""
    axis = node.value(1)
    if axis is None:
        return _cumulative("extra.cumulative_sum", node, builder)
    return builder.call(
        "math.cumsum", node.input(0), axis=int(axis.reshape(())),
        exclusive=node.flag("exclusive"), reverse=node.flag("reverse"),
    )  # fmt: skip


def _cumulative(name: str, node: Node, builder: Builder) -> Tensor:
    x, axis = node.input(0), builder.reshape(node.input(1), ())
    return builder.call(
        name, x, axis, exclusive=node.flag("exclusive"), reverse=node.flag("reverse")
    )


CUMULATIVE = (
    Converter("CumSum", 11, _cumulative_sum),
    Converter("CumProd", 26, partial(_cumulative, "extra.cumulative_product")),
)
