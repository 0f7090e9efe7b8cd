"""The first elements in order: what is recognised, and its places against a sort of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import compile_kernel, run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.lower.sorting import places_in_order
from tvm_nnef.schedules.cpu import rules, selection
from tvm_nnef.schedules.divisions import with_hidden_dividends
from tvm_nnef.schedules.extents import with_named_extents
from tvm_nnef.tvm_support.compat import prim_functions, runtime_tensor

KINDS = 7


def rows(length: int, dtype: str) -> np.ndarray:
    """Random numbers, few different ones, rising, falling, equal ones, the greatest and least."""
    generator = np.random.default_rng(length)
    whole, rising = "int" in dtype, np.arange(length)
    least, most = (np.iinfo(dtype).min, np.iinfo(dtype).max) if whole else (-np.inf, np.inf)
    made = [
        generator.permutation(length) % 251, generator.integers(0, 3, length), rising, -rising,
        np.zeros(length), generator.choice(np.array([least, most, 0, 1], dtype), length),
        generator.standard_normal(length) * 100,
    ]  # fmt: skip
    with np.errstate(invalid="ignore"):
        data = np.stack([np.asarray(row).astype(dtype) for row in made])
    if not whole:
        data[4, generator.random(length) < 0.5] = -0.0
        data[5, generator.random(length) < 0.7] = np.nan
        data[6, -1] = np.nan
    return data


def in_order(data: np.ndarray, axis: int, count: int, largest: bool) -> np.ndarray:
    """The places of the first elements by a stable sort; what is no number is last."""
    unknown = np.isnan(data)
    known = np.unique(np.where(unknown, 0, data) + data.dtype.type(0), return_inverse=True)
    ranks = known[1].reshape(data.shape)
    key = np.where(unknown, data.size, -ranks if largest else ranks)
    return np.take(np.argsort(key, axis, kind="stable"), np.arange(count), axis)


def scheduled(function: Any, target: str = "native") -> tuple[Any, str]:
    """A function as the rules leave it, and the name of the rule."""
    prepared = with_hidden_dividends(with_named_extents(function))
    return rules.apply(prepared, resolve(target))


def compiled(*arguments: Any, target: str = "native", **options: Any) -> Any:
    """The machine code of the first places in order, by the rule."""
    function, rule = scheduled(places_in_order(*arguments, **options), target)
    assert rule == selection.NAME
    resolved = resolve(target)
    return compile_kernel(function, resolved)


def check(kernel: Any, data: np.ndarray, axis: int, count: int, largest: bool) -> None:
    """What a kernel finds is what NumPy finds."""
    shape = [*data.shape[:axis], count, *data.shape[axis + 1 :]]
    found = runtime_tensor(np.full(shape, -1, "int32"))
    kernel(runtime_tensor(data), found)
    np.testing.assert_array_equal(found.numpy(), in_order(data, axis, count, largest))


FORMULA = """
operator first {
    @attrib { k: int; }
    @input { x: real[b, n]; }
    @output { ranks: int[b, n]; places: int[b, k]; }
    @lower {
        ranks[r, i] += x[r, j] > x[r, i] || (x[r, j] == x[r, i] && j < i) ? 1 : 0,
            r < b, i < n, j < n;
        places[r, p] += ranks[r, i] == p ? i : 0,
            r < b, p < k, i < n;
    }
}
graph Main {
    @input { x: real[2, 90]; }
    @output { y: int; values: real; z: int; }
    @compose {
        size = math.abs(x);
        ranks, y = first{k=7}(size);
        values, z = algo.top_k{k=7, axis=1}(size);
    }
}
"""


def test_the_report_names_the_rule() -> None:
    """For an operator of the library and for a formula of the same meaning, fused with others."""
    module = tvm_nnef.from_nnef("import algo; import math;" + FORMULA)
    report = schedules.report(run_phases(module, resolve("native"), "graph", "schedule"))
    assert [kernel.rule for kernel in report].count(selection.NAME) == 2, report
    executable = tvm_nnef.build(module, progress=False)
    data = rows(90, "float64")[[0, 2]].astype("float32")
    formula, _, places = executable(data)
    np.testing.assert_array_equal(formula, in_order(np.abs(data), 1, 7, True))
    np.testing.assert_array_equal(places, formula)


def test_a_long_value_is_computed_once_in_front() -> None:
    """Written out wherever a key is made of it, it would double with each step of it."""
    steps = "".join(
        f"b{n} = nn.sigmoid(a{n}); a{n + 1} = math.mul(a{n}, b{n});\n" for n in range(10)
    )
    text = f"import math; import nn; {FORMULA.split('graph')[0]} graph Main {{\n"
    text += "@input { a0: real[2, 90]; } @output { y: int[~..]; }\n"
    text += f"@compose {{ {steps} ranks, y = first{{k=7}}(a10); }} }}"
    module = tvm_nnef.from_nnef(text)
    (kernel,) = prim_functions(run_phases(module, resolve("native"), "graph", "schedule")).values()
    assert len(kernel.script()) < 100_000
    data = np.random.default_rng(0).permuted(np.tile(np.arange(10, 100.0), (2, 1)), axis=1)
    (places,) = tvm_nnef.build(module, progress=False)(data.astype("float32"))
    np.testing.assert_array_equal(places, in_order(data, 1, 7, True))


def test_bfloat16_in_rows_and_beside_each_other() -> None:
    """TVM takes it for integers inside of what has a name."""
    text = formula = FORMULA.split("graph")[0].replace("first", "row")
    for index in ("b, n", "b, k", "r, i", "r, j", "r, p"):
        turned = ", ".join(reversed(index.split(", ")))
        formula = formula.replace(f"[{index}]", f"[{turned}]")
    text += formula.replace("row", "column")
    text += (
        "graph Main { @input { x: real[5, 90]; z: real[90, 5]; } @output { a: int[~..];\n"
        "    b: int[~..]; c: int[~..]; d: int[~..]; }\n"
        "@compose { a, b = row{k=7}(x); c, d = column{k=7}(z); } }"
    )
    module = tvm_nnef.from_nnef(text, machine_types={"real": "bfloat16"})
    report = schedules.report(run_phases(module, resolve("native"), "graph", "schedule"))
    assert {kernel.rule for kernel in report} == {selection.NAME}
    data = np.random.default_rng(0).integers(-120, 120, (5, 90)).astype("float32")
    data[1:3, ::7] = np.nan
    found = tvm_nnef.build(module, progress=False)(data, np.ascontiguousarray(data.T))
    expected = tvm_nnef.evaluate(text, data, data.T)
    for pair in zip(found, expected, strict=True):
        np.testing.assert_array_equal(*pair)


ROWS = [
    # length and count: held in order,
    (1, 1), (5, 5), (63, 3), (64, 8), (65, 1), (97, 9), (300, 17), (331, 32),
    # sorted at once,
    (33, 33), (200, 199), (255, 64), (1009, 1009),
    # bounded and collected, with room that is filled again and again
    (256, 33), (1021, 101), (5003, 40), (20011, 1000),
]  # fmt: skip


@pytest.mark.parametrize(("length", "count"), ROWS)
def test_rows_of_reals(length: int, count: int) -> None:
    largest = length % 2 == 1
    kernel = compiled((KINDS, length), 1, count, "float32", most=count, largest=largest)
    check(kernel, rows(length, "float32"), 1, count, largest)


@pytest.mark.parametrize("dtype", [
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float64",
])  # fmt: skip
@pytest.mark.parametrize(("count", "largest"), [(7, False), (50, True)])
def test_rows_of_other_numbers(count: int, largest: bool, dtype: str) -> None:
    kernel = compiled((KINDS, 523), 1, count, dtype, most=count, largest=largest)
    check(kernel, rows(523, dtype), 1, count, largest)


@pytest.mark.parametrize("target", ["llvm", "x86-64-v3"])
@pytest.mark.parametrize("count", [20, 50])
def test_other_machines(count: int, target: str) -> None:
    kernel = compiled((KINDS, 523), 1, count, "float32", target=target, most=count, largest=True)
    check(kernel, rows(523, "float32"), 1, count, True)


@pytest.mark.parametrize(("length", "beside", "count"), [
    (100, (37,), 10), (5, (3,), 5), (331, (2, 5), 40), (7, (16, 1), 1), (20, (4, 11), 3),
])  # fmt: skip
def test_rows_beside_each_other(length: int, beside: tuple[int, ...], count: int) -> None:
    number = int(np.prod(beside))
    table = np.resize(rows(length, "float32"), (2 * number, length))
    data = np.moveaxis(table.reshape(2, *beside, length), -1, 1)
    kernel = compiled(data.shape, 1, count, "float32", most=count, largest=True)
    check(kernel, np.ascontiguousarray(data), 1, count, True)


@pytest.mark.parametrize("length", [1 << 18, (1 << 18) + 8 * 64 + 5])
def test_parts_of_a_long_row(length: int) -> None:
    kernel = compiled((2, length), 1, 100, "float32", most=100, largest=True)
    data = rows(length, "float32")
    for first in (0, 2, 4):
        check(kernel, data[first : first + 2], 1, 100, True)


def test_parts_of_long_rows_beside_each_other() -> None:
    kernel = compiled((1 << 18, 3), 0, 7, "float32", most=7, largest=False)
    data = rows(1 << 18, "float32")[[0, 5, 6]]
    check(kernel, np.ascontiguousarray(data.T), 0, 7, False)


LENGTHS = [1, 2, 9, 63, 64, 150, 333, 4001]


@pytest.mark.parametrize("most", [6, 70, None])
def test_open_extents(most: int | None) -> None:
    kernel = compiled((None, None), 1, None, "float32", most=most, largest=True)
    check(kernel, np.zeros((KINDS, 0), "float32"), 1, 0, True)
    for length in LENGTHS:
        for count in {min(length, most)} if most else {0, 1, (length + 1) // 2, length}:
            check(kernel, rows(length, "float32"), 1, count, True)


def test_open_rows_beside_each_other() -> None:
    kernel = compiled((2, None, None), 1, None, "int32", most=5, largest=False)
    for length in (1, 20, 65):
        for beside in (1, 16, 41):
            table = np.resize(rows(length, "int32"), (2 * beside, length))
            data = np.ascontiguousarray(np.moveaxis(table.reshape(2, beside, length), -1, 1))
            check(kernel, data, 1, min(length, 5), False)
    for shape in [(2, 0, 3), (2, 3, 0)]:
        check(kernel, np.zeros(shape, "int32"), 1, min(shape[1], 5), False)


def ordering(
    comes_first: Any,
    dtype: str = "int32",
    *,
    count: int = 5,
    scale: int = 1,
    others: int = 20,
    ranked: bool = False,
) -> Any:
    """A function that counts by a comparison of elements and places, and gathers by ranks.

    Its results are the places of the first ``count`` elements, and the ranks where they are asked
    for; the ranks alone for a count of 0.
    """
    length, wanted = (tirx.const(number, "int64") for number in (20, count))
    data = te.placeholder((length,), dtype, "data")
    other, place = (te.reduce_axis((0, extent), "other") for extent in (others, length))

    def rank(i: Any) -> Any:
        test = comes_first(data(other.var), data(i), other.var, i)
        return te.sum(tirx.Select(test, tirx.const(1, "int32"), tirx.const(0, "int32")), other)

    ranks = te.compute((length,), rank, "ranks")

    def found(i: Any) -> Any:
        there = ranks(place.var).equal(tirx.Cast("int32", i * scale))
        zero = tirx.const(0, "int32")
        return te.sum(tirx.Select(there, tirx.Cast("int32", place.var), zero), place)

    results = [ranks] if ranked or not count else []
    results += [te.compute((wanted,), found, "places")] if count else []
    return te.create_prim_func([data, *results], "int64")


def greatest(a: Any, b: Any, i: Any, j: Any) -> Any:
    """The order that a formula says most simply, and nothing of what is no number."""
    return tirx.any(a > b, tirx.all(a.equal(b), i < j))


@pytest.mark.parametrize("comes_first", [
    greatest,
    lambda a, b, i, j: tirx.any(b < a, tirx.all(b <= a, j > i)),
    lambda a, b, i, j: tirx.all(a >= b, tirx.any(tirx.NE(a, b), i < j)),
    lambda a, b, i, j: tirx.Select(a.equal(b), i < j, a < b),
    lambda a, b, i, j: tirx.Not(tirx.any(b < a, tirx.all(a.equal(b), j <= i))),
])  # fmt: skip
def test_orders_are_recognised(comes_first: Any) -> None:
    assert scheduled(ordering(comes_first))[1] == selection.NAME


@pytest.mark.parametrize("function", [
    # equal ones share a rank, or the last one is first, or the order is none
    ordering(lambda a, b, i, j: a > b),
    ordering(lambda a, b, i, j: tirx.any(a > b, tirx.all(a.equal(b), i > j))),
    ordering(lambda a, b, i, j: tirx.any(a > b, i < j)),
    ordering(lambda a, b, i, j: tirx.any(a > b + 1, tirx.all(a.equal(b), i < j))),
    ordering(lambda a, b, i, j: tirx.any(a > b, tirx.all(a.equal(b), i < 3))),
    # what is no number comes behind some numbers only
    ordering(lambda a, b, i, j: tirx.any(greatest(a, b, i, j), tirx.isnan(b)), "float32"),
    # other ranks than the first ones, and ranks among some elements
    ordering(greatest, scale=2),
    ordering(greatest, others=10),
])  # fmt: skip
def test_what_is_no_order_is_left(function: Any) -> None:
    assert scheduled(function)[1] != selection.NAME


@pytest.mark.parametrize(("dtype", "count", "ranked"), [
    ("float32", 5, False), ("float32", 33, False), ("float32", 7, True), ("float64", 0, True),
    ("int32", 33, True), ("int32", 0, True),
])  # fmt: skip
def test_formulas(dtype: str, count: int, ranked: bool) -> None:
    """Ranks are results too, ranks that nobody has have no place, and NaN shares the first one."""
    function, rule = scheduled(ordering(greatest, dtype, count=count, ranked=ranked))
    assert rule == selection.NAME
    native = resolve("native")
    kernel = compile_kernel(function, native)
    for data in rows(20, dtype):
        column, place = data[:, None], np.arange(20)
        ahead = (column > data) | ((column == data) & (place[:, None] < place))
        ranks = ahead.sum(0)
        places = (place * (ranks == np.arange(count)[:, None])).sum(1)
        expected = [ranks] * ranked + [places] * (count > 0)
        found = [runtime_tensor(np.full(each.shape, -1, "int32")) for each in expected]
        kernel(runtime_tensor(data), *found)
        for actual, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(actual.numpy(), wanted)
