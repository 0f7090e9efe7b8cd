"""More steps of random functions of JAX: sums, products, windows, orders, loops, gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from random_function_steps import Unary
from random_functions import Function, Step, Unfit, step


@step
def reduction(make: Function) -> Step:
    """A sum, and what is made of sums."""
    x = make.value("f")
    axes, keep = make.axes(x), make.chance(0.5)
    if any(make.values[x].shape[axis] == 0 for axis in axes):
        raise Unfit
    functions = [jnp.sum, jnp.mean, jnp.var, jax.scipy.special.logsumexp]
    function = make.one_of(functions)
    return lambda x: function(x, axis=axes, keepdims=keep), [x], False


@step
def exact_reduction(make: Function) -> Step:
    """A maximum or minimum."""
    x = make.value("fi")
    axes, keep = make.axes(x), make.chance(0.5)
    function = make.one_of([jnp.max, jnp.min])
    return lambda x: function(x, axis=axes, keepdims=keep), [x], make.exact(x)


@step
def integer_reduction(make: Function) -> Step:
    """A reduction of integers or booleans."""
    x = make.value("ib")
    axes = make.axes(x)
    function = make.one_of([jnp.sum, jnp.prod, jnp.any, jnp.all, jnp.count_nonzero])
    return lambda x: function(x, axis=axes), [x], True


@step
def argmax(make: Function) -> Step:
    """The index of a maximum or minimum."""
    x = make.value("fi", rank=1, exact=True)
    axis, function = make.axis(x), make.one_of([jnp.argmax, jnp.argmin])
    return lambda x: function(x, axis=axis), [x], True


@step
def scan(make: Function) -> Step:
    """A cumulative reduction."""
    x = make.value("fi", rank=1)
    axis, reverse = make.axis(x), make.chance(0.5)
    function = make.one_of([lax.cumsum, lax.cummax, lax.cummin, lax.cumprod])
    whole = function in (lax.cummax, lax.cummin) or make.values[x].kind == "i"
    return lambda x: function(x, axis=axis, reverse=reverse), [x], make.exact(x) and whole


@step
def order(make: Function) -> Step:
    """Sorted elements, or the order of them."""
    x = make.value("fi", rank=1, exact=True)
    axis, descending = make.axis(x), make.chance(0.5)
    size = make.values[x].shape[-1]
    count = make.between(0, size + 1)
    functions: list[Unary] = [
        lambda x: jnp.sort(x, axis=axis),
        lambda x: jnp.argsort(x, axis=axis, descending=descending),
        lambda x: lax.sort((x, jnp.arange(x.size).reshape(x.shape)), dimension=axis, num_keys=1),
        lambda x: lax.top_k(x, count),
    ]
    return make.one_of(functions), [x], True


@step
def place(make: Function) -> Step:
    """The place of each element in a sorted list."""
    x = make.value("f", exact=True)
    return lambda x: jnp.searchsorted(jnp.asarray([-2, -0.5, 0, 1, 3], x.dtype), x), [x], True


@step
def matrix_product(make: Function) -> Step:
    """A product with a constant matrix."""
    x = make.value("f", rank=1)
    weights = jnp.asarray(make.quarters((make.values[x].shape[-1], make.between(1, 5))))
    return lambda x: x @ weights.astype(x.dtype), [x], False


@step
def product(make: Function) -> Step:
    """A product in general form: some axes of equal size are contracted, some batched."""
    x = make.value("f", rank=1)
    fit = [
        number for number, each in enumerate(make.values)
        if each.dtype == make.values[x].dtype and each.shape
    ]  # fmt: skip
    y = make.one_of(fit)
    pairs = [
        (a, b) for a, left in enumerate(make.values[x].shape)
        for b, right in enumerate(make.values[y].shape) if left == right
    ]  # fmt: skip
    make.random.shuffle(pairs)
    distinct: list[tuple[int, int]] = []
    for a, b in pairs:
        if all(int(a) != c and int(b) != d for c, d in distinct):
            distinct.append((int(a), int(b)))
    used = make.below(len(distinct) + 1)
    batches = make.below(used + 1)
    contracted, batched = (
        tuple(tuple(pair[side] for pair in each) for side in (0, 1))
        for each in (distinct[batches:used], distinct[:batches])
    )
    return lambda x, y: lax.dot_general(x, y, (contracted, batched)), [x, y], False


@step
def convolution(make: Function) -> Step:
    """A convolution; its padding is not negative, which XLA gets wrong on CPUs."""
    x = make.value("f", rank=3, most=4)
    batch, channels, *sizes = make.values[x].shape
    if 0 in (batch, channels, *sizes) or make.values[x].dtype != np.float32:
        raise Unfit
    groups = make.one_of([d for d in range(1, channels + 1) if channels % d == 0])
    kernel = [make.between(1, 4) for _ in sizes]
    shape = (groups * make.between(1, 3), channels // groups, *kernel)
    weights = jnp.asarray(make.quarters(shape))
    strides = [make.between(1, 3) for _ in sizes]
    borders = [(make.below(3), make.below(3)) for _ in sizes]
    spread, dilation = ([make.one_of([1, 1, 2]) for _ in sizes] for _ in range(2))

    def function(x: Any) -> Any:
        return lax.conv_general_dilated(
            x, weights, strides, borders, lhs_dilation=spread, rhs_dilation=dilation,
            feature_group_count=groups,
        )  # fmt: skip

    return function, [x], False


@step
def windows(make: Function) -> Step:
    """A reduction of windows."""
    x = make.value("fi", rank=1)
    shape = make.values[x].shape
    sizes, strides = ([make.between(1, high) for _ in shape] for high in (4, 3))
    borders = [(make.below(2), make.below(3)) for _ in shape]
    spread = [make.one_of([1, 1, 1, 2]) for _ in shape]
    dilation = [make.one_of([1, 1, 2]) for _ in shape]
    dtype = make.values[x].dtype
    if make.values[x].kind == "f":
        low, high = -np.inf, np.inf
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    start, function = make.one_of([(low, lax.max), (high, lax.min), (0, lax.add)])
    whole = function is not lax.add or make.values[x].kind == "i"

    def reduced(x: Any) -> Any:
        return lax.reduce_window(
            x, np.array(start, x.dtype), function, sizes, strides, borders,
            base_dilation=spread, window_dilation=dilation,
        )  # fmt: skip

    return reduced, [x], make.exact(x) and whole


@step
def segments(make: Function) -> Step:
    """Sums of the rows of segments."""
    x = make.value("f", rank=1)
    numbers = make.random.integers(0, 4, make.values[x].shape[0]).astype("int32")
    return lambda x: jax.ops.segment_sum(x, jnp.asarray(numbers), 4), [x], False


@step
def loop(make: Function) -> Step:
    """A loop with a carried value, or a function of each row."""
    x = make.value("f", rank=1)
    steps = make.below(5)
    functions: list[Unary] = [
        lambda x: lax.fori_loop(0, steps, lambda k, c: jnp.tanh(c) + jnp.asarray(k, c.dtype), x),
        lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), jnp.zeros_like(x[:1].sum(0)), x),
        lambda x: lax.while_loop(
            lambda c: c[0] < steps, lambda c: (c[0] + 1, c[1] * jnp.asarray(0.5, x.dtype)), (0, x)
        )[1],
        lambda x: lax.map(lambda row: jnp.sum(jnp.sin(row)), x),
        lambda x: jax.vmap(lambda row: jnp.cumsum(row.ravel()))(x),
    ]
    return make.one_of(functions), [x], False


@step
def branch(make: Function) -> Step:
    """A branch by what was computed."""
    x, condition = make.value("f"), make.value(exact=True)

    def two(x: Any, condition: Any) -> Any:
        return lax.cond((condition != 0).any(), jnp.sin, lambda a: a * jnp.asarray(2, a.dtype), x)

    def three(x: Any, condition: Any) -> Any:
        number = (condition != 0).sum() % 5 - 1
        return lax.switch(number, [jnp.sin, jnp.cos, jnp.negative], x)

    return make.one_of([two, three]), [x, condition], False


@step
def gradient(make: Function) -> Step:
    """The gradient of a sum."""
    x = make.value("f")
    if make.values[x].dtype != np.float32 or 0 in make.values[x].shape:
        raise Unfit

    def pooled(x: Any) -> Any:
        rows = x.reshape(1, -1, 1)
        found = lax.reduce_window(rows, -jnp.inf, lax.max, (1, 2, 1), (1, 2, 1), "SAME")
        return jnp.sum(found**2)

    smooth: list[Unary] = [
        lambda x: jnp.sum(jnp.tanh(x) * x), lambda x: jnp.sum(jax.nn.softmax(x.ravel()) ** 2),
        lambda x: jnp.sum(jnp.cumsum(x.ravel()) ** 2), lambda x: jnp.sum(x.ravel()[::2] * 3),
    ]  # fmt: skip
    jumping: list[Unary] = [
        lambda x: jnp.sum(jnp.sort(x.ravel()) * jnp.arange(x.size)), jnp.max, pooled,
    ]  # fmt: skip
    functions = [*smooth, *jumping] if make.exact(x) else smooth
    return jax.grad(make.one_of(functions)), [x], False


@step
def constant(make: Function) -> Step:
    """A constant that JAX computes."""
    size = make.between(1, 6)
    functions: list[Unary] = [
        lambda x: jnp.arange(size) * 2, lambda x: jnp.eye(size, size + 1, k=1),
        lambda x: jnp.tri(size), lambda x: jnp.asarray(size - 3),
    ]  # fmt: skip
    return make.one_of(functions), [make.value()], True


@step
def one_hot(make: Function) -> Step:
    """Rows of zeros with a one."""
    size = make.between(1, 6)
    return lambda x: jax.nn.one_hot(x.astype("int32"), size), [make.value("i")], True


@step
def random_numbers(make: Function) -> Step:
    """Random numbers of a constant key."""
    size = make.between(1, 6)
    return lambda x: jax.random.uniform(jax.random.key(size), (size, 2)), [make.value()], False
