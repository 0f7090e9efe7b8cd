"""Signals and texts as numbers: Fourier transforms, windows, mel weights, n-grams, bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import size_of, sizes_of
from tvm_nnef.converters.common.products import matrix_product
from tvm_nnef.converters.common.symbolic import Size, Symbolic, maximum, room
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import Converter, operator


@operator("DFT", since=17)
def dft_17(node: Node, builder: Builder) -> Tensor:
    """A Fourier transform along an axis given by an attribute."""
    return _dft(node, node.axis(node.input(0).rank, 1), builder)


@operator("DFT", since=20)
def dft_20(node: Node, builder: Builder) -> Tensor:
    """A Fourier transform along an axis given by an input."""
    axis = node.optional(2)
    if axis is None:
        return _dft(node, node.input(0).rank - 2, builder)
    if axis.value is not None:
        return _dft(node, int(axis.value.reshape(())) % node.input(0).rank, builder)
    return _dft_at(node, builder.reshape(axis, ()), builder)


def _dft_at(node: Node, axis: Tensor, builder: Builder) -> Tensor:
    """A Fourier transform along an axis known only at run time."""
    x, inverse, onesided = node.input(0), node.flag("inverse"), node.flag("onesided")
    length, sizes = node.optional(1), list(x.shape[:-1])
    same = length is None and not onesided
    if length is None:
        length = builder.call("extra.length_at", axis, as_type="int64", sizes=sizes,
                              mirrored=inverse and onesided)  # fmt: skip
    length = builder.reshape(length, ())
    shape: Sequence[Size] = sizes
    if not same:
        found = builder.call(
            "onnx.spectrum_shape", axis, length, as_type="int64", as_shape=(len(sizes),),
            sizes=sizes, half=onesided and not inverse,
        )  # fmt: skip
        bounds = [maximum(node.bound(position), room(each)) for position, each in enumerate(sizes)]
        shape = (node.known_shape() or sizes_of(found, bounds, builder))[: len(sizes)]
    parts = 1 if inverse and onesided else 2
    spectrum = builder.call(
        "onnx.dft_at", x, axis, length, as_type="float64", as_shape=(*shape, parts),
        shape=list(shape), parts=parts, inverse=inverse, mirrored=inverse and onesided,
    )  # fmt: skip
    return _exactly(spectrum, x, builder)


def _dft(node: Node, axis: int, builder: Builder) -> Tensor:
    x, inverse, onesided = node.input(0), node.flag("inverse"), node.flag("onesided")
    length: Tensor | Size | None = node.optional(1)
    known = node.known_shape()
    if isinstance(length, Tensor):
        length = builder.reshape(length, ())
    else:
        length = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    if isinstance(length, Tensor) and length.value is not None:
        length = int(length.value)
    if known is not None:
        count = known[axis]
    else:
        if isinstance(length, Tensor):
            length = size_of(length, node.bound(axis), builder)
        count = length // 2 + 1 if onesided and not inverse else length
    parts = 1 if inverse and onesided else 2
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 : -1], parts)
    made = _as_product(x, axis, length, shape, builder, inverse=inverse, onesided=onesided)
    if made is not None:
        return made
    if isinstance(length, Symbolic):
        length = builder.dimension(length)
    return _exactly(
        builder.call(
            "onnx.dft", x, length, as_type="float64", as_shape=shape, axis=axis, count=count,
            parts=parts, inverse=inverse, mirrored=inverse and onesided,
        ),
        x, builder,
    )  # fmt: skip


_LARGEST_MATRIX = 1 << 22
"""Elements of a matrix that a model holds for a transform; larger ones are a formula."""


def _as_product(
    x: Tensor, axis: int, length: Tensor | Size, shape: Sequence[Size], builder: Builder, *,
    inverse: bool = False, onesided: bool = False,
) -> Tensor | None:  # fmt: skip
    """A transform of a length that is known as a product of matrices; None for other lengths.

    Its factors are made in double precision; the sums are those of a product in the signal's type.
    """
    size, count, (*_, p), (*_, parts) = x.shape[axis], shape[axis], x.shape, shape
    if not all(isinstance(each, int) for each in (size, count, length, p, parts)):
        return None
    assert isinstance(size, int) and isinstance(count, int) and isinstance(length, int)
    assert isinstance(p, int) and isinstance(parts, int)
    if size * p * count * parts > _LARGEST_MATRIX or not length:
        return None
    factors = _factors(size, count, length, inverse=inverse, mirrored=inverse and onesided)
    matrix = factors[:, :p, :, :parts].reshape(size * p, count * parts)
    wide = "float64" if x.dtype == "float64" else "float32"
    others = [position for position in range(x.rank - 1) if position != axis]
    rows = builder.transpose(builder.cast(x, wide), [*others, axis, x.rank - 1])
    front = [x.shape[position] for position in others]
    rows = builder.reshape(rows, (*front, size * p))
    product = matrix_product(rows, builder.constant(matrix.astype(wide)), builder)
    spectrum = builder.reshape(product, (*front, count, parts))
    back = sorted(range(x.rank - 1), key=[*others, axis].__getitem__)
    return builder.cast(builder.transpose(spectrum, [*back, x.rank - 1]), x.dtype)


def _factors(
    size: int, count: int, length: int, *, inverse: bool, mirrored: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the real and imaginary factors of a signal's elements in its spectrum.

    The second half of a mirrored spectrum is the conjugate of the first, which counts twice.
    """
    step, position = np.arange(size)[:, None], np.arange(count)
    used = 2 * step <= length if mirrored else step < length
    twice = np.where(mirrored & (step > 0) & (2 * step < length), 2.0, 1.0)
    scale = used * (twice / length if inverse else 1.0)
    angle = (2.0 if inverse else -2.0) * np.pi * (position * step % length) / length
    cosines, sines = scale * np.cos(angle), scale * np.sin(angle)
    return np.stack([np.stack([cosines, sines], -1), np.stack([-sines, cosines], -1)], 1)


