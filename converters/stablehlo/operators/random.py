"""Converters of random numbers, which depend on a seed or on a state alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.operation import Operation, sizes_of
from tvm_nnef.converters.stablehlo.operators.elementwise import bitwise, shifted
from tvm_nnef.converters.stablehlo.registry import operation

Words: TypeAlias = "list[Tensor]"
"""Tensors of uint32."""


@operation("rng")
def rng(each: Operation, builder: Builder) -> Tensor:
    """Return uniform or normal numbers; the same in every run, others for each operation."""
    low, high, shape_of = each.inputs
    shape, dtype = tuple(sizes_of(shape_of)), each.dtype()
    if np.dtype(dtype).kind == "b":
        raise Unconvertible("there are no random truth values", "compare random numbers")
    kind = "uniform" if each.text("rng_distribution") == "UNIFORM" else "normal"
    drawn = builder.call(
        f"rand.{kind}", as_type="float32", as_shape=shape, shape=shape, seed=each.seed
    )
    real = dtype if np.dtype(dtype).kind not in "iu" else "float64"
    a, b = (builder.cast(one, real) for one in (low, high))
    factor = builder.binary("math.sub", b, a) if kind == "uniform" else b
    wide = builder.binary("math.mul", builder.cast(drawn, real), factor)
    return builder.cast(builder.binary("math.add", wide, a), dtype)


@operation("rng_bit_generator")
def rng_bit_generator(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Return random bits and the next state.

    The default algorithm is Philox, XLA's default on CPUs.
    """
    (state,) = each.inputs
    shape, dtype = each.static_shape(1), each.dtype(1)
    if state.dtype != "uint64" or state.shape not in ((2,), (3,)):
        reason = f"a state of {state.dtype}{list(state.shape)} is not supported"
        raise Unconvertible(reason, "use a state of two or three elements of uint64")
    if np.dtype(dtype).kind not in "iu":
        raise Unconvertible(f"there are no random bits of {dtype}", "generate unsigned integers")
    algorithm = _three_fry if each.text("rng_algorithm") == "THREE_FRY" else _philox
    bits, count = algorithm(state, shape, dtype, builder)
    return [_next_state(state, count, builder), builder.cast(bits, dtype)]


def _element(state: Tensor, index: int, builder: Builder) -> Tensor:
    return builder.squeeze(builder.slice(state, 0, index, index + 1), [0])


def _halves(x: Tensor, builder: Builder) -> Words:
    """Return the lower and the upper 32 bits of uint64."""
    upper = shifted(x, builder.constant(32, "uint64"), builder)
    return [builder.cast(x, "uint32"), builder.cast(upper, "uint32")]


def _joined(halves: Words, builder: Builder) -> Tensor:
    lower, upper = halves
    wide = builder.binary(
        "math.mul", builder.cast(upper, "uint64"), builder.constant(1 << 32, "uint64")
    )
    return builder.binary("math.add", wide, builder.cast(lower, "uint64"))


def _sum(left: Tensor, right: Tensor, upper: Tensor, builder: Builder) -> tuple[Tensor, Tensor]:
    """Return the 64-bit sum of two numbers, and the upper 64 bits with its carry."""
    total = builder.binary("math.add", left, right)
    carry = builder.cast(builder.binary("math.lt", total, left, "bool"), "uint64")
    return total, builder.binary("math.add", carry, upper)


def _counters(state: Tensor, count: int, builder: Builder) -> tuple[Tensor, Tensor]:
    """Return the 128-bit numbers from the state on.

    Their upper half is the last element of the state.
    """
    row = builder.call(
        "layout.range", as_type="int32", as_shape=(count,), first=0, last=count, stride=1
    )
    upper = _element(state, 2 if state.shape[0] == 3 else 0, builder)
    return _sum(_element(state, 1, builder), builder.cast(row, "uint64"), upper, builder)


def _next_state(state: Tensor, count: int, builder: Builder) -> Tensor:
    step = builder.constant(count, "uint64")
    key, upper = (_element(state, index, builder) for index in (0, int(state.shape[0]) - 1))
    low, high = _sum(_element(state, 1, builder), step, upper, builder)
    found = [key, low, high][: int(state.shape[0])]
    return builder.concat([builder.unsqueeze(one, [0]) for one in found], 0)


