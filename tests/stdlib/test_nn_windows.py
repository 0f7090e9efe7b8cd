"""Module nn against NumPy: convolution and pooling in every format, rank and kind of window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef

RANDOM = np.random.default_rng(41)
Case = tuple[str, dict[str, Any], list[Any], Any]
DATA = {"NCX": (0, 1), "NXC": (0, -1), "XCN": (-1, -2)}
FILTERS = {**DATA, "CXN": (-1, 0)}


def real(*shape: int) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def stored(x: Any, positions: tuple[int, int]) -> Any:
    """An array in the order NCX, stored in another one, with N and C at the given positions."""
    return np.moveaxis(x, (0, 1), positions).copy()


def spans(
    extents: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int] | None = None,
    align: str = "UPPER",
    ceil: bool = False,
) -> tuple[list[int], list[int]]:
    """Padding in front and number of windows, for each dimension, as in section 4.4.1."""
    front, count = [], []
    d = len(extents)
    for n, (extent, k, s, step) in enumerate(zip(extents, size, stride, dilation, strict=True)):
        reach = (k - 1) * step + 1
        if padding is None:
            total = (math.ceil(extent / s) if ceil else extent // s) * s - s + reach - extent
            lead = total // 2 if align == "UPPER" else math.ceil(total / 2)
        else:
            total, lead = padding[n] + padding[d + n], padding[n]
        steps = (extent + total - reach) / s
        front.append(lead)
        count.append((math.ceil(steps) if ceil else math.floor(steps)) + 1)
    return front, count


def cells(extent: int, count: int, stride: int, start: int) -> tuple[slice, slice]:
    """Which windows have their cell at ``start`` inside of the dimension, and where it is."""
    first = max(0, -(start // stride))
    last = min(count - 1, (extent - 1 - start) // stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    begin = first * stride + start
    return slice(first, last + 1), slice(begin, last * stride + start + 1, stride)


def taps(
    extents: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    front: Sequence[int],
    count: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """For each cell of a window: its position, the windows that have it, what is in them there."""
    for tap in np.ndindex(*size):
        pairs = [
            cells(extent, n, s, j * step - lead)
            for extent, n, s, j, step, lead in zip(
                extents, count, stride, tap, dilation, front, strict=True
            )
        ]
        yield tap, tuple(window for window, _ in pairs), tuple(position for _, position in pairs)


def convolved(x: Any, w: Any, groups: int, windows: Any, back: Sequence[int] | None = None) -> Any:
    """Convolution of NCX arrays; with the dimensions ``back``, the transposed one, onto them."""
    x, w = np.float64(x), np.float64(w)
    stride, dilation, front, count = windows
    extents = x.shape[2:] if back is None else back
    full = (slice(None), slice(None))
    n, c = w.shape[0] // groups, w.shape[1]
    grouped = w.reshape(groups, n, *w.shape[1:])
    if back is None:
        y = np.zeros((x.shape[0], groups, n, *count))
        x = x.reshape(x.shape[0], groups, c, *extents)
    else:
        y = np.zeros((x.shape[0], groups, c, *back))
        x = x.reshape(x.shape[0], groups, n, *x.shape[2:])
    for tap, windows_, positions in taps(extents, w.shape[2:], stride, dilation, front, count):
        source, target = (positions, windows_) if back is None else (windows_, positions)
        rule = "bgc...,gnc->bgn..." if back is None else "bgn...,gnc->bgc..."
        read, written = (*full, slice(None), *source), (*full, slice(None), *target)
        weights: tuple[Any, ...] = (..., *tap)
        y[written] += np.einsum(rule, x[read], grouped[weights])
    return y.reshape(y.shape[0], y.shape[1] * y.shape[2], *y.shape[3:])


def convolution(
    x: Any,
    w: Any,
    *,
    data: str = "NCX",
    filter: str = "NCX",
    groups: int = 1,
    bias: Any = None,
    transposed: bool = False,
    output_size: list[int] | None = None,
    **attributes: Any,
) -> Case:
    """A case of NCX arrays ``x`` and ``w``, stored in the given formats."""
    d = x.ndim - 2
    stride = attributes.get("stride", [1] * d)
    dilation = attributes.get("dilation", [1] * d)
    padding = attributes.get("padding")
    align = attributes.get("padding_align", "UPPER")
    count = groups or x.shape[1]
    if transposed:
        reach = [(k - 1) * step + 1 for k, step in zip(w.shape[2:], dilation, strict=True)]
        total = [
            r - s if padding is None else padding[n] + padding[d + n]
            for n, (r, s) in enumerate(zip(reach, stride, strict=True))
        ]
        up = align == "LOWER"
        front = [-(-t // 2) if up else t // 2 for t in total] if padding is None else padding[:d]
        back = output_size or [
            (extent - 1) * s + r - t
            for extent, s, r, t in zip(x.shape[2:], stride, reach, total, strict=True)
        ]
        y = convolved(x, w, count, (stride, dilation, front, x.shape[2:]), back)
    else:
        ceil = attributes.get("ceil_mode", False)
        front, number = spans(x.shape[2:], w.shape[2:], stride, dilation, padding, align, ceil)
        y = convolved(x, w, count, (stride, dilation, front, number))
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * d)
    given = {"groups": groups, "data_format": data, "filter_format": filter, **attributes}
    given["output_size"] = output_size
    operands = [stored(x, DATA[data]), stored(w, FILTERS[filter])]
    operator = "nn.deconv" if transposed else "nn.conv"
    operands += [] if bias is None else [bias]
    return operator, given, operands, stored(y, DATA[data])


EXTENTS: dict[int, tuple[int, ...]] = {1: (7,), 2: (5, 6), 3: (4, 3, 5)}
SIZES: dict[int, tuple[int, ...]] = {1: (3,), 2: (2, 3), 3: (2, 3, 1)}


def channels(groups: int, transposed: bool) -> tuple[int, int, int]:
    """Channels of the data, then the first two dimensions of the filter."""
    if groups == 0:
        return (3, 3, 2) if transposed else (3, 6, 1)
    return (4, 4, 3) if transposed and groups == 1 else (4, 4, 2) if groups == 2 else (4, 3, 4)


def formats(transposed: bool) -> Iterator[Case]:
    for d, groups in itertools.product(EXTENTS, (1, 2, 0)):
        ic, n, c = channels(groups, transposed)
        x, w = real(2, ic, *EXTENTS[d]), real(n, c, *SIZES[d])
        bias = real(c * (groups or ic) if transposed else n)
        pairs = list(itertools.product(DATA, FILTERS))
        for number, (data, filter) in enumerate(pairs):
            # all pairs in two dimensions, each format in the others and of groups
            if (d == 2 and groups == 1) or number % 5 == 0:
                yield convolution(
                    x, w, data=data, filter=filter, groups=groups, transposed=transposed,
                    bias=bias if number % 2 else None, stride=[2, 1, 1][:d], padding=[1] * 2 * d,
                )  # fmt: skip


def windows() -> Iterator[dict[str, Any]]:
    """Attributes for two dimensions."""
    for align, ceil, stride in itertools.product(
        ("UPPER", "LOWER"), (False, True), ([1, 1], [2, 3], [5, 4])
    ):
        yield {"padding_align": align, "ceil_mode": ceil, "stride": stride}
    for dilation in ([1, 2], [3, 1]):
        yield {"dilation": dilation}
        yield {"dilation": dilation, "padding_align": "LOWER", "stride": [1, 2]}
        yield {"dilation": dilation, "padding": [2, 1, 0, 3], "stride": [2, 1]}
    yield {"padding": [0, 0, 0, 0]}
    yield {"padding": [4, 0, 0, 5], "ceil_mode": True, "stride": [3, 2]}
    yield {"padding": [-1, 0, 2, 1]}
    yield {"padding": [1, 2, -2, 0], "stride": [1, 2]}


def attributes() -> Iterator[Case]:
    for d in EXTENTS:
        x, w = real(1, 2, *EXTENTS[d]), real(3, 2, *SIZES[d])
        for given in windows() if d == 2 else ({}, {"padding_align": "LOWER"}):
            yield convolution(x, w, **given)
    x, w = real(2, 2, 5, 6), real(2, 1, 3, 2)
    yield convolution(x, w, groups=0, dilation=[2, 2], stride=[1, 2], data="NXC", filter="XCN")
    # dimensions of 1, a filter larger than the input, no element at all
    yield convolution(real(1, 1, 1, 1), real(1, 1, 1, 1))
    yield convolution(real(1, 1, 1, 1), real(2, 1, 3, 3), padding=[1, 1, 1, 1])
    yield convolution(real(1, 2, 2, 3), real(1, 2, 5, 4), padding=[2, 1, 2, 1])
    yield convolution(real(2, 3), real(4, 3), bias=real(4))
    yield convolution(real(0, 2, 3), real(3, 2, 2), padding=[0, 0])
    yield convolution(real(2, 0, 3), real(3, 0, 2), padding=[0, 0], bias=real(3))


def transposed_attributes() -> Iterator[Case]:
    for d in EXTENTS:
        x, w = real(1, 2, *EXTENTS[d]), real(2, 3, *SIZES[d])
        yield convolution(x, w, transposed=True)
        yield convolution(x, w, transposed=True, stride=[2] * d, padding_align="LOWER")
    x, w = real(1, 2, 3, 4), real(2, 3, 3, 2)
    for stride, dilation in itertools.product(([1, 1], [2, 3], [4, 5]), ([1, 1], [2, 3])):
        yield convolution(x, w, transposed=True, stride=stride, dilation=dilation)
        yield convolution(
            x, w, transposed=True, stride=stride, dilation=dilation, padding=[1, 0, 0, 1]
        )
    for size in ([6, 10], [7, 11], [7, 12]):
        yield convolution(
            x, w, transposed=True, stride=[2, 3], padding=[1, 1, 0, 0], output_size=size
        )
    yield convolution(real(1, 1, 1, 1), real(1, 1, 1, 1), transposed=True)
    yield convolution(real(2, 3), real(3, 4), transposed=True, bias=real(4))
    yield convolution(real(0, 2, 3), real(2, 3, 2), transposed=True, padding=[0, 0])


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
def test_every_format_of_convolution(transposed: bool, agree: Any) -> None:
    agree(list(formats(transposed)))


@pytest.mark.slow
def test_every_window_of_convolution(agree: Any) -> None:
    agree(list(attributes()))


@pytest.mark.slow
def test_every_window_of_transposed_convolution(agree: Any) -> None:
    agree(list(transposed_attributes()))


def pooled(x: Any, axes: Sequence[int], windows_: Any, kind: str) -> Any:
    """The windows of an array, brought together along some of its axes."""
    stride, dilation, front, count, size = windows_
    axes = [axis % x.ndim for axis in axes]
    extents = [x.shape[axis] for axis in axes]
    shape = list(x.shape)
    for axis, number in zip(axes, count, strict=True):
        shape[axis] = number
    seen = np.full((math.prod(size), *shape), np.nan)
    valid = np.zeros(seen.shape, bool)
    index = [slice(None)] * x.ndim
    for number, (_, target, source) in enumerate(
        taps(extents, size, stride, dilation, front, count)
    ):
        to, position = index.copy(), index.copy()
        for axis, one, other in zip(axes, target, source, strict=True):
            to[axis], position[axis] = one, other
        seen[number][tuple(to)] = x[tuple(position)]
        valid[number][tuple(to)] = True
    with np.errstate(all="ignore"):
        if kind == "max":
            return np.where(valid, seen, -np.inf).max(0)
        total = np.where(valid, seen, 0).sum(0)
        return {"sum": total, "mean": total / valid.sum(0), "all": total / len(seen)}[kind]


def pooling(x: Any, axes: Sequence[int], size: Sequence[int], **given: Any) -> Iterator[Case]:
    """A case of each pooling."""
    k = len(axes)
    stride, dilation = given.get("stride", [1] * k), given.get("dilation", [1] * k)
    extents = [x.shape[axis] for axis in axes]
    front, count = spans(
        extents, size, stride, dilation, given.get("padding"),
        given.get("padding_align", "UPPER"), given.get("ceil_mode", False),
    )  # fmt: skip
    found = (stride, dilation, front, count, size)
    every = {"axes": list(axes), "size": list(size), **given}
    yield "nn.max_pool", every, [x], pooled(x, axes, found, "max")
    yield "nn.sum_pool", every, [x], pooled(x, axes, found, "sum")
    yield "nn.avg_pool", every, [x], pooled(x, axes, found, "mean")
    yield "nn.avg_pool", {**every, "ignore_border": False}, [x], pooled(x, axes, found, "all")


SPACE = {1: real(2, 3, 7), 2: real(2, 3, 5, 6), 3: real(1, 2, 4, 3, 5)}


def poolings() -> Iterator[Case]:
    x = SPACE[2]
    for number, given in enumerate(windows()):
        # the largest or the mean
        yield list(pooling(x, [2, 3], [2, 3], **given))[2 * (number % 2)]
    for d, y in SPACE.items():
        yield from list(pooling(y, range(2, d + 2), SIZES[d]))[::2]
        yield from pooling(y, range(1, d + 1), SIZES[d], padding=[1] * 2 * d, ceil_mode=True,
                           stride=[2] * d)  # fmt: skip
    yield from pooling(x, [-1, 2], [3, 2], stride=[2, 1], padding=[1, 0, 0, 1])
    yield from pooling(x, [0], [2], padding=[1, 1])
    yield from pooling(x, [1, 3], [3, 2], dilation=[1, 2], padding=[2, 0, 0, 1])
    yield from pooling(x, [], [])
    # windows outside of the input, dimensions of 1 and 0
    yield from pooling(real(1, 1, 3), [2], [2], padding=[3, 4])
    yield from pooling(real(1, 1, 3), [2], [2], padding=[3, 2], stride=[2], dilation=[2])
    yield from pooling(real(1, 1, 1, 1), [2, 3], [1, 1])
    yield from pooling(real(1, 1, 1, 1), [2, 3], [3, 2], padding=[1, 1, 1, 0])
    yield from pooling(real(0, 2, 3), [2], [2], padding=[0, 0])
    yield from pooling(real(4), [0], [2], stride=[2])


def norms_of_windows() -> Iterator[Case]:
    for size, given in (
        ([2, 3], {"padding": [1, 0, 1, 2]}),
        ([3, 2], {"stride": [2, 2], "ceil_mode": True}),
        ([2, 2], {"dilation": [2, 3], "padding_align": "LOWER"}),
    ):
        x = SPACE[2]
        squares = list(pooling(np.float64(x) ** 2, [2, 3], size, **given))
        for _, attributes, _, mean in squares[2:]:
            yield "nn.rms_pool", attributes, [x], np.sqrt(mean)
        for p in (1.0, 2.5):
            powers = list(pooling(abs(np.float64(x)) ** p, [2, 3], size, **given))
            _, attributes, _, total = powers[1]
            yield "nn.lp_pool", {**attributes, "p": p}, [x], total ** (1 / p)


def norms_of_windows_of_every_rank() -> Iterator[Case]:
    for d, x in {**SPACE, 0: real(2, 3)}.items():
        axes, size = list(range(2, d + 2)), [2] * d
        squares = list(pooling(np.float64(x) ** 2, axes, size, padding=[1, 0] * d))
        _, (_, attributes, _, total), (_, ignoring, _, mean), _ = squares
        yield "nn.lp_pool", {**attributes, "p": 2.0}, [x], np.sqrt(total)
        yield "nn.rms_pool", ignoring, [x], np.sqrt(mean)
    none = real(0, 2, 3)
    window = {"axes": [2], "size": [2], "padding": [0, 0]}
    yield "nn.rms_pool", window, [none], np.zeros((0, 2, 2))
    yield "nn.lp_pool", {**window, "p": 1.0}, [none], np.zeros((0, 2, 2))


def special_windows() -> Iterator[Case]:
    x = real(1, 3, 4, 5)
    x[0, 0] = -np.inf
    x[0, 1, 1, 2] = np.inf
    x[0, 2, 3, 0] = np.nan
    for padding in ([0, 0, 0, 0], [1, 1, 1, 0]):
        yield from pooling(x, [2, 3], [2, 2], padding=padding)
        yield from pooling(x, [1, 2], [2, 2], padding=padding, stride=[2, 1])


@pytest.mark.slow
def test_negative_padding_is_halved_as_the_dialect_divides(agree: Any) -> None:
    """The tools divide toward zero, or away from it, where the draft rounds down, or up."""
    x = np.arange(1.0, 8.0, dtype=np.float32)[None, None]
    ones = np.ones((1, 1, 1), np.float32)
    # two windows of one element, a total padding of -3
    for head, upper, lower in (("", [3, 6], [2, 5]), ("# dialect: tools\n", [2, 5], [3, 6])):
        for align, taken in (("UPPER", upper), ("LOWER", lower)):
            given = {"stride": [3], "padding_align": align}
            wanted = np.array([[taken]], np.float32)
            window = {"size": [1], **given}
            agree(
                [
                    ("nn.conv", given, [x, ones], wanted),
                    ("nn.max_pool", window, [x], wanted),
                    ("nn.avg_pool", window, [x], wanted),
                ],
                head=head,
            )


@pytest.mark.slow
def test_every_window_of_pooling(agree: Any) -> None:
    agree([*poolings(), *norms_of_windows(), *norms_of_windows_of_every_rank()])


@pytest.mark.slow
def test_pooling_of_what_is_not_finite(agree: Any) -> None:
    agree(list(special_windows()))


CONVOLUTION = """import nn;
graph G {
    @input { x: real[1, 2, 4, 4]; }
    @output { y: real; }
    @variable { w: real[3, 2, 3, 3]; }
    @compose { y = nn.conv{padding=1}(x, w); }
}
"""


@pytest.mark.parametrize("route", ["reference", "formula", "mapped"])
def test_what_is_not_finite_in_a_filter_is_not_multiplied_with_the_padding(route: Any) -> None:
    x, w = real(1, 2, 4, 4), real(3, 2, 3, 3)
    w[0, 1, 0, 1], w[1, 0, 2, 2], w[2] = np.inf, np.nan, 1.0
    case = convolution(x, w, padding=[1, 1, 1, 1])
    weights = {"main.G.w": w}
    if route == "reference":
        (found,) = tvm_nnef.evaluate(CONVOLUTION, x, variables=weights)
    else:
        module = tvm_nnef.from_nnef(CONVOLUTION, route=route, variables=weights)
        (found,) = tvm_nnef.build(module, progress=False)(x)
    np.testing.assert_allclose(np.asarray(found), case[3], rtol=2e-5, atol=2e-6)
    assert np.isfinite(found[0, 0, 0]).all() and np.isinf(found[0, 0, 1:]).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("route", ["reference", "formula"])
def test_nor_is_what_is_not_finite_in_a_filter_of_the_run(route: str, judge: Any) -> None:
    x, w = real(2, 2, 4, 4), real(3, 2, 3, 3)
    w[0, 1, 0, 1], w[1, 0, 2, 2] = -np.inf, np.nan
    expected = convolution(x, w, padding=[1, 1, 1, 1])[3]
    back = convolution(x, w[:2], transposed=True, padding=[1, 1, 1, 1])[3]
    rows = [("nn.conv{padding=1}(x, w)", expected), ("nn.deconv{padding=1}(x, v)", back)]
    judge({"x": x, "w": w, "v": w[:2]}, rows, route)
