"""Elements that neighbours share: repeated in registers, in all sizes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, tirx

from tvm_nnef.tvm_support.compat import runtime_tensor

TARGETS = ["native", {"kind": "llvm", "mcpu": "x86-64-v3"}, "llvm"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS, ids=["native", "avx2", "unknown"])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("extent", [1, 3, 16, 37, 64])
def test_repeated_along_the_last_axis(kernels, extent, count, target):
    (x,) = kernels.values((3, 5, extent))
    mod = kernels.module(lambda x: relax.op.repeat(x, count, axis=2), x.shape)
    found = kernels.run(kernels.scheduled(mod, target), [x], target)
    np.testing.assert_array_equal(found, x.repeat(count, 2))


@pytest.mark.parametrize("dtype", ["int8", "float16", "int64", "bool", "bfloat16"])
def test_any_dtype(kernels, dtype):
    x = (np.arange(5 * 37) % 100).reshape(5, 37).astype(dtype)
    mod = kernels.module(lambda x: relax.op.repeat(x, 2, axis=1), x.shape, dtype=dtype)
    found = kernels.run(kernels.scheduled(mod), [x])
    np.testing.assert_array_equal(found.astype("float32"), x.repeat(2, 1).astype("float32"))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_beside_elements_of_their_own(kernels, count):
    x, y = kernels.values((3, 5, 37), (3, 5, 37 * count))
    build = lambda x, y: relax.op.add(relax.op.repeat(x, count, axis=2), y)  # noqa: E731
    mod = kernels.scheduled(kernels.module(build, x.shape, y.shape))
    np.testing.assert_array_equal(kernels.run(mod, [x, y]), x.repeat(count, 2) + y)
    assert "held" in mod.script()


def test_both_axes_and_what_follows(kernels):
    x, y = kernels.values((2, 7, 19), (2, 14, 38))

    def doubled(x, y):
        return relax.op.nn.relu(relax.op.add(relax.op.repeat(relax.op.repeat(x, 2, 1), 2, 2), y))

    mod = kernels.scheduled(kernels.module(doubled, x.shape, y.shape))
    expected = np.maximum(x.repeat(2, 1).repeat(2, 2) + y, 0)
    np.testing.assert_array_equal(kernels.run(mod, [x, y]), expected)
    assert kernels.strategies(mod) == {"cpu.elementwise"}
    assert "held" in mod.script()


def shuffled(x, count):
    """Channels as pixels: two reshapes around a permutation."""
    n, c, h, w = x.ty.shape
    split = relax.op.reshape(x, (n, c // (count * count), count, count, h, w))
    moved = relax.op.permute_dims(split, [0, 1, 4, 2, 5, 3])
    return relax.op.reshape(moved, (n, c // (count * count), h * count, w * count))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("count", [2, 3])
def test_pixel_shuffle_is_one_interleaved_kernel(kernels, count, dynamic):
    channels = 2 * count * count
    sizes = [tirx.Var(n, "int64") for n in "hw"] if dynamic else [6, 21]
    module = kernels.module(lambda x: shuffled(x, count), (1, channels, *sizes))
    mod = kernels.scheduled(module)
    assert mod.script().count("T.prim_func") == 1
    assert "held" in mod.script()
    main = kernels.compiled(mod)
    for height, width in ((6, 21), (1, 1), (3, 40)) if dynamic else ((6, 21),):
        (x,) = kernels.values((1, channels, height, width))
        split = x.reshape(1, 2, count, count, height, width).transpose(0, 1, 4, 2, 5, 3)
        expected = split.reshape(1, 2, height * count, width * count)
        np.testing.assert_array_equal(main(runtime_tensor(x)).numpy(), expected)
