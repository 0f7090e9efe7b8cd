"""Convolution and deconvolution (sections 4.3.1 and 4.9.2)."""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, number, numbers
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.common.windows import unless_ones
from tvm_nnef.converters.nnef1.operators import broadcasting
from tvm_nnef.converters.nnef1.operators.channels import vector
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.registry import operation
from tvm_nnef.converters.nnef1.operators.windows import (
    Window,
    scaling_down,
    scaling_up,
    with_border,
    with_reverse_border,
)

_BORDERS = ("constant", "replicate", "reflect", "reflect-even")


@operation("conv")
def conv(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``conv``: a convolution, as a correlation."""
    x, weight, bias = operation.operands("input", "filter", "bias")
    return _conv(operation, x, weight, bias, operation.integer("groups"), builder)


@operation("deconv")
def deconv(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``deconv``: the reverse of a convolution."""
    x, weight, bias = operation.operands("input", "filter", "bias")
    return _deconv(operation, x, weight, bias, operation.integer("groups"), builder)


@operation("separable_conv")
def separable_conv(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``separable_conv``: a convolution of each channel by itself, then one of single
    elements.
    """
    x, plane, point, bias = operation.operands("input", "plane_filter", "point_filter", "bias")
    filtered = _conv(operation, x, plane, None, 0, builder)
    groups = _groups(operation.integer("groups"), filtered.shape[1])
    _check_filter(filtered, point, groups, transposed=False)
    _check_points(point)
    return _convolved("conv", filtered, point, bias, None, groups, builder)


@operation("separable_deconv")
def separable_deconv(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``separable_deconv``: the reverse of a separable convolution."""
    x, plane, point, bias = operation.operands("input", "plane_filter", "point_filter", "bias")
    groups = _groups(operation.integer("groups"), _channels(x))
    _check_filter(x, point, groups, transposed=True)
    _check_points(point)
    filtered = _convolved("deconv", x, point, None, None, groups, builder)
    return _deconv(operation, filtered, plane, bias, 0, builder)


def _conv(
    operation: Operation,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: int,
    builder: Builder,
) -> Tensor:
    groups = _groups(groups, _channels(x))
    _check_filter(x, weight, groups, transposed=False)
    window = scaling_down(operation, x, numbers(weight.shape[2:]), 2)
    border = operation.choice("border", _BORDERS)
    if border != "constant":
        x, window = with_border(x, window, border, builder)
    return _convolved("conv", x, weight, bias, window, groups, builder)


def _deconv(
    operation: Operation,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: int,
    builder: Builder,
) -> Tensor:
    wanted = operation.integers("output_shape")
    # The depthwise form has as many groups as the result has channels, known from here alone.
    channels = wanted[1] if len(wanted) == x.rank > 1 else _channels(x)
    groups = _groups(groups, channels)
    _check_filter(x, weight, groups, transposed=True)
    window = scaling_up(operation, x, numbers(weight.shape[2:]), 2)
    shape = [x.shape[0], weight.shape[1] * groups]
    if wanted and list(wanted[:2]) != shape:
        reason = f"'output_shape' begins with {wanted[:2]}, and the result with {shape}"
        raise Unconvertible(reason, "correct one of them", mismatch=True)
    border = operation.choice("border", _BORDERS)
    if border != "constant":
        x, window = with_reverse_border(x, window, border, builder)
    return _convolved("deconv", x, weight, bias, window, groups, builder)


def _convolved(
    name: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    window: Window | None,
    groups: int,
    builder: Builder,
) -> Tensor:
    """Call SkriptND's ``conv`` or ``deconv``; a window of None is an element without padding."""
    out = x.shape[2:] if window is None else window.out
    channels = weight.shape[0] if name == "conv" else weight.shape[1] * groups
    bias_operand, added = _bias(bias, channels, x.rank, builder)
    convolution = builder.call(
        f"nn.{name}", x, weight, *bias_operand, as_shape=(x.shape[0], channels, *out),
        groups=None if groups == 1 else groups,
        stride=None if window is None else unless_ones(window.stride),
        dilation=None if window is None else unless_ones(window.dilation),
        padding=0 if window is None else [*window.before, *window.after],
    )  # fmt: skip
    return (
        convolution
        if added is None
        else broadcasting.binary("math.add", convolution, added, builder)
    )


def _bias(
    bias: Tensor | None, channels: Size, rank: int, builder: Builder
) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """Return SkriptND's operand for a bias, or the tensor to add to the result instead."""
    if bias is None or (bias.value is not None and not bias.rank and not bias.value):
        return (), None
    if bias.rank > rank or any(size != 1 for axis, size in enumerate(bias.shape) if axis != 1):
        shape = f"[{', '.join(map(str, bias.shape))}]"
        reason = f"the bias has the shape {shape}"
        hint = f"it must be 1 in all dimensions but the second one, that of {channels} channels"
        raise Unconvertible(reason, hint, mismatch=True)
    if bias.rank > 1 and bias.shape[1] == channels:
        return (vector(bias, builder),), None
    return (), bias


def _channels(x: Tensor) -> Size:
    return x.shape[1] if x.rank > 1 else 1


def _groups(groups: int, channels: Size) -> int:
    """Return the number of groups; 0 means one for each channel."""
    if groups < 0:
        raise Unconvertible(f"'groups' is {groups}", "give 0 or a positive number")
    return groups or number(channels)


def _check_filter(x: Tensor, weight: Tensor, groups: int, transposed: bool) -> None:
    if weight.rank != x.rank or x.rank < 2:
        reason = f"the input has rank {x.rank}, the filter {weight.rank}"
        raise Unconvertible(reason, "they must be equal, and at least 2", mismatch=True)
    rows, columns = weight.shape[:2]
    if rows % groups != 0:
        reason = f"the first dimension of the filter, {rows}, is not divisible by {groups} groups"
        raise Invalid(reason, "correct the filter or 'groups'", mismatch=True)
    expected = rows if transposed else columns * groups
    if x.shape[1] != expected:
        reason = f"the input has {x.shape[1]} channels, and the filter is for {expected}"
        raise Invalid(reason, "correct the filter or 'groups'", mismatch=True)


def _check_points(weight: Tensor) -> None:
    """Check that the filter of points has single elements: its paddings are automatic, so they are
    0.
    """
    if any(size != 1 for size in weight.shape[2:]):
        reason = f"'point_filter' has the shape [{', '.join(map(str, weight.shape))}]"
        raise Unconvertible(reason, "its spatial dimensions must be 1", mismatch=True)