def _exactly(spectrum: Tensor, x: Tensor, builder: Builder) -> Tensor:
    """A sum over a whole signal, made in double precision, in the type of the signal."""
    return builder.cast(spectrum, x.dtype)


@operator("STFT", since=17)
def stft(node: Node, builder: Builder) -> Tensor:
    """Fourier transforms of the frames of a signal."""
    signal, step, window, length = node.input(0), node.input(1), node.optional(2), node.optional(3)
    if signal.rank == 2:
        signal = builder.unsqueeze(signal, [-1])
    onesided = node.flag("onesided", True)
    known, step = node.known_shape(), builder.reshape(step, ())
    if length is not None and length.value is not None:
        size: Size = int(length.value.reshape(()))
    elif window is not None:
        size = window.shape[0]
    elif known is not None:
        size = 2 * (known[2] - 1) if onesided else known[2]
    elif length is not None:
        size = size_of(length, room(signal.shape[1]), builder)
    else:
        raise Invalid("neither its window nor its frame_length is there")
    frames = known[1] if known else _frames(node, signal.shape[1] - size, step, builder)
    # ONNX's own inference of shapes takes transforms for two-sided where nothing is said.
    shape = (signal.shape[0], frames, size // 2 + 1 if onesided else size, 2)
    if window is None:
        window = builder.full(1.0, (size,), signal.dtype)
    cut = builder.call(
        "onnx.frames", signal, step, window,
        as_shape=(signal.shape[0], shape[1], size, signal.shape[2]), count=shape[1], size=size,
    )  # fmt: skip
    made = _as_product(cut, 2, size, shape, builder)
    if made is not None:
        return made
    spectrum = builder.call(
        "onnx.dft", cut, builder.dimension(size), as_type="float64", as_shape=shape, axis=2,
        count=shape[2], parts=2, inverse=False, mirrored=False,
    )  # fmt: skip
    return _exactly(spectrum, signal, builder)


def _frames(node: Node, room: Size, step: Tensor, builder: Builder) -> Size:
    """Return the number of frames that begin within a length, one each step."""
    if step.value is not None:
        return room // int(step.value) + 1
    steps = builder.binary("math.div", builder.dimension(room), builder.cast(step, "int64"))
    most = room + 1
    frames = builder.binary("math.add", steps, 1)
    return size_of(frames, node.bound(1, most=most), builder, most)


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25.0 / 46.0, 21.0 / 46.0, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}
"""The coefficients of a constant and of two cosines."""


