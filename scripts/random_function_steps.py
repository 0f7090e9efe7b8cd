"""The steps of random functions of JAX: each chooses an operation, its operands and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from random_functions import Function, Step, Unfit, step

Unary = Callable[[Any], Any]
EXACT: list[Unary] = [jnp.negative, jnp.abs, jnp.sign, jnp.square, jax.nn.relu]
ROUNDED: list[Unary] = [
    jnp.tanh, jnp.sin, jnp.cos, jnp.cbrt, jnp.arctan, jnp.arcsinh, jax.nn.sigmoid, jax.nn.softplus,
    jax.nn.gelu, jax.nn.silu, jax.scipy.special.erf, lax.logistic,
    lambda x: jnp.exp(jnp.clip(x, -5, 5)), lambda x: jnp.expm1(jnp.clip(x, -5, 5)),
    lambda x: jnp.exp2(jnp.clip(x, -5, 5)), lambda x: jnp.sqrt(jnp.abs(x)),
    lambda x: jnp.log1p(jnp.abs(x)), lambda x: jnp.log2(jnp.abs(x) + 0.1),
    lambda x: lax.rsqrt(jnp.abs(x) + 0.5), lambda x: jnp.tan(jnp.clip(x, -1, 1)),
    lambda x: lax.erf_inv(jnp.tanh(x) * 0.9), lambda x: jnp.arccos(jnp.tanh(x) * 0.9),
    lambda x: lax.lgamma(jnp.abs(x) + 0.5), lambda x: lax.digamma(jnp.abs(x) + 0.5),
    lambda x: jax.nn.softmax(x, -1) if x.ndim else x,
]  # fmt: skip
STEPWISE: list[Unary] = [
    jnp.floor, jnp.ceil, jnp.round, jnp.trunc, jnp.isnan, jnp.isfinite, jnp.signbit,
    lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
]  # fmt: skip
EQUAL_SHAPES: list[Callable[[Any, Any], Any]] = [
    lax.shift_right_logical, lax.div, lax.rem, lax.shift_left, lax.shift_right_arithmetic,
]  # fmt: skip


@step
def exact_function(make: Function) -> Step:
    """A function without rounding."""
    x = make.value("fi")
    return make.one_of(EXACT), [x], make.exact(x)


@step
def rounded_function(make: Function) -> Step:
    """A function of a real."""
    return make.one_of(ROUNDED), [make.value("f")], False


@step
def another_function(make: Function) -> Step:
    """One more function of a real: they are most of a model."""
    return rounded_function(make)


@step
def stepwise_function(make: Function) -> Step:
    """A rounding, or a question about a real."""
    return make.one_of(STEPWISE), [make.value("f", exact=True)], True


@step
def bits(make: Function) -> Step:
    """A function of the bits of an integer."""
    functions: list[Unary] = [lambda x: ~x, lax.population_count, lax.clz, lambda x: x * 3 + 1]
    return make.one_of(functions), [make.value("i")], True


@step
def arithmetic(make: Function) -> Step:
    """Arithmetic of two operands that broadcast."""
    x, y = make.pair("fi")
    functions = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum]
    return make.one_of(functions), [x, y], make.exact(x, y)


@step
def quotient(make: Function) -> Step:
    """A function of two reals that rounds."""
    functions = [
        lambda x, y: x / (jnp.abs(y) + 0.5), lambda x, y: jnp.arctan2(x, jnp.abs(y) + 0.5),
        lambda x, y: jnp.power(jnp.abs(x) + 0.5, jnp.clip(y, -2, 2)), jnp.hypot, jnp.logaddexp,
    ]  # fmt: skip
    return make.one_of(functions), [*make.pair("f")], False


@step
def exact_quotient(make: Function) -> Step:
    """A function of two reals that jumps."""
    functions = [
        jnp.divide, jnp.fmod, jnp.remainder, jnp.floor_divide, jnp.nextafter, jnp.copysign,
    ]  # fmt: skip
    return make.one_of(functions), [*make.pair("f", exact=True)], False


@step
def integer_arithmetic(make: Function) -> Step:
    """Bits, shifts by any number, quotients by any number."""
    x, y = make.pair("i")
    if make.chance(0.5):
        function = make.one_of(EQUAL_SHAPES)
        return lambda x, y: function(*jnp.broadcast_arrays(x, y)), [x, y], True
    functions = [jnp.bitwise_and, jnp.bitwise_or, jnp.bitwise_xor, jnp.floor_divide, jnp.remainder]
    return make.one_of(functions), [x, y], True


@step
def comparison(make: Function) -> Step:
    """A comparison of two operands."""
    functions = [
        jnp.equal, jnp.not_equal, jnp.less, jnp.greater, jnp.less_equal, jnp.greater_equal,
    ]  # fmt: skip
    return make.one_of(functions), [*make.pair("fib", exact=True)], True


@step
def logic(make: Function) -> Step:
    """Logic on booleans."""
    functions = [jnp.logical_and, jnp.logical_or, jnp.logical_xor, lambda x, y: ~x]
    return make.one_of(functions), [*make.pair("b")], True


@step
def choice(make: Function) -> Step:
    """A choice between two operands."""
    x, y = make.pair("fib")
    return jnp.where, [make.value("b"), x, y], make.exact(x, y)


@step
def clamp(make: Function) -> Step:
    """Values within limits."""
    x = make.value("fi")
    low, high = sorted(make.below(6) for _ in range(2))
    return lambda x: jnp.clip(x, low, high), [x], make.exact(x)


@step
def special(make: Function) -> Step:
    """Infinity and NaN among the values."""

    def function(x: Any) -> Any:
        lower = jnp.where(x < -1, jnp.asarray(jnp.nan, x.dtype), x)
        return jnp.where(x > 1, jnp.asarray(jnp.inf, x.dtype), lower)

    return function, [make.value("f", exact=True)], True


@step
def conversion(make: Function) -> Step:
    """Another dtype."""
    dtype = str(make.one_of(["float32"] * 3 + ["float16", "bfloat16", "bool", "int32", "uint32",
                                               "int16", "int8", "uint8"]))  # fmt: skip

    def function(x: Any) -> Any:
        if jnp.issubdtype(x.dtype, jnp.floating) and "int" in dtype:
            x = jnp.clip(jnp.nan_to_num(x), 0, 100)
        return x.astype(dtype)

    return function, [make.value(exact=True)], True


@step
def bit_pattern(make: Function) -> Step:
    """The bits of elements of 32 bits as those of another dtype."""
    x = make.value("fi", exact=True)
    if make.values[x].dtype.itemsize != 4:
        raise Unfit
    dtype = jnp.int32 if make.values[x].kind == "f" else jnp.uint8
    return lambda x: lax.bitcast_convert_type(x, dtype), [x], True


@step
def precision(make: Function) -> Step:
    """Fewer bits of exponent and fraction."""
    return lambda x: lax.reduce_precision(x, 5, 7), [make.value("f", exact=True)], False


# --- elements moved


@step
def reshape(make: Function) -> Step:
    """Another shape."""
    x = make.value()
    size = int(np.prod(make.values[x].shape))
    shape: list[int] = []
    for _ in range(make.below(3)):
        divisors = [d for d in range(1, size + 1) if size % d == 0][:8] if size else [0, 1, 2]
        shape.append(make.one_of(divisors))
        size = size // shape[-1] if shape[-1] else 0
    shape += [size] if size or 0 not in shape else []
    return lambda x: x.reshape(shape), [x], make.exact(x)


@step
def transpose(make: Function) -> Step:
    """The axes in another order."""
    x = make.value(rank=2)
    order = tuple(map(int, make.random.permutation(len(make.values[x].shape))))
    return lambda x: x.transpose(order), [x], make.exact(x)


@step
def flip(make: Function) -> Step:
    """Some axes backwards."""
    x = make.value(rank=1)
    axes = make.axes(x)
    return lambda x: jnp.flip(x, axes), [x], make.exact(x)


@step
def part(make: Function) -> Step:
    """Every so many elements of a range, which may be empty."""
    x = make.value(rank=1)
    slices = []
    for size in make.values[x].shape:
        low, high = sorted(make.below(size + 1) for _ in range(2))
        all_ = make.chance(0.4) or (low == high and make.chance(0.9))
        slices.append(slice(None) if all_ else slice(low, high, make.one_of([1, 1, 2, 3])))
    return lambda x: x[tuple(slices)], [x], make.exact(x)


@step
def padding(make: Function) -> Step:
    """Padding around and between elements; a negative one takes elements away."""
    x = make.value(rank=1)
    rows = [
        (make.between(-1, 3), make.between(-1, 3), make.one_of([0, 0, 1, 2]))
        for _ in make.values[x].shape
    ]
    return lambda x: lax.pad(x, jnp.asarray(1, x.dtype), rows), [x], make.exact(x)


@step
def mirrored_padding(make: Function) -> Step:
    """Padding with elements of the tensor."""
    x = make.value("fi", rank=1)
    mode = str(make.one_of(["reflect", "edge", "symmetric", "wrap"]))
    rows = [(make.below(max(1, d)), make.below(max(1, d))) for d in make.values[x].shape]
    return lambda x: jnp.pad(x, rows, mode=mode), [x], make.exact(x)


@step
def concatenation(make: Function) -> Step:
    """Two tensors, concatenated."""
    x = make.value(rank=1)
    axis, value = make.axis(x), make.values[x]
    others = [size for k, size in enumerate(value.shape) if k != axis]
    fit = [
        number for number, each in enumerate(make.values)
        if each.dtype == value.dtype and len(each.shape) == len(value.shape)
        and [size for k, size in enumerate(each.shape) if k != axis] == others
    ]  # fmt: skip
    y = make.one_of(fit)
    return lambda x, y: jnp.concatenate([x, y], axis), [x, y], make.exact(x, y)


@step
def repetition(make: Function) -> Step:
    """Elements more than once."""
    x = make.value(rank=1)
    counts = [make.between(1, 3) for _ in make.values[x].shape]
    functions: list[Unary] = [
        lambda x: jnp.tile(x, counts), lambda x: jnp.repeat(x, 2, 0), lambda x: jnp.roll(x, 1, -1),
        lambda x: jnp.stack([x, x[..., ::-1]], -1), lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    ]  # fmt: skip
    return make.one_of(functions), [x], make.exact(x)


@step
def take(make: Function) -> Step:
    """Slices by constant indices, some of them negative."""
    x = make.value(rank=1)
    axis = make.axis(x)
    size = make.length(x, axis)
    shape = [make.between(1, 4) for _ in range(make.below(3))]
    indices = make.random.integers(-size, size, shape).astype("int32")
    mode = str(make.one_of(["clip", "wrap", "fill"]))
    return lambda x: jnp.take(x, jnp.asarray(indices), axis, mode=mode), [x], make.exact(x)


@step
def take_by_value(make: Function) -> Step:
    """Slices by computed indices, some of them outside."""
    x, indices = make.value(rank=1), make.value("i")
    axis = make.axis(x)
    end, mode = make.length(x, axis) + 2, str(make.one_of(["clip", "wrap", "fill"]))

    def function(x: Any, indices: Any) -> Any:
        return jnp.take(x, indices.astype("int32") % end - 1, axis, mode=mode)

    return function, [x, indices], make.exact(x)


@step
def take_along(make: Function) -> Step:
    """An element of each row."""
    x = make.value(rank=1)
    axis = make.axis(x)
    size = make.length(x, axis)

    def function(x: Any) -> Any:
        indices = lax.broadcasted_iota("int32", x.shape, axis)[::-1] * 2 % size
        return jnp.take_along_axis(x, indices, axis)

    return function, [x], make.exact(x)


@step
def scatter(make: Function) -> Step:
    """Elements set or combined at constant indices."""
    x = make.value("fi", rank=1)
    size = make.length(x, 0)
    count = make.between(1, 4)
    indices = jnp.asarray(make.random.integers(-size, size, count).astype("int32"))
    distinct = jnp.asarray(make.random.permutation(size)[:count].astype("int32"))
    functions: list[Unary] = [
        lambda x: x.at[distinct].set(1), lambda x: x.at[indices].add(1),
        lambda x: x.at[indices].multiply(2), lambda x: x.at[indices].max(1),
        lambda x: x.at[indices].min(jnp.ones((count, *x.shape[1:]), x.dtype)),
    ]  # fmt: skip
    return make.one_of(functions), [x], make.exact(x)


@step
def scatter_by_value(make: Function) -> Step:
    """Elements added at computed indices, some of them outside."""
    x, indices = make.value("fi", rank=1), make.value("i", most=2)
    end = make.length(x, 0) + 2

    def function(x: Any, indices: Any) -> Any:
        return x.at[indices.astype("int32") % end - 1].add(1, mode="drop")

    return function, [x, indices], make.exact(x)


@step
def moved_slice(make: Function) -> Step:
    """A slice, or an update of one, from a computed start that may be outside."""
    x, start = make.value("fi", rank=1), make.value("i", most=0)
    sizes = [make.between(0, size + 1) for size in make.values[x].shape]
    offsets = [make.between(-2, 5) for _ in sizes]
    if make.chance(0.5):
        return (
            lambda x, k: lax.dynamic_slice(x, [k.astype("int32") + one for one in offsets], sizes),
            [x, start],
            make.exact(x),
        )

    def function(x: Any, start: Any) -> Any:
        starts = [start.astype("int32") + one for one in offsets]
        return lax.dynamic_update_slice(x, jnp.ones(sizes, x.dtype), starts)

    return function, [x, start], make.exact(x)
