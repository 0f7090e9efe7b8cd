"""Every strategy on every form of kernel that it knows, in awkward sizes, beside unscheduled loops.

A row of ``TABLE`` is a form of kernel, and the sizes that it runs in: 1 and 2, primes below and
around the widths of tiles, one less and one more than a number of whole vectors, images smaller
than a window. Each is built twice from the same PrimFuncs: by the strategies, and by TVM
unscheduled. The strategy must be the one that the row names. A new strategy needs rows: a test
compares the names in the table with those in the code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tvm import relax, te, tirx

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.verify import verify_kernels
from tvm_nnef.lower.sorting import sorting_function
from tvm_nnef.schedules.cpu import fallback
from tvm_nnef.schedules.machine import cpu_model
from tvm_nnef.tvm_support.build import runs_here
from tvm_nnef.tvm_support.compat import prim_functions, update_functions
from tvm_nnef.tvm_support.function_attributes import Sort

pytestmark = pytest.mark.slow

op, nn = relax.op, relax.op.nn

SIZES = (1, 2, 3, 5, 7, 13, 15, 17, 31, 33, 61, 67, 131)
"""A prime number of them, so that steps through them meet each one: for vectors of 4, 8 and 16."""

SHORT = (1, 2, 3, 5, 7, 13, 17)
"""Sizes of images and batches, a prime number of them, too."""


STEPS = (1, 2, 4, 8, 11, 10)
"""Steps through lists of 3, 7, 9 and 13 sizes that miss none."""


def mixed(*lists, count=5, first=0):
    """Tuples of one size from each list, so that each occurs beside others."""
    pairs = list(zip(STEPS[: len(lists)], lists, strict=True))
    return [
        tuple(sizes[n * step % len(sizes)] for step, sizes in pairs)
        for n in range(first + 1, first + count + 1)
    ]


def weights(*shape, dtype="float32"):
    generator = np.random.default_rng(sum(shape))
    made = generator.standard_normal(shape)
    return relax.const((made * 9 if "int" in dtype else made).astype(dtype))


def formula(function):
    """A tensor expression as something that builds from inputs."""
    return lambda *inputs: relax.BlockBuilder.current().call_te(function, *inputs)


@dataclass(frozen=True)
class Convolution:
    """A convolution whose results have the sizes of a row: what builds it, and its inputs."""

    window: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    groups: int = 1
    constant: bool = True
    follows: str = "bias"

    def __call__(self, batch, channels, outputs, *extents):
        rank = len(self.window)
        inputs = [
            max(1, (extent - 1) * self.stride + (size - 1) * self.dilation + 1 - self.before
                - self.after)
            for extent, size in zip(extents, self.window, strict=True)
        ]  # fmt: skip
        channels, outputs = channels * self.groups, outputs * self.groups
        shape = (outputs, channels // self.groups, *self.window)

        def build(x, *given):
            filters = weights(*shape) if self.constant else given[0]
            y = getattr(nn, f"conv{rank}d")(
                x, filters, strides=[self.stride] * rank, dilation=[self.dilation] * rank,
                padding=[self.before] * rank + [self.after] * rank, groups=self.groups,
            )  # fmt: skip
            if self.follows == "bias":
                return nn.relu(op.add(y, weights(1, outputs, *[1] * rank)))
            return op.multiply(op.sigmoid(y), y) if self.follows == "swish" else y

        data = (batch, channels, *inputs)
        return build, [data] if self.constant else [data, shape]


def depthwise(window, multiplier=1, **options):
    def kernel(batch, channels, *extents):
        made = Convolution(window, groups=channels, **options)
        return made(batch, 1, multiplier, *extents)

    return kernel


def product(constant=True, across=False, dtype="float32", follows=True):
    """A product of matrices of rows, steps and columns."""

    def kernel(rows, steps, columns):
        shape = (columns, steps) if across else (steps, columns)

        def build(x, *given):
            right = weights(*shape, dtype=dtype) if constant else given[0]
            y = op.matmul(x, op.permute_dims(right) if across else right)
            return nn.relu(op.add(y, weights(columns))) if follows else y

        inputs = [((rows, steps), dtype), (shape, dtype)]
        return build, inputs[:1] if constant else inputs

    return kernel


def small_integers(x):
    data = op.subtract(op.astype(x, "int32"), relax.const(7))
    return op.matmul(data, weights(int(x.ty.shape[-1]), 37, dtype="int32"))


def small_windows(x):
    data, filters = op.astype(x, "int32"), weights(9, int(x.ty.shape[1]), 3, 2, dtype="int32")
    return nn.conv2d(data, filters, strides=[2, 1], padding=[1, 1, 1, 1], dilation=[1, 2])


def coded(bits, block, zero=True):
    """A product with weights of few bits: a scale and a zero for each block of steps."""

    def kernel(rows, blocks, columns):
        generator = np.random.default_rng(rows + columns)
        codes = generator.integers(0, 1 << bits, (blocks, block, columns)).astype("uint8")
        zeros = generator.integers(0, 1 << bits, (blocks, 1, columns)).astype("float32")
        scales = generator.uniform(0.1, 0.2, (blocks, 1, columns)).astype("float32")

        def build(x):
            codes_of = op.astype(relax.const(codes), "float32")
            centred = op.subtract(codes_of, relax.const(zeros if zero else zeros * 0))
            weight = op.reshape(
                op.multiply(centred, relax.const(scales)), (blocks * block, columns)
            )
            return nn.relu(op.add(op.matmul(x, weight), weights(columns)))

        return build, [(rows, blocks * block)]

    return kernel


def batched(across):
    def kernel(batch, rows, steps, columns):
        shape = (batch, columns, steps) if across else (batch, steps, columns)
        order = [0, 2, 1] if across else [0, 1, 2]
        return lambda x, w: op.matmul(x, op.permute_dims(w, order)), [(batch, rows, steps), shape]

    return kernel


def pooling(name, size, stride=1, dilation=1, padding=0, more=0, **options):
    """A pooling over images whose results are about as large as the sizes of a row."""

    def kernel(batch, channels, *extents):
        inputs = [
            max(1, (extent - 1) * stride + (size - 1) * dilation + 1 - 2 * padding + more)
            for extent in extents
        ]
        rank = len(extents)
        shape = (batch, channels, *inputs)
        if options.get("layout", "NC")[-1] == "C":
            shape = (batch, *inputs, channels)
        return lambda x: getattr(nn, f"{name}_pool{rank}d")(
            x, [size] * rank, [stride] * rank, [padding] * (2 * rank), [dilation] * rank, **options
        ), [shape]

    return kernel


def windows(combine, size, stride):
    """A formula: what combines each window of rows of images, which no operator does."""

    def kernel(channels, height, width):
        def function(x):
            steps = [te.reduce_axis((0, size), name) for name in "ab"]
            return te.compute(
                (channels, height, width),
                lambda c, i, j: combine(
                    te.exp(x[c, i * stride + steps[0], j * stride + steps[1]]) * 0.5, steps
                ),
            )

        sides = [(extent - 1) * stride + size for extent in (height, width)]
        return formula(function), [(channels, *sides)]

    return kernel


def of(build, *, dtype="float32", inputs=1):
    """A kernel of inputs that have the sizes of a row as their shape."""
    return lambda *shape: (build, [(shape, dtype)] * inputs)


def norm(x):
    size = int(x.ty.shape[-1])
    return nn.layer_norm(x, weights(size), weights(size), [-1])


def row_sum(function):
    """A formula: the sum of a function of the elements of rows, and what follows it."""

    def reduced(x):
        rows, columns = map(int, x.shape)
        step = te.reduce_axis((0, columns), "k")
        total = te.compute((rows,), lambda i: te.sum(function(x[i, step]), step), name="total")
        return te.compute((rows, columns), lambda i, j: x[i, j] * 0.5 - total[i])

    return formula(reduced)


def gathered(axis):
    """The last, the first and the last but one of the elements along an axis."""

    def build(x):
        last = int(x.ty.shape[axis]) - 1
        return op.take(x, relax.const([last, 0, max(last - 1, 0)]), axis)

    return build


def guarded(x):
    """Copies of parts of rows, chosen by conditions at positions that are multiples of nothing."""
    rows, columns = map(int, x.shape)

    def element(i, j):
        inside = te.all(j >= 1, j < columns + 1, i >= 2)
        other = te.if_then_else(j < 3, x[i * 0, j * 0] * 2.0, tirx.const(3.0, "float32"))
        return te.if_then_else(inside, x[i - 2, j - 1], other)

    return te.compute((rows + 2, columns + 5), element)


def sampled(limited, combine):
    """A formula: for all channels, four neighbours of the position that a grid names, weighted."""

    def kernel(channels, height, width, rows, columns):
        def function(image, grid):
            steps = [te.reduce_axis((0, 2), name) for name in "ab"]

            def element(c, i, j):
                positions = [te.floor(grid[n, i, j]).astype("int64") + steps[n] for n in range(2)]
                weight = grid[0, i, j] * grid[1, i, j] + steps[0].astype("float32")
                if limited:
                    near = [tirx.max(tirx.min(p, e - 1), 0)
                            for p, e in zip(positions, (height, width), strict=True)]  # fmt: skip
                    return combine(image(c, *near), steps)
                inside = te.all(
                    *(p >= 0 for p in positions), positions[0] < height, positions[1] < width
                )
                value = te.if_then_else(
                    inside, weight * image(c, *positions), te.const(0, "float32")
                )
                return combine(value, steps)

            total = te.compute((channels, rows, columns), element, name="total")
            return te.compute(total.shape, lambda c, i, j: total[c, i, j] * 2.0 + grid[0, i, j])

        return formula(function), [(channels, height, width), (2, rows, columns)]

    return kernel


def two_windows(channels, height, width):
    """A formula: the largest elements and the sums of powers of windows, mixed."""

    def function(x):
        steps = [te.reduce_axis((0, 2), name) for name in "abcd"]
        shape = (channels, height, width)

        def part(combine, value, p, q, name):
            def element(c, i, j):
                return combine(value(x[c, i * 2 + p, j * 2 + q]), [p, q])

            return te.compute(shape, element, name=name)

        maximum = part(te.max, lambda e: e, *steps[:2], "largest")
        total = part(te.sum, te.exp, *steps[2:], "total")
        return te.compute(shape, lambda *i: maximum(*i) * 0.25 + total(*i) * 0.75)

    return formula(function), [(channels, 2 * height, 2 * width)]


def turned_windows(channels, height, width):
    """A formula: sums of windows of images whose channels are last, and first in the result."""

    def function(x):
        steps = [te.reduce_axis((0, 3), name) for name in "ab"]

        def element(c, i, j):
            return te.sum(te.exp(x[i * 2 + steps[0], j * 2 + steps[1], c]), steps)

        return te.compute((channels, height, width), element)

    return formula(function), [(2 * height + 1, 2 * width + 1, channels)]


def middle_softmax(n, c, w):
    """A formula: a softmax along an axis whose rows are not contiguous."""

    def function(x):
        steps = [te.reduce_axis((0, c), name) for name in "ab"]
        top = te.compute((n, w), lambda i, q: te.max(x[i, steps[0], q], steps[0]), name="top")
        power = te.compute(x.shape, lambda i, j, q: te.exp(x[i, j, q] - top[i, q]), name="power")
        total = te.compute((n, w), lambda i, q: te.sum(power[i, steps[1], q], steps[1]))
        return te.compute(x.shape, lambda i, j, q: power[i, j, q] / total[i, q])

    return formula(function), [(n, c, w)]


def two_results(rows, columns):
    """A formula: sums of rows and of columns."""

    def function(x):
        steps = [te.reduce_axis((0, extent), "k") for extent in (columns, rows)]
        return (
            te.compute((rows,), lambda i: te.sum(x[i, steps[0]], steps[0]), name="rows"),
            te.compute((columns,), lambda j: te.sum(te.exp(x[steps[1], j]), steps[1]), name="cols"),
        )

    def build(x):
        made = relax.BlockBuilder.current().emit(formula(function)(x))
        return [relax.TupleGetItem(made, n) for n in range(2)]

    return build, [(rows, columns)]


def ordered(lower):
    """A formula in text, in a certain order, of an input of the shape of a row."""

    def kernel(*shape):
        bounds = ", ".join(f"{name} < {n}" for name, n in zip("ijk", shape, strict=False))
        steps = "; ".join(f"{step}, {bounds}" for step in lower.split("; "))
        kind = f"real{list(shape)}"
        text = f"""operator f {{ @input {{ x: {kind}; }} @output {{ y: {kind}; }}
            @lower {{ {steps}; }} }}
            graph G {{ @input {{ x: {kind}; }} @output {{ y: {kind}; }}
            @compose {{ y = f(x); }} }}"""
        mod = tvm_nnef.from_nnef(tvm_nnef.load_model(text))
        return called(*prim_functions(mod).values()), [shape]

    return kernel


def called(function, dtype="float32", shape=None):
    """What builds a call of a PrimFunc whose result is like its input, or of a shape."""

    def build(x):
        variable = relax.BlockBuilder.current().add_func(function, "kernel")
        made = relax.TensorType(x.ty.shape if shape is None else shape, dtype)
        return op.call_tir(variable, relax.Tuple([x]), made)

    return build


def first_positions(part, dtype="float32"):
    """The indices of the first elements of rows in order: all, or a part of them."""

    def kernel(*shape):
        extents = [*shape[:-1], -(-shape[-1] // part)]
        function = sorting_function(shape, extents[-1], dtype, Sort(largest=part > 1))
        return called(function, "int32", extents), [(shape, dtype)]

    return kernel


def arg_reductions(axis, largest=True):
    def kernel(*shape):
        find = op.argmax if largest else op.argmin
        return lambda x: find(x, axis), [shape]

    return kernel


TILE, ROWS, CODES = "cpu.register_tile", "cpu.row_reduction", "cpu.code_product"
ELEMENTS, SAMPLING, PARTS = "cpu.elementwise", "cpu.sampling", "cpu.parts"
FALLBACK, SEQUENTIAL = "cpu.fallback", "cpu.sequential"
SELECTION = "cpu.sort"

BATCHES = (1, 2, 3)
CHANNELS = (1, 2, 3, 5, 7, 13, 17, 33, 67)
WIDE = (8, 9, 13, 15, 17, 31, 33)
"""Widths of results that one vector fits in, so that windows slide along it."""

IMAGES = mixed(BATCHES, CHANNELS, SIZES, SHORT, SHORT, count=3, first=1)
OTHERS = mixed(BATCHES, CHANNELS, SIZES[3:], SHORT[1:], SHORT[1:], count=3, first=5)
MAPS = mixed(BATCHES, CHANNELS, SHORT, WIDE, count=4)
MATRICES = mixed(SIZES, SIZES, SIZES[1:], count=9)
CODED = mixed(SIZES, SHORT[2:], (64, 192, 128), count=5)
PAIRS = mixed(SIZES, SIZES, count=9)
VOLUMES = mixed(SHORT, SIZES, SIZES)
GRIDS = mixed(SHORT, SHORT, SHORT[1:], SHORT, SIZES[1:])

TABLE = {
    TILE: {
        "conv 1x1": (Convolution((1, 1)), OTHERS),
        "conv 3x3": (Convolution((3, 3), before=1, after=1), IMAGES),
        "conv without padding": (Convolution((3, 2), follows="none"), OTHERS),
        "conv 7x7, stride 2": (Convolution((7, 7), 2, before=3, after=3), IMAGES),
        "conv, stride 3": (Convolution((3, 3), 3, before=1, follows="swish"), OTHERS),
        "conv 1x1, stride 2": (Convolution((1, 1), 2), [(1, 2, 3, 5, 7), *IMAGES]),
        "conv, dilation 2": (Convolution((3, 3), 1, 2, 2, 2), IMAGES),
        "conv, dilation 3, stride 2": (Convolution((2, 3), 2, 3, 3, 1), OTHERS),
        "conv, more padding than image": (Convolution((3, 3), before=4, after=5), IMAGES),
        "conv, long window": (
            Convolution((1, 31), before=15, after=15), mixed(BATCHES, SHORT, SHORT, SHORT, SHORT)),
        "conv of one result": (
            Convolution((3, 2), follows="none"), mixed(BATCHES, SHORT[1:], (1,), SHORT, WIDE)),
        "conv of computed weights": (Convolution((3, 3), before=1, constant=False), OTHERS),
        "grouped conv": (Convolution((3, 3), before=1, after=1, groups=3), IMAGES),
        "grouped conv, stride 2, dilation 2": (Convolution((2, 2), 2, 2, 1, groups=2), OTHERS),
        "depthwise conv, narrow": (
            depthwise((3, 3), before=1, after=1), mixed(BATCHES, SIZES, SHORT, SHORT[:5])),
        "depthwise conv, multiplied": (
            depthwise((3, 3), 3, before=1), mixed(BATCHES, SHORT[2:], SHORT, SHORT[:3])),
        "conv1d": (Convolution((3,), 2, before=1), mixed(BATCHES, CHANNELS, SIZES[4:], SIZES)),
        "conv3d": (
            Convolution((3, 2, 3), before=1),
            mixed(BATCHES, SHORT, SIZES[4:], SHORT, SHORT, SHORT, count=3)),
        "gemm": (product(), MATRICES),
        "gemm of inputs": (product(constant=False), MATRICES),
        "gemm, transposed": (product(across=True), MATRICES[:5]),
        "gemm of inputs, transposed": (
            product(constant=False, across=True), [each for each in MATRICES if each[0] > 4]),
        "gemv": (product(), [(1, *each[1:]) for each in MATRICES]),
        "gemm of int32": (product(dtype="int32", follows=False), MATRICES[:5]),
        "gemm of float64": (product(False, dtype="float64", follows=False), MATRICES[5:9]),
        "gemm of int8": (of(small_integers, dtype="int8"), [pair for pair in PAIRS if pair[1] > 1]),
        "conv of int8": (of(small_windows, dtype="int8"), mixed(BATCHES, SHORT[1:], SHORT, SHORT)),
        "batched": (batched(False), mixed(BATCHES, SIZES, SIZES, SIZES[1:])),
        "batched, transposed": (batched(True), mixed(BATCHES, SIZES[4:], SIZES, SIZES[1:])),
        "pooling, channels last": (
            pooling("max", 3, 2, padding=1, layout="NHWC"),
            mixed(BATCHES, SIZES[1:], SHORT, SHORT)),
        "max pooling, last window outside": (pooling("max", 3, 2, ceil_mode=True, more=1), MAPS),
        "means of images": (
            of(lambda x: op.mean(nn.conv2d(x, weights(7, int(x.ty.shape[1]), 1, 1)), [2, 3])),
            mixed(BATCHES, SHORT, SHORT, SHORT, count=3)),
        "sums of columns": (of(lambda x: op.sum(x, 0)), mixed(SIZES, SIZES[1:], count=9)),
        "maxima of columns": (of(lambda x: op.max(x, 0)), mixed(SIZES, SIZES[1:])),
        "sums of powers in windows": (windows(te.sum, 3, 2), mixed(SHORT, SHORT, SIZES)),
        "maxima of powers in windows": (windows(te.max, 2, 3), mixed(SHORT, SHORT, SIZES)),
        "depthwise conv": (depthwise((3, 3), before=1, after=1), MAPS),
        "depthwise conv, stride 2": (depthwise((5, 5), stride=2, before=2, after=2), MAPS),
        "depthwise conv, dilation 3": (depthwise((3, 2), dilation=3, before=3), MAPS),
        "conv of few results": (
            Convolution((3, 3), before=1, after=1, stride=2),
            mixed(BATCHES, SHORT, (1, 2, 3), SHORT, WIDE)),
        "max pooling": (pooling("max", 3, padding=1), MAPS),
        "max pooling, stride 2": (pooling("max", 3, 2, padding=1), MAPS),
        "max pooling, stride 3": (pooling("max", 2, 3, padding=1), MAPS),
        "max pooling, dilation 2": (pooling("max", 3, 1, 2, 2), MAPS),
        "mean pooling": (pooling("avg", 3, 2, padding=1), MAPS),
        "mean pooling, padding counted": (
            pooling("avg", 2, 1, padding=1, count_include_pad=True), MAPS),
        "max pooling of sequences": (
            pooling("max", 3, 2, padding=1), mixed(BATCHES, CHANNELS, WIDE)),
    },
    ROWS: {
        "largest of rows": (arg_reductions(1), PAIRS),
        **{
            name: (of(function), PAIRS)
            for name, function in {
                "softmax": lambda x: nn.softmax(x, -1),
                "log softmax": lambda x: nn.log_softmax(x, -1),
                "layer norm": norm,
                "RMS norm": lambda x: nn.rms_norm(x, weights(int(x.ty.shape[-1])), [-1]),
                "variance": lambda x: op.variance(x, -1),
                "sum": lambda x: op.sum(x, -1),
                "maximum": lambda x: op.max(x, -1, keepdims=True),
                "product": lambda x: op.prod(x, -1),
                "sum of all": op.sum,
                "sum of exponentials": row_sum(te.exp),
            }.items()
        },
        "minimum of int32": (of(lambda x: op.min(x, -1), dtype="int32"), PAIRS),
        "sum of float64": (of(lambda x: op.sum(x, -1), dtype="float64"), PAIRS),
        "mean of two axes": (of(lambda x: op.mean(x, [1, 2])), mixed(SIZES, SHORT, SIZES)),
        "sum of one column": (of(lambda x: op.sum(x, 0)), [(extent, 1) for extent in SIZES]),
        "conv of one result, narrow": (
            Convolution((3, 2), follows="none"), mixed(BATCHES, SHORT[1:], (1,), SHORT, (2, 3, 5))),
        "dots": (
            product(constant=False, across=True, follows=False),
            [(rows % 3 + 1, *rest) for rows, *rest in MATRICES]),
    },
    ELEMENTS: {
        **{
            name: (of(function), PAIRS)
            for name, function in {
                "exp": op.exp, "erf": op.erf, "tanh": op.tanh, "sigmoid": op.sigmoid,
                "sin": op.sin, "gelu": nn.gelu, "log": lambda x: op.log(op.abs(x)),
                "concat along rows": lambda x: op.concat([x, op.negative(x), x], -1),
                "concat along columns": lambda x: op.concat([x, op.exp(x)], 0),
                "transpose": op.permute_dims,
                "pad": lambda x: nn.pad(x, [1, 2, 3, 0]),
                "tile": lambda x: op.tile(x, (2, 3)),
                "repeat": lambda x: op.repeat(x, 2, 1),
                "flip": lambda x: op.flip(x, 1),
                "every second": lambda x: op.strided_slice(x, [0, 1], [0, 0], [99, 99], [2, 2]),
                "flatten a transposition": lambda x: op.flatten(op.permute_dims(x)),
                "guards": formula(guarded),
                "gather of rows": gathered(0), "gather of columns": gathered(1),
            }.items()
        },
        "broadcast": (lambda *shape: (op.multiply, [shape, shape[1:]]), PAIRS),
        "rotate": (of(lambda x: op.permute_dims(x, [2, 0, 1])), mixed(SIZES, SHORT, SIZES)),
        "transpose of int8": (of(op.permute_dims, dtype="int8"), PAIRS),
        "choice": (of(lambda x, y: op.where(op.less(x, y), x, op.exp(y)), inputs=2), PAIRS),
        "cast": (of(lambda x: op.astype(x, "int8"), dtype="int32"), PAIRS),
        "resize": (
            of(lambda x: op.image.resize2d(x, (7, 30))), mixed(BATCHES, SHORT, SHORT, SIZES)),
    },
    SAMPLING: {
        "guarded": (sampled(False, te.sum), GRIDS),
        "limited": (sampled(True, te.sum), GRIDS),
        "largest": (sampled(True, te.max), GRIDS),
    },
    PARTS: {
        "least of columns": (arg_reductions(0, largest=False), PAIRS),
        "largest in the middle": (arg_reductions(1), VOLUMES),
        "two kinds of windows": (two_windows, mixed(SHORT, SHORT, SIZES)),
        "softmax along another axis": (middle_softmax, mixed(SHORT, SIZES, SIZES)),
        "two results": (two_results, PAIRS),
    },
    SEQUENTIAL: {
        "sums of rows": (ordered("y[i,j] = x[i,j]; y[i,j] += y[i,|j-1|]"), PAIRS),
        "sums of columns": (ordered("y[i,j] = x[i,j]; y[i,j] += y[|i-1|,j]"), PAIRS),
        "max so far": (ordered("y[i,j] = x[i,j]; y[i,j] >= y[i,|j-1|]"), PAIRS),
        "filter in the middle": (
            ordered("y[i,j,k] = x[i,j,k]; y[i,j,k] += 0.5 * y[i,|j-1|,k]"), VOLUMES),
        "diagonals": (ordered("y[i,j,k] = x[i,j,k]; y[i,j,k] += y[i,|j-1|,|k+1|]"), VOLUMES),
        "next element": (ordered("y[i,j,k] = x[i,j,k]; y[i,j,k] += y[i,j,|k+1|]"), VOLUMES),
        "half way back": (ordered("y[i,j] = x[i,j]; y[i,j] += j > 0 ? y[i,j/2] : 0.0"), PAIRS),
    },
    SELECTION: {
        "order of rows": (first_positions(1), PAIRS),
        "first ones of rows": (first_positions(3), PAIRS),
        "first ones of int32": (first_positions(2, "int32"), PAIRS),
    },
    CODES: {
        "gemm of 4 bits": (coded(4, 32), CODED),
        "gemm of 2 bits, short blocks": (coded(2, 16), CODED),
        "gemm of 8 bits, no zeros": (coded(8, 64, zero=False), CODED),
        "gemv of 4 bits": (coded(4, 32), [(1, *each[1:]) for each in CODED[:4]]),
    },
    FALLBACK: {
        "quotients of int64": (
            of(lambda x, y: op.floor_divide(x, op.add(op.abs(y), relax.const(1, "int64"))),
               dtype="int64", inputs=2),
            PAIRS),
        "windows of turned images": (turned_windows, mixed(SHORT[3:], SHORT, SHORT)),
    },
}  # fmt: skip
"""By strategy: the forms of kernels that it knows, what builds each from sizes, and the sizes."""

FORMS = [(strategy, name) for strategy, forms in TABLE.items() for name in forms]


def kernels_of(strategy, form, numbers=slice(None)):
    """By name: what builds a form in each of its sizes, or in those of some numbers."""
    make, sizes = TABLE[strategy][form]
    return {f"f{n}": make(*sizes[n]) for n in range(len(sizes))[numbers]}


@pytest.mark.parametrize(
    ("target", "numbers"),
    [
        ("native", slice(0, None, 3)),
        pytest.param("native", slice(1, None, 3), marks=pytest.mark.slow),
        pytest.param("native", slice(2, None, 3), marks=pytest.mark.slow),
        pytest.param("llvm", slice(1, 6, 4), marks=pytest.mark.slow),
        pytest.param("x86-64-v2", slice(0, 6, 4), marks=pytest.mark.slow),
        pytest.param("x86-64-v3", slice(2, 7, 4), marks=pytest.mark.slow),
        pytest.param("x86-64-v4", slice(3, 8, 4), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("strategy", "form"), FORMS)
def test_a_strategy_changes_no_result(kernels, strategy, form, target, numbers):
    if not runs_here(kernels.resolved(target)):
        pytest.skip(f"this CPU lacks instructions of {target}")
    cases = kernels_of(strategy, form, numbers)
    mod = kernels.functions(cases)
    fused = kernels.fused(mod, target)
    made = run_phases(fused, kernels.resolved(target), "schedule", "schedule")
    # What is packed with the weights is known only from the module as it was written.
    references = (fused, mod) if strategy == TILE else (fused,)
    kernels.compare(references, kernels.machine(made, target), cases)
    taken = kernels.strategies_by_function(made)
    # Rows of a few elements are cheaper as lanes of a tile.
    expected = {strategy, TILE} if strategy == ROWS else {strategy}
    others = {
        TABLE[strategy][form][1][int(name[1:])]: strategies
        for name, strategies in taken.items()
        if not strategies & expected
    }
    assert not others
    assert set().union(*taken.values()) <= {*expected, ELEMENTS}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", TABLE)
def test_the_fallback_changes_no_result_of_any_form(kernels, strategy):
    cases = {
        f"{name}{position}": case
        for position, form in enumerate(TABLE[strategy])
        for name, case in kernels_of(strategy, form, slice(position % 3, position % 3 + 1)).items()
    }
    fused = kernels.fused(kernels.functions(cases), "llvm")
    target = kernels.resolved("llvm")
    functions = prim_functions(fused)
    plans = {name: fallback.match(f, cpu_model(target)) for name, f in functions.items()}
    assert {plan.strategy for plan in plans.values()} <= {FALLBACK, "ordered"}
    made = update_functions(fused, {n: plan.emit(functions[n]) for n, plan in plans.items()})
    kernels.compare([fused], kernels.machine(made, "llvm"), cases)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", TABLE)
def test_all_forms_agree_on_an_emulated_cpu(kernels, strategy, emulator):
    cases = {
        f"f{number}": kernel
        for number, form in enumerate(TABLE[strategy])
        for kernel in kernels_of(strategy, form, slice(1, 2)).values()
    }
    target = kernels.resolved("aarch64")
    fused = kernels.fused(kernels.functions(cases), "aarch64")
    made = run_phases(fused, target, "schedule", "schedule")
    code = run_phases(made, target, "bytecode", "code")
    verify_kernels(fused, made, emulator("aarch64").kernels(code, [*prim_functions(fused)]))


@pytest.mark.rotated(1)
def test_every_strategy_has_rows():
    """The table names the strategies of the code; those of loops and attention have own tests."""
    files = Path(schedules.__file__).parent.rglob("*.py")
    names = {name for file in files for name in re.findall(r'"(cpu\.\w+)"', file.read_text())}
    assert names == {*TABLE, "cpu.loop", "cpu.attention"}
    assert all(forms for forms in TABLE.values())
