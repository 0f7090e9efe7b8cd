"""Box filters, pooling and sampling by indices (sections 4.3.2, 4.3.3 and 4.9.3)."""

from __future__ import annotations

from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1.operators import broadcasting
from tvm_nnef.converters.nnef1.operators.borders import BORDERS
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.registry import operation, table_of
from tvm_nnef.converters.nnef1.operators.windows import (
    Window,
    scaling_down,
    scaling_up,
    window_size,
    with_border,
    with_reverse_border,
)


def _window(operation: Operation, x: Tensor) -> Window:
    return scaling_down(operation, x, window_size(operation, x.rank)).reduced()


@operation("box")
def box(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``box``: the sum, or the mean, of each window."""
    x = operation.tensor("input")
    kind = "avg_pool" if operation.flag("normalize") else "sum_pool"
    return pooled(kind, x, _window(operation, x), _border(operation), builder)


def pooled(kind: str, x: Tensor, window: Window, border: str, builder: Builder) -> Tensor:
    """Return ``sum_pool``, ``avg_pool``, ``rms_pool`` or ``max_pool`` of windows with a border.

    The border 'ignore' excludes elements outside of the input, also from the count of a mean. With
    other borders, zeros are elements for a maximum too.
    """
    zeros_are_skipped = border == "constant" and kind != "max_pool"
    if border != "ignore" and not zeros_are_skipped:
        x, window = with_border(x, window, border, builder)
    same = window.volume == 1 and not any(window.before) and window.inside == window.out
    if same and kind != "rms_pool":
        return builder.call("math.iden", x)
    counted = None if kind in ("sum_pool", "max_pool") or border == "ignore" else False
    return builder.call(
        f"nn.{kind}", x, as_shape=window.shape(x), axes=list(window.axes),
        ignore_border=counted, more=window.geometry(),
    )  # fmt: skip


def _pool(kind: str, operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    return pooled(kind, x, _window(operation, x), _border(operation), builder)


def max_pool(operation: Operation, builder: Builder, border: str) -> Tensor:
    """Return the maximum of each window with a border."""
    x = operation.tensor("input")
    return pooled("max_pool", x, _window(operation, x), border, builder)


POOLS = table_of({kind: partial(_pool, kind) for kind in ("max_pool", "avg_pool", "rms_pool")})


@operation("debox")
def debox(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``debox``, the reverse of a box filter: each element is added to its whole window."""
    x = operation.tensor("input")
    window = scaling_up(operation, x, window_size(operation, x.rank)).reduced()
    border = _border(operation)
    if border not in ("constant", "ignore"):
        x, window = with_reverse_border(x, window, border, builder)
    result = builder.call(
        "nnef1.debox", x, as_shape=window.shape(x), axes=list(window.axes),
        output_size=list(window.out), more=window.geometry(),
    )  # fmt: skip
    if not operation.flag("normalize") or window.volume == 1:
        return result
    return broadcasting.with_number("math.div", result, window.volume, builder)


@operation("argmax_pool")
def argmax_pool(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``argmax_pool``: the position in each window of its first maximum."""
    x = operation.tensor("input")
    return _maxima(operation, x, builder)[1]


@operation("max_pool_with_index")
def max_pool_with_index(operation: Operation, builder: Builder) -> tuple[Tensor, Tensor]:
    """Convert ``max_pool_with_index``: the maximum of each window, and its position there."""
    return _maxima(operation, operation.tensor("input"), builder)


def _maxima(operation: Operation, x: Tensor, builder: Builder) -> tuple[Tensor, Tensor]:
    window, border = _window(operation, x), _border(operation)
    if border != "ignore":
        x, window = with_border(x, window, border, builder)
    largest = pooled("max_pool", x, window, "ignore", builder)
    index = builder.call(
        "nnef1.argmax_pool", x, largest, as_type="int32", as_shape=window.shape(x),
        axes=list(window.axes), weights=window.weights, more=window.geometry(),
    )  # fmt: skip
    return largest, index


@operation("sample")
def sample(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``sample``: the element of each window at a position in it."""
    x, index = operation.tensor("input"), operation.tensor("index")
    window, border = _window(operation, x), _border(operation)
    _check_index(index, window.shape(x), "result")
    if border not in ("constant", "ignore"):
        x, window = with_border(x, window, border, builder)
    return builder.call(
        "nnef1.sample", x, index, as_shape=index.shape, axes=list(window.axes),
        weights=window.weights, more=window.geometry(),
    )  # fmt: skip


@operation("desample")
def desample(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``desample``: each element is added at a position in its window."""
    x, index = operation.tensor("input"), operation.tensor("index")
    operation.choice("border", ("constant",))
    _check_index(index, x.shape, "input")
    window = scaling_up(operation, x, window_size(operation, x.rank)).reduced()
    return builder.call(
        "nnef1.desample", x, index, as_shape=window.shape(x), axes=list(window.axes),
        output_size=list(window.out), weights=window.weights, more=window.geometry(),
    )  # fmt: skip


def _check_index(index: Tensor, shape: tuple[object, ...], other: str) -> None:
    if index.shape != shape:
        found, wanted = (", ".join(map(str, each)) for each in (index.shape, shape))
        reason = f"'index' has the shape [{found}], the {other} [{wanted}]"
        raise Unconvertible(reason, "they must be equal", mismatch=True)


def _border(operation: Operation) -> str:
    return operation.choice("border", BORDERS)
