"""Export of convolution, deconvolution and pooling, with windows over all dimensions as NNEF 1 has
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.nnef1.export.emitter import Emitter
from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.operators.reductions import power_sum, root
from tvm_nnef.converters.nnef1.export.values import Argument, Value
from tvm_nnef.symbolic.windows import reach, trailing


@dataclass(frozen=True, slots=True)
class Window:
    """A window with an item for each dimension; ``out`` are the dimensions of the result."""

    size: list[int]
    stride: list[int]
    dilation: list[int]
    padding: list[tuple[int, int]]
    out: list[int]

    def attributes(self) -> dict[str, Argument]:
        """Return the attributes that all operations with windows have."""
        return {"padding": self.padding, "stride": self.stride, "dilation": self.dilation}


def _numbers(invocation: Invocation, name: str) -> list[int]:
    """Return a value of the operator's ``@using`` block, which is known for static shapes."""
    return [each for each in invocation.using(name) if isinstance(each, int)]


def _paddings(invocation: Invocation, inside: Sequence[int], size: Sequence[int]) -> Window:
    """Return the window over the dimensions of an input that ``inside`` names."""
    stride, dilation = invocation.numbers("stride"), invocation.numbers("dilation")
    before, total = (_numbers(invocation, name) for name in ("offset", "paddings"))
    is_ceiled = invocation.flag("ceil_mode")
    pairs: list[tuple[int, int]] = []
    out: list[int] = []
    for axis, length in enumerate(inside):
        span = reach(size[axis], dilation[axis])
        free = length + total[axis] - span
        count = (-(-free // stride[axis]) if is_ceiled else free // stride[axis]) + 1
        needed = trailing(length, count, before[axis], stride[axis], span)
        # The last window of a rounded-up number reaches further than the padding.
        after = max(total[axis] - before[axis], int(needed))
        pairs.append((before[axis], after))
        out.append(count)
    return Window(list(size), stride, dilation, pairs, out)


def over_all(window: Window, axes: Sequence[int], shape: Sequence[int]) -> Window:
    """Return the window with an item for each dimension of an input.

    ``axes`` are those it has now.
    """
    rank = len(shape)
    whole = Window([1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank, list(shape))
    for position, axis in enumerate(axes):
        for name in ("size", "stride", "dilation", "padding", "out"):
            getattr(whole, name)[axis] = getattr(window, name)[position]
    return whole


def _filtered(operation: str, invocation: Invocation) -> Exported:
    """Export a convolution or its reverse: transpose to the order of NNEF 1 and back."""
    emitter, rank = invocation.emitter, invocation.rank
    order = invocation.order("data_format")
    x = emitter.transpose(invocation.value(0), order)
    filters = invocation.order("filter_format")
    # Variables are declared in the order of the operands.
    weight = emitter.tensor(emitter.transpose(invocation.value(1), filters))
    bias = invocation.optional(2)
    added = [] if bias is None else [_row(bias, emitter)]
    out = [invocation.out[axis] for axis in order]
    groups = invocation.number("groups")
    attributes = (
        _convolution(invocation, x, weight)
        if operation == "conv"
        else _deconvolution(invocation, x, weight, out)
    )
    if operation == "deconv" and not groups:
        groups = x.shape[1]
    found = emitter.call(operation, x, weight, *added, more=attributes, groups=groups, shape=out)
    return emitter.transpose(found, [order.index(axis) for axis in range(rank)])


def _row(bias: Value, emitter: Emitter) -> Value:
    """Return a vector as a matrix of one row."""
    return bias if not bias.rank else emitter.reshape(bias, [1, *bias.shape])


def _convolution(invocation: Invocation, x: Value, weight: Value) -> dict[str, Argument]:
    return _paddings(invocation, x.shape[2:], weight.shape[2:]).attributes()


def _deconvolution(
    invocation: Invocation, x: Value, weight: Value, out: list[int]
) -> dict[str, Argument]:
    stride, dilation = invocation.numbers("stride"), invocation.numbers("dilation")
    before, total = (_numbers(invocation, name) for name in ("offset", "paddings"))
    pairs = [(first, both - first) for first, both in zip(before, total, strict=True)]
    found: dict[str, Argument] = {"padding": pairs, "stride": stride, "dilation": dilation}
    expected = [
        (size - 1) * stride[axis] + (weight.shape[axis + 2] - 1) * dilation[axis] + 1 - total[axis]
        for axis, size in enumerate(x.shape[2:])
    ]
    if expected != out[2:]:
        found["output_shape"] = out
    return found


def _pooling(invocation: Invocation) -> Window:
    x, axes = invocation.value(0), invocation.axes()
    inside = [x.shape[axis] for axis in axes]
    window = _paddings(invocation, inside, invocation.numbers("size"))
    return over_all(window, axes, x.shape)


def _pool(operation: str, border: str | None, invocation: Invocation) -> Exported:
    window = _pooling(invocation)
    if border is None:
        border = "ignore" if invocation.flag("ignore_border") else "constant"
    return invocation.call(
        operation, invocation.value(0), size=window.size, border=border, more=window.attributes()
    )


def _norm_pool(invocation: Invocation) -> Exported:
    window, emitter = _pooling(invocation), invocation.emitter
    p = invocation.real("p") or 0.0
    powers = power_sum(invocation.value(0), p, emitter)
    total = emitter.call(
        "box", powers, size=window.size, shape=invocation.out, more=window.attributes()
    )
    return root(total, p, emitter)


def _own_window(invocation: Invocation) -> Window:
    """Return the window of a formula of ``nnef1.sknd``, whose paddings are attributes."""
    numbers, axes = invocation.numbers("padding"), invocation.axes()
    count = len(axes)
    window = Window(
        invocation.numbers("size"),
        invocation.numbers("stride"),
        invocation.numbers("dilation"),
        list(zip(numbers[:count], numbers[count:], strict=True)),
        [invocation.out[axis] for axis in axes],
    )
    if "weights" in invocation.operation.attributes:
        order = [prod(window.size[axis + 1 :]) for axis in range(count)]
        if order != invocation.numbers("weights") or axes != sorted(axes):
            raise Inexpressible("NNEF 1 counts the elements of a window in row-major order")
    return over_all(window, axes, invocation.out)


def _debox(invocation: Invocation) -> Exported:
    window = _own_window(invocation)
    return invocation.call(
        "debox", invocation.value(0), size=window.size, output_shape=list(invocation.out),
        more=window.attributes(),
    )  # fmt: skip


def _argmax(invocation: Invocation) -> Exported:
    window = _own_window(invocation)
    return invocation.call(
        "argmax_pool", invocation.value(0), size=window.size, border="ignore",
        more=window.attributes(),
    )  # fmt: skip


def _sample(invocation: Invocation) -> Exported:
    window = _own_window(invocation)
    operands = invocation.value(0), invocation.value(1)
    return invocation.call("sample", *operands, size=window.size, more=window.attributes())


def _desample(invocation: Invocation) -> Exported:
    window = _own_window(invocation)
    return invocation.call(
        "desample", invocation.value(0), invocation.value(1), size=window.size,
        output_shape=list(invocation.out), more=window.attributes(),
    )  # fmt: skip


TABLE: Mapping[str, ExportFunction] = {
    "nn.conv": partial(_filtered, "conv"),
    "nn.deconv": partial(_filtered, "deconv"),
    "nn.max_pool": partial(_pool, "max_pool", "ignore"),
    "nn.sum_pool": partial(_pool, "box", "constant"),
    "nn.avg_pool": partial(_pool, "avg_pool", None),
    "nn.rms_pool": partial(_pool, "rms_pool", None),
    "nn.lp_pool": _norm_pool,
    "nnef1.debox": _debox,
    "nnef1.argmax_pool": _argmax,
    "nnef1.sample": _sample,
    "nnef1.desample": _desample,
}