_Bits: TypeAlias = "tuple[Tensor, int]"
"""Random bits, and the number of counters that they use."""


def _philox(state: Tensor, shape: tuple[int, ...], dtype: str, builder: Builder) -> _Bits:
    """Return bits by Philox 4x32 with 10 rounds (Salmon et al., 'Parallel Random Numbers',
    2011).
    """
    wide = np.dtype(dtype).itemsize == 8
    total = int(product(shape))
    count = -(-total // (2 if wide else 4))
    key = _halves(_element(state, 0, builder), builder)
    low, high = _counters(state, count, builder)
    words = [*_halves(low, builder), *_halves(high, builder)]
    for step in range(10):
        if step:
            raised = zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)
            key = [_added(one, constant, builder) for one, constant in raised]
        low0, high0 = _product(words[0], 0xD2511F53, builder)
        low1, high1 = _product(words[2], 0xCD9E8D57, builder)
        words = [
            _xor(_xor(high1, words[1], builder), key[0], builder), low1,
            _xor(_xor(high0, words[3], builder), key[1], builder), low0,
        ]  # fmt: skip
    if wide:
        words = [_joined(words[:2], builder), _joined(words[2:], builder)]
    columns = builder.concat([builder.unsqueeze(one, [1]) for one in words], 1)
    flat = builder.reshape(columns, (count * len(words),))
    return builder.reshape(builder.slice(flat, 0, 0, total), shape), count


def _xor(left: Tensor, right: Tensor, builder: Builder) -> Tensor:
    return bitwise("xor", left, right, builder)


def _added(x: Tensor, constant: int, builder: Builder) -> Tensor:
    return builder.binary("math.add", x, builder.constant(constant, "uint32"))


def _product(x: Tensor, factor: int, builder: Builder) -> Words:
    """Return the lower and the upper 32 bits of a product."""
    wide = builder.cast(x, "uint64")
    return _halves(builder.binary("math.mul", wide, builder.constant(factor, "uint64")), builder)


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _three_fry(state: Tensor, shape: tuple[int, ...], dtype: str, builder: Builder) -> _Bits:
    """Return bits by Threefry 2x32 with 20 rounds.

    A counter gives elements of both halves of a dimension.
    """
    wide = np.dtype(dtype).itemsize == 8
    split = _split_dimension(shape)
    half = list(shape)
    if not wide and shape:
        half[split] = -(-shape[split] // 2)
    count = int(product(half))
    low, _ = _counters(state, count, builder)
    key = _halves(_element(state, 0, builder), builder)
    found = _three_fry_words(_halves(low, builder), key, builder)
    if wide:
        return builder.reshape(_joined(found, builder), shape), count
    if not shape:
        return builder.reshape(found[0], ()), count
    parts = [builder.reshape(one, half) for one in found]
    pairs = builder.concat([builder.unsqueeze(one, [split + 1]) for one in parts], split + 1)
    half[split] *= 2
    return builder.slice(builder.reshape(pairs, half), split, 0, shape[split]), count


def _split_dimension(shape: Sequence[int]) -> int:
    """Return the first even dimension, else the largest one."""
    even = [axis for axis, size in enumerate(shape) if size % 2 == 0]
    return even[0] if even else max(range(len(shape)), key=shape.__getitem__, default=0)


def _three_fry_words(words: Words, key: Words, builder: Builder) -> Words:
    third = _xor(key[0], key[1], builder)
    keys = [*key, _xor(third, builder.constant(0x1BD11BDA, "uint32"), builder)]
    add = partial(builder.binary, "math.add")
    first, second = (add(word, one) for word, one in zip(words, keys[:2], strict=True))
    for group in range(5):
        for positions in _ROTATIONS[group % 2]:
            first = add(first, second)
            second = _xor(first, _rotated(second, positions, builder), builder)
        first = add(first, keys[(group + 1) % 3])
        second = _added(add(second, keys[(group + 2) % 3]), group + 1, builder)
    return [first, second]


def _rotated(x: Tensor, positions: int, builder: Builder) -> Tensor:
    """Return the bits rotated to the left."""
    left = builder.binary("math.mul", x, builder.constant(1 << positions, "uint32"))
    right = shifted(x, builder.constant(32 - positions, "uint32"), builder)
    return builder.binary("math.add", left, right)
