"""Each operation as JAX lowers it, on the reference, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")
jnp, lax = jax.numpy, jax.lax


def reals(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def integers(high: int, *shape: int) -> Any:
    return np.random.default_rng(1).integers(0, high, shape).astype(np.int32)


def window(function: Any, start: float, *options: Any) -> Any:
    return lambda x: lax.reduce_window(x, start, function, *options)


POSITIVE = np.abs(reals(3, 4)) * 0.3 + 0.1
UNARY = [
    "exp", "log1p", "expm1", "sqrt", "rsqrt", "cbrt", "sign", "floor", "ceil", "round",
    "sin", "cos", "tan", "tanh",
    "logistic", "erf", "erfc", "erf_inv", "lgamma", "digamma", "asinh", "sinh",
    "cosh", "atan", "asin", "acos", "atanh", "is_finite", "square", "neg", "abs", "log",
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand(name: str, against_jax: Any) -> None:
    against_jax(getattr(lax, name), POSITIVE)


BINARY = {
    "add": jnp.add, "maximum": jnp.maximum, "minimum": jnp.minimum, "atan2": jnp.arctan2,
    "remainder": jnp.remainder, "power": jnp.power, "less": lambda x, y: x < y,
    "where": lambda x, y: jnp.where(x < y, x, y), "clip": lambda x, y: jnp.clip(x, -0.5, y),
    "nextafter": jnp.nextafter,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands(name: str, against_jax: Any) -> None:
    against_jax(BINARY[name], POSITIVE, reals(4))


WHOLE = {
    "add": jnp.add, "floor_divide": jnp.floor_divide, "remainder": jnp.remainder, "div": lax.div,
    "rem": lax.rem, "xor": jnp.bitwise_xor, "and": jnp.bitwise_and, "or": jnp.bitwise_or,
    "left": lax.shift_left, "logical": lax.shift_right_logical,
    "arithmetic": lax.shift_right_arithmetic, "power": lambda x, y: x**y,
    "bits": lambda x, y: lax.population_count(x), "zeros": lambda x, y: lax.clz(x),
    "not": lambda x, y: ~x,
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int8, np.uint8, np.uint16])
@pytest.mark.parametrize("name", WHOLE)
def test_integers(name: str, dtype: Any, against_jax: Any) -> None:
    x = (integers(200, 3, 4) - 4).astype(dtype)
    against_jax(WHOLE[name], x, (integers(5, 3, 4) + 1).astype(dtype))


def test_integers_wrap_around(against_jax: Any) -> None:
    big = np.array([4294967295, 2147483648, 3], np.uint32)
    against_jax(lambda x: (x + x, x * x, x >> 3, x ^ 5, x.astype(jnp.int32)), big)


def test_constant_truth_values_are_negated(against_jax: Any) -> None:
    """What is known is computed in the conversion: ~True is not -2."""
    x = jnp.arange(4, dtype=np.int32)

    def function(y: Any) -> Any:
        numbers = lax.iota(np.int32, 4) * 2
        equal, odd = numbers == numbers, numbers < 3
        return ~equal, ~odd, odd ^ equal, ~numbers, ~numbers.astype(np.uint8), y

    against_jax(function, x)


def test_types(against_jax: Any) -> None:
    cast = lax.bitcast_convert_type

    def f(x: Any) -> Any:
        return [
            x.astype("int32"), x.astype("bfloat16"), x.astype("float16"), (x > 0).astype("float32"),
            x.astype("uint8"), (x * 1e10).astype("int32"), cast(x, jnp.int32),
            cast(cast(x, jnp.uint32), jnp.float32), lax.reduce_precision(x, 5, 10),
        ]  # fmt: skip

    against_jax(f, np.abs(reals(3, 4)))


LAYOUT = {
    "transpose": lambda x: x.T, "reshape": lambda x: x.reshape(6, 2),
    "concatenate": lambda x: jnp.concatenate([x, x], 1), "slice": lambda x: x[1:, ::2],
    "reverse": lambda x: x[::-1, ::-1], "pad": lambda x: jnp.pad(x, ((1, 2), (0, 1))),
    "interior": lambda x: lax.pad(x, 1.0, ((1, -1, 2), (-1, 2, 0))),
    "only negative": lambda x: lax.pad(x, 1.0, ((-1, -1, 0), (0, -2, 0))),
    "iota": lambda x: jnp.arange(5), "eye": lambda x: jnp.eye(3), "tril": jnp.tril,
    "broadcast": lambda x: jnp.broadcast_to(x[:, None], (3, 2, 4)),
    "repeat": lambda x: jnp.repeat(x, 2, 1), "roll": lambda x: jnp.roll(x, 1, 0),
    "empty": lambda x: x[:0],
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUT)
def test_layout(name: str, against_jax: Any) -> None:
    against_jax(LAYOUT[name], reals(3, 4))


PRODUCTS = {
    "batched": ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    "transposed": ("bij,bkj->ikb", (2, 3, 4), (2, 5, 4)),
    "two contracted": ("abc,bcd->ad", (2, 3, 4), (3, 4, 5)),
    "apart": ("abc,cda->bd", (2, 3, 4), (4, 5, 2)),
    "vectors": ("i,i->", (4,), (4,)),
    "outer": ("i,j->ij", (4,), (3,)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, against_jax: Any) -> None:
    text, left, right = PRODUCTS[name]
    against_jax(lambda x, y: jnp.einsum(text, x, y), reals(*left), reals(*right))


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8"])
@pytest.mark.parametrize("compiled", [False, True])
def test_integers_divided_by_zero(dtype: str, compiled: bool, against_jax: Any) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([5, low, low, 0, high, high], dtype)
    y = np.array([0, high, 0, 0, high, 2], dtype)
    against_jax(lambda x, y: (lax.div(x, y), lax.rem(x, y)), x, y, compiled=compiled)


@pytest.mark.parametrize("extent", [0, 1])
def test_rows_too_short_to_sort(extent: int, against_jax: Any) -> None:
    def function(x: Any) -> Any:
        return jnp.sort(x), jnp.argsort(x), lax.top_k(x, extent), lax.top_k(reals(3, 4), 0)

    against_jax(function, reals(2, extent))


def test_a_product_of_integers_has_more_bits(against_jax: Any) -> None:
    x = (integers(200, 3, 4) - 100).astype(np.int8)
    against_jax(lambda x: lax.dot(x, x.T, preferred_element_type=jnp.int32), x)


CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "strides": ((2, 4, 9, 8), (6, 4, 3, 3), {
        "window_strides": (1, 2), "padding": ((1, 2), (0, 1))}),
    "dilated": ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": "SAME", "rhs_dilation": (2, 1)}),
    "groups": ((2, 4, 6, 6), (6, 2, 3, 3), {"padding": "SAME", "feature_group_count": 2}),
    "spread": ((2, 4, 5, 5), (6, 4, 3, 3), {"padding": ((2, 2), (1, -1)), "lhs_dilation": (2, 3)}),
    "batch groups": ((4, 3, 5, 5), (6, 3, 3, 3), {"padding": "SAME", "batch_group_count": 2}),
    "channels last": (
        (2, 6, 6, 4), (3, 3, 4, 6),
        {"padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")},
    ),
    "one dimension": ((2, 4, 9), (6, 4, 3), {"window_strides": (2,), "padding": "VALID"}),
    "three dimensions": ((1, 2, 4, 5, 6), (3, 2, 2, 2, 2), {"padding": "VALID"}),
    "a filter larger than the input": ((2, 4, 2, 9), (6, 4, 3, 3), {"padding": "VALID"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, against_jax: Any) -> None:
    x, filter_, options = CONVOLUTIONS[name]
    options = {"window_strides": (1,) * (len(x) - 2), **options}
    function = lambda a, b: lax.conv_general_dilated(a, b, **options)  # noqa: E731
    against_jax(function, reals(*x), reals(*filter_), rtol=1e-4, atol=1e-5)


def test_the_gradient_of_a_convolution(against_jax: Any) -> None:
    def loss(x: Any, w: Any) -> Any:
        return (lax.conv_general_dilated(x, w, (2, 2), "SAME") ** 2).sum()

    gradient = jax.grad(loss, (0, 1))
    against_jax(gradient, reals(2, 3, 7, 6), reals(4, 3, 3, 3), rtol=1e-4, atol=1e-4)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean(0), "max": lambda x: x.max(1),
    "min": lambda x: x.min(), "prod": lambda x: x.prod(0), "argmax": lambda x: jnp.argmax(x, 1),
    "argmin": lambda x: jnp.argmin(x, 0), "any": lambda x: (x > 0).any(0),
    "all": lambda x: (x > 0).all(), "logsumexp": lambda x: jax.nn.logsumexp(x, 1),
    "whole": lambda x: x.astype("int32").max(), "bits": lambda x: lax.reduce(
        x.astype("int32"), np.int32(0), jnp.bitwise_xor, (1,)),
    "start": lambda x: lax.reduce(x, np.float32(1), lax.max, (1,)),
    "larger magnitude": lambda x: lax.reduce(
        x, np.float32(0), lambda a, b: jnp.where(abs(a) < abs(b), b, a), (0,)),
    "two operands": lambda x: lax.reduce(
        (x, -x), (np.float32(0), np.float32(0)),
        lambda a, b: tuple(jnp.where(a[0] > b[0], a[k], b[k]) for k in (0, 1)), (1,)),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, against_jax: Any) -> None:
    against_jax(REDUCTIONS[name], reals(3, 4) * 3)


def test_the_first_nan_is_the_largest_and_the_least(against_jax: Any) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[1, nan, inf], [nan, 2, nan], [3, 3, -inf], [inf, inf, nan]], np.float32)
    against_jax(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1), jnp.argmax(x, 0)), x)


WINDOWS = {
    "max": window(lax.max, -np.inf, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"),
    "sum": window(lax.add, 0.0, (1, 2, 3, 1), (1, 1, 2, 1), "VALID"),
    "both dilations": window(
        lax.min, np.inf, (1, 2, 3, 1), (1, 1, 2, 1), ((0, 0), (1, 0), (0, 1), (0, 0)), (1, 2, 1, 1),
        (1, 2, 1, 1)),
    "product": window(lax.mul, 1.0, (1, 2, 3, 1), (1, 1, 2, 1), "SAME"),
    "larger than the operand": window(lax.max, -np.inf, (1, 2, 30, 1), (1, 2, 2, 1), "VALID"),
    "any": window(lambda a, b: jnp.where(abs(a) < abs(b), b, a), 0.0, (1, 2, 3, 1), (1, 1, 2, 1),
                  "SAME"),
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, against_jax: Any) -> None:
    against_jax(WINDOWS[name], reals(2, 5, 7, 3))


def test_gradients_of_pooling(against_jax: Any) -> None:
    against_jax(jax.grad(lambda x: (WINDOWS["max"](x) ** 2).sum()), reals(2, 6, 6, 3))
    against_jax(jax.grad(lambda x: (WINDOWS["sum"](x) ** 2).sum()), reals(2, 6, 6, 3), rtol=1e-4)


def test_gradients_of_overlapping_windows_with_equal_elements(against_jax: Any) -> None:
    pool = window(lax.max, -np.inf, (2, 3), (1, 1), "SAME")
    x = integers(3, 5, 6).astype(np.float32)
    against_jax(jax.grad(lambda x: (pool(x) ** 2).sum()), x)


NAN = np.array([3, np.nan, 2, 5, 5, 1, np.nan], np.float32)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("x", "size", "stride"),
    [(NAN, 3, 2), (NAN, 1, 2), (reals(24), 9, 3)],
    ids=["NaN", "single elements", "many elements"],
)
def test_the_selected_elements_of_windows(
    x: Any, size: int, stride: int, compiled: bool, against_jax: Any
) -> None:
    pool = window(lax.max, -np.inf, (size,), (stride,), "VALID")
    gradient = jax.grad(lambda x, factors: (pool(x) * factors).sum())
    factors = reals((len(x) - size) // stride + 1)
    against_jax(gradient, x, factors, compiled=compiled)


CUMULATIVE: dict[str, Callable[..., Any]] = {
    "sum": lambda x: jnp.cumsum(x, 1), "product": lambda x: jnp.cumprod(x, 0),
    "max": lambda x: lax.cummax(x, axis=1), "backwards": lambda x: lax.cumsum(x, reverse=True),
    "logsumexp": lambda x: lax.cumlogsumexp(x, axis=1),
    "associative": lambda x: lax.associative_scan(jnp.add, x, axis=1),
}  # fmt: skip


@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative_reductions(name: str, against_jax: Any) -> None:
    against_jax(CUMULATIVE[name], reals(3, 5))


SORTS = {
    "values": lambda x, y: jnp.sort(x), "places": lambda x, y: jnp.argsort(x, 0),
    "two keys": lambda x, y: lax.sort((y, x), num_keys=2), "one key": lambda x, y: lax.sort((y, x)),
    "descending": lambda x, y: jnp.sort(x, descending=True), "top": lambda x, y: lax.top_k(x, 2),
    "unique": lambda x, y: jnp.unique(y, size=3), "median": lambda x, y: jnp.median(x, 1),
    "searched": lambda x, y: jnp.searchsorted(jnp.sort(x[0]), x[1]),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SORTS)
def test_sorting(name: str, against_jax: Any) -> None:
    against_jax(SORTS[name], reals(4, 5), integers(3, 4, 5))


def test_truth_values_are_sorted(against_jax: Any) -> None:
    x = np.array([[True, False, True], [False, False, True]])
    against_jax(
        lambda x: (jnp.sort(x), jnp.argsort(x, 0), jnp.argmax(x, 1), jnp.argmin(x), x.max(0)), x
    )


def test_float64_is_sorted_in_its_total_order(against_jax: Any) -> None:
    x = np.array([3, np.nan, -0.0, np.inf, 0.0, -np.inf, -1, -1e300, 1e300])
    with jax.enable_x64(True):
        against_jax(lambda x: (*lax.sort((x, x), num_keys=2), jnp.argsort(x), lax.top_k(x, 9)), x)


def test_nan_is_sorted_last(against_jax: Any) -> None:
    x = np.array([[np.nan, 1, -0.0, np.inf, 0.0, -np.inf, -1, np.nan]], np.float32)
    against_jax(lambda x: (jnp.sort(x), jnp.argsort(x)), x)


GATHERS = {
    "rows": lambda x, i: x[i], "columns": lambda x, i: x[:, i], "one": lambda x, i: x[1:3, 0],
    "along": lambda x, i: jnp.take_along_axis(x, i[:, None] % 3, 1),
    "pairs": lambda x, i: x[i, i % 3],
    "vmapped": lambda x, i: jax.vmap(lambda r, k: r[k])(x, i % 3),
    "fill": lambda x, i: x.at[i * 2].get(mode="fill", fill_value=7.0),
    "clip": lambda x, i: x.at[i * 2].get(mode="clip"),
    "boxes": lambda x, i: jax.vmap(lambda k: lax.dynamic_slice(x, (k, 1), (2, 2)))(i),
}  # fmt: skip


@pytest.mark.parametrize("name", GATHERS)
def test_gather(name: str, against_jax: Any) -> None:
    against_jax(GATHERS[name], reals(4, 3), integers(4, 4))


SCATTERS = {
    "add": lambda x, i: x.at[i].add(1.0), "set": lambda x, i: x.at[i, i % 3].set(2.0),
    "max": lambda x, i: x.at[i].max(0.0), "min": lambda x, i: x.at[i].min(0.0),
    "multiply": lambda x, i: x.at[:, 1].multiply(3.0), "outside": lambda x, i: x.at[i + 2].set(5.0),
    "row": lambda x, i: x.at[2].set(5.0), "apply": lambda x, i: x.at[i[:1]].apply(jnp.exp),
    "vmapped": lambda x, i: jax.vmap(lambda r, k: r.at[k % 3].add(1.0))(x, i),
    "segments": lambda x, i: jax.ops.segment_sum(x, i, 5),
    "counts": lambda x, i: jnp.bincount(i, length=4),
    "boxes": lambda x, i: jax.vmap(
        lambda k: lax.dynamic_update_slice(x, jnp.ones((2, 2)), (k, 1)))(i),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SCATTERS)
def test_scatter(name: str, against_jax: Any) -> None:
    against_jax(SCATTERS[name], reals(4, 3), integers(4, 4))


SLICES = {
    "slice": lambda x, i: lax.dynamic_slice(x, (i, i - 1), (2, 2)),
    "update": lambda x, i: lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, 0)),
    "row": lambda x, i: lax.dynamic_index_in_dim(x, i), "element": lambda x, i: x[i, i - 1],
}  # fmt: skip


@pytest.mark.parametrize("position", [0, 3, 9, -2])
@pytest.mark.parametrize("name", SLICES)
def test_dynamic_slices(name: str, position: int, against_jax: Any) -> None:
    against_jax(SLICES[name], reals(4, 3), np.int32(position))


FLOW = {
    "fori": lambda x: lax.fori_loop(0, 5, lambda i, c: c * 1.1 + i, x),
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2, jnp.abs(x)),
    "no step": lambda x: lax.while_loop(lambda c: c.sum() < -9999, lambda c: c * 2, x),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda: x + 1, lambda: x - 1),
    "switch": lambda x: [
        lax.switch((x[0] * 0).astype("int32") + k, [lambda: x, lambda: x * 2, lambda: x * 3])
        for k in (-1, 0, 1, 2, 7)],
    "scan": lambda x: lax.scan(lambda c, e: (c + e, c * e), 0.0, x),
    "scan backwards": lambda x: lax.scan(lambda c, e: (c + e, c * e), 0.0, x, reverse=True),
    "map": lambda x: lax.map(lambda e: e * 2, x),
    "nested": lambda x: lax.fori_loop(
        0, 3, lambda i, c: lax.fori_loop(0, i, lambda j, d: d + j, c), x),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOW)
def test_control_flow(name: str, against_jax: Any) -> None:
    against_jax(FLOW[name], reals(3))


def test_random_numbers_are_those_of_jax(against_jax: Any) -> None:
    def draw(key: Any) -> Any:
        return [
            jax.random.split(key), jax.random.uniform(key, (3,)), jax.random.normal(key, (3,)),
            jax.random.randint(key, (4,), 0, 10), jax.random.bernoulli(key, 0.5, (5,)),
            jax.random.permutation(key, 5), jax.random.categorical(key, jnp.ones(4)),
        ]  # fmt: skip

    against_jax(draw, np.array([3, 4], np.uint32))