def _window(node: Node, builder: Builder) -> Tensor:
    a, b, c = _WINDOWS[node.operator]
    size = builder.reshape(node.input(0), ())
    (count,) = node.known_shape() or node.sizes(0) or [size_of(size, node.bound(), builder)]
    found = builder.call(
        "onnx.cosine_window", size, as_type="float64", as_shape=(count,), count=count,
        a=a, b=b, c=c, periodic=node.flag("periodic", True),
    )  # fmt: skip
    return builder.cast(found, node.dtype())


WINDOWS = tuple(Converter(name, 17, _window) for name in _WINDOWS)


@operator("MelWeightMatrix", since=17)
def mel_weights(node: Node, builder: Builder) -> Tensor:
    """Triangles on the mel scale, a column each, over the bins of a spectrum."""
    length, rate, low, high = (
        builder.reshape(node.input(position), ()) for position in range(1, 5)
    )
    bins, count = node.known_shape() or (
        size_of(_bins(length, builder), node.bound(0), builder),
        size_of(node.input(0), node.bound(1), builder),
    )
    edges = builder.call(
        "onnx.mel_edges", length, rate, low, high, as_type="int64", as_shape=(count + 2,),
        count=count + 2,
    )  # fmt: skip
    found = builder.call(
        "onnx.mel_triangles", edges, as_type="float64", as_shape=(bins, count), bins=bins
    )
    return builder.cast(found, node.dtype())


def _bins(length: Tensor, builder: Builder) -> Tensor:
    half = builder.binary("math.div", builder.cast(length, "int64"), 2)
    return builder.binary("math.add", half, 1)


@operator("TfIdfVectorizer", since=9)
def tf_idf(node: Node, builder: Builder) -> Tensor:
    """Return the number of occurrences of n-grams of a pool in each row."""
    x = node.input(0)
    pool = node.integers("pool_int64s")
    if pool is None:
        raise Unconvertible("its pool holds strings", "only integers can be converted")
    starts = node.integers("ngram_counts") or []
    positions = node.integers("ngram_indexes") or []
    shortest, longest = node.integer("min_gram_length", 1), node.integer("max_gram_length", 1)
    skips = node.integer("max_skip_count")
    rows = x if x.rank == 2 else builder.reshape(x, (1, x.size))
    size = max(positions) + 1
    counts: Tensor | None = None
    number = 0
    for length, items in _pools(pool, starts):
        amount = len(items)
        wanted = positions[number : number + amount]
        number += amount
        if not shortest <= length <= longest or not amount:
            continue
        found = builder.call(
            "onnx.count_grams", builder.cast(rows, "int64"),
            builder.constant(np.array(items, np.int64).reshape(amount, length)),
            builder.constant(np.array(wanted, np.int64)),
            as_type="float32", as_shape=(rows.shape[0], size), size=size,
            skips=1 if length == 1 else skips + 1,
        )  # fmt: skip
        counts = found if counts is None else builder.binary("math.add", counts, found)
    if counts is None:
        counts = builder.constant(np.zeros((rows.shape[0], size), np.float32))
    weighted = _weighted(node, counts, positions, builder)
    return weighted if x.rank == 2 else builder.reshape(weighted, (size,))


def _pools(pool: Sequence[int], starts: Sequence[int]) -> list[tuple[int, list[list[int]]]]:
    """The n-grams of each length, from 1 on."""
    found = []
    for position, start in enumerate(starts):
        length = position + 1
        end = starts[position + 1] if position + 1 < len(starts) else len(pool)
        items = [list(pool[location : location + length]) for location in range(start, end, length)]
        found.append((length, items))
    return found


def _weighted(node: Node, counts: Tensor, positions: Sequence[int], builder: Builder) -> Tensor:
    mode, weights = node.text("mode"), node.reals("weights")
    scale: Tensor | None = None
    if weights is not None:
        row = np.ones(counts.shape[1], np.float32)
        row[list(positions)] = weights
        scale = builder.constant(row)
    if mode == "IDF":
        counts = builder.cast(builder.binary("math.gt", counts, 0.0, "bool"), "float32")
    if mode == "TF" or scale is None:
        return counts
    return builder.binary("math.mul", counts, scale)
