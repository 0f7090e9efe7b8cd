"""Loops that read elements which earlier steps wrote, against loops of Python over NumPy arrays.

Each case is a formula and a function that makes the same step. Values are compared bit by bit: NaN,
the sign of zero and the wrap-around of integers included.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tvm_nnef

Array = Any
Step = Callable[..., None]


class Case(NamedTuple):
    """A formula over ``x``, ``y`` and the integers ``n``, and its steps over arrays."""

    shape: tuple[int, ...]
    lower: str
    steps: tuple[Step, ...]
    condition: str = ""


def copy(x: Array, y: Array, n: Array, *at: int) -> None:
    y[at] = x[at]


def last(extent: int, index: int) -> int:
    """The index from the other end."""
    return extent - 1 - index


def add_if_inside(offset: tuple[int, ...], factor: float = 1) -> Step:
    """Adds the element some steps away, if there is one."""

    def step(x: Array, y: Array, n: Array, *at: int) -> None:
        other = tuple(a + o for a, o in zip(at, offset, strict=True))
        if all(0 <= o < extent for o, extent in zip(other, y.shape, strict=True)):
            y[at] += y.dtype.type(factor) * y[other]

    return step


def backward(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    j = last(y.shape[1], j)
    if j + 1 < y.shape[1]:
        y[i, j] += y[i, j + 1]


def exclusive(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[i, j] = x[i, j - 1] if j else 0


def combined(function: Callable[[Array, Array], Array]) -> Step:
    def step(x: Array, y: Array, n: Array, i: int, j: int) -> None:
        if j:
            y[i, j] = function(y[i, j], y[i, j - 1])

    return step


def one_statement(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[i, j] = y[i, j - 1] + x[i, j] if j else x[i, j]


def image(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    up, left = (y[i - 1, j] if i else 0), (y[i, j - 1] if j else 0)
    y[i, j] += up + left - (y[i - 1, j - 1] if i and j else 0)


def positive(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[i, j] += y[i, j - 1] if x[i, j] > 0 and j else 0


def condition(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    if j > n[i]:
        y[i, j] += y[i, j - 1]


def jump(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    if 0 <= j - n[i] < y.shape[1]:
        y[i, j] += y[i, j - n[i]]


def scatter(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[n[i], j] += x[i, j]


def axis_from_data(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    other = (i - 1, j) if n[0] == 0 else (i, j - 1)
    if min(other) >= 0:
        y[i, j] += y[other]


def fibonacci(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[i, j] += (y[i, j - 1] if j else 0) + (y[i, j - 2] if j > 1 else 0)


def half_way(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[i, j] += y[i, j // 2]


def first(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[i, j] += y[i, 0]


def first_row(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    if j:
        y[i, j] += y[0, j - 1]


def add_x(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[i, j] += x[i, j]


def transposed(x: Array, y: Array, n: Array, i: int, j: int) -> None:
    y[i, j] += y[j % 7, i]


ROWS, BATCH = (7, 67), (3, 9, 21)
COPY = "y[i,j] = x[i,j]; "
CASES = {
    "sum": Case(ROWS, COPY + "y[i,j] += y[i,|j-1|]", (copy, add_if_inside((0, -1)))),
    "sum of columns": Case(ROWS, COPY + "y[i,j] += y[|i-1|,j]", (copy, add_if_inside((-1, 0)))),
    "sum between": Case(
        BATCH, "y[i,j,k] = x[i,j,k]; y[i,j,k] += y[i,|j-1|,k]", (copy, add_if_inside((0, -1, 0)))),
    "backward sum": Case(
        ROWS, "y[i,66-j] = x[i,66-j]; y[i,66-j] += y[i,|67-j|]", (copy, backward)),
    "backward sum over a copy made forward": Case(
        ROWS, COPY + "y[i,66-j] += y[i,|67-j|]", (copy, backward)),
    "exclusive sum": Case(
        ROWS, "y[i,j] = x[i,|j-1|]; y[i,j] += y[i,|j-1|]", (exclusive, add_if_inside((0, -1)))),
    "product": Case(ROWS, COPY + "y[i,j] *= y[i,|j-1|]", (copy, combined(np.multiply))),
    "maximum": Case(ROWS, COPY + "y[i,j] >= y[i,|j-1|]", (copy, combined(np.maximum))),
    "minimum": Case(ROWS, COPY + "y[i,j] <= y[i,|j-1|]", (copy, combined(np.minimum))),
    "one statement": Case(ROWS, "y[i,j] = j > 0 ? y[i,j-1] + x[i,j] : x[i,j]", (one_statement,)),
    "two terms": Case(
        ROWS, COPY + "y[i,j] += (j > 0 ? y[i,j-1] : T(0)) + (j > 1 ? y[i,j-2] : T(0))",
        (copy, fibonacci)),
    "with a factor": Case(ROWS, COPY + "y[i,j] += T(-1) * y[i,|j-1|]",
                          (copy, add_if_inside((0, -1), -1))),
    "far back": Case(ROWS, COPY + "y[i,j] += y[i,|j-9|]", (copy, add_if_inside((0, -9)))),
    "three rows back": Case(ROWS, COPY + "y[i,j] += y[|i-3|,j]", (copy, add_if_inside((-3, 0)))),
    "diagonal": Case(ROWS, COPY + "y[i,j] += y[|i-1|,|j-1|]", (copy, add_if_inside((-1, -1)))),
    "other diagonal": Case(ROWS, COPY + "y[i,j] += y[|i-1|,|j+1|]",
                           (copy, add_if_inside((-1, 1)))),
    "diagonal of batches": Case(
        BATCH, "y[i,j,k] = x[i,j,k]; y[i,j,k] += y[|i-1|,|j+1|,k]",
        (copy, add_if_inside((-1, 1, 0)))),
    "sum over an image": Case(
        ROWS, COPY + "y[i,j] += (i > 0 ? y[i-1,j] : T(0)) + (j > 0 ? y[i,j-1] : T(0))"
        " - (i > 0 && j > 0 ? y[i-1,j-1] : T(0))", (copy, image)),
    "where positive": Case(
        ROWS, COPY + "y[i,j] += x[i,j] > T(0) ? (j > 0 ? y[i,j-1] : T(0)) : T(0)",
        (copy, positive)),
    "from a start in data": Case(ROWS, COPY + "y[i,j] += y[i,|j-1|]", (copy, condition),
                                 "j > n[i,]"),
    "data-dependent distance": Case(ROWS, COPY + "y[i,j] += y[i,|j-n[i,]|]", (copy, jump)),
    "into rows of data": Case(ROWS, "y[n[i,],j] += x[i,j]", (scatter,)),
    "along an axis of data": Case(
        ROWS, COPY + "y[i,j] += y[|n[0,] == 0 ? i-1 : i|,|n[0,] == 0 ? j : j-1|]",
        (copy, axis_from_data)),
    "next element": Case(ROWS, COPY + "y[i,j] += y[i,|j+1|]", (copy, add_if_inside((0, 1)))),
    "half way back": Case(ROWS, COPY + "y[i,j] += y[i,j/2]", (copy, half_way)),
    "first element": Case(ROWS, COPY + "y[i,j] += y[i,0]", (copy, first)),
    "another row": Case(ROWS, COPY + "y[i,j] += y[0,|j-1|]", (copy, first_row)),
    "changed afterwards": Case(
        ROWS, "y[i,j] = j > 0 ? y[i,j-1] + x[i,j] : x[i,j]; y[i,j] += x[i,j]",
        (one_statement, add_x)),
    "transposed": Case(ROWS, COPY + "y[i,j] += y[|j % 7|,|i|]", (copy, transposed)),
}  # fmt: skip


def model(cases: dict[str, Case], kind: str, *, dynamic: bool = False) -> Any:
    """One model of all cases, each with its own output."""
    operators, ports, lines = "", {}, []
    for number, case in enumerate(cases.values()):
        rank = len(case.shape)
        names = "ijk"[:rank]
        sizes = [f"s{n}" for n in range(rank)] if dynamic else [str(e) for e in case.shape]
        shape = f"[{','.join(sizes)}]"
        bounds = ", ".join(f"{name} < {size}" for name, size in zip(names, sizes, strict=True))
        statements = [f"{each.strip()}, {bounds}" for each in case.lower.split(";")]
        statements[-1] += f" | {case.condition}" * bool(case.condition)
        body = "; ".join(statements).replace("T(", f"{kind}(")
        for size in ("66", "67") if dynamic else ():
            body = body.replace(f"{size}-j", f"s1{'-1' * (size == '66')}-j")
        operators += (
            f"operator f{number} {{ @input {{ x: {kind}{shape}; n: int[{sizes[0]}]; }}\n"
            f"  @output {{ y: {kind}{shape}; }} @lower {{ {body}; }} }}\n"
        )
        given = ",".join("~|90" for _ in case.shape) if dynamic else ",".join(sizes)
        ports[f"x{rank}"] = f"x{rank}: {kind}[{given}];"
        ports[f"n{rank}"] = f"n{rank}: int[{given.split(',')[0]}];"
        lines.append(f"y{number} = f{number}(x{rank}, n{rank});")
    outputs = " ".join(f"y{n}: {kind}[~..];" for n in range(len(cases)))
    return tvm_nnef.load_model(
        f"{operators} graph G {{ @input {{ {' '.join(ports.values())} }}\n"
        f"@output {{ {outputs} }} @compose {{ {' '.join(lines)} }} }}"
    ), list(ports)


def expected(case: Case, x: Array, n: Array) -> Array:
    """What the steps of a case make, one after the other."""
    y = np.zeros_like(x)
    with np.errstate(all="ignore"):
        for step in case.steps:
            for at in itertools.product(*map(range, x.shape)):
                step(x, y, n, *at)
    return y


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Small whole numbers, whose sums are exact in any order; signs of zero for reals."""
    generator = np.random.default_rng(seed)
    x = generator.integers(-2, 3, shape)
    return np.where(x == 0, -0.0, x).astype(dtype) if dtype == "float32" else x.astype(dtype)


def assert_identical(found: Array, wanted: Array, name: str) -> None:
    """Equal elements, with the same sign of zero."""
    np.testing.assert_array_equal(found, wanted, err_msg=name)
    known = ~np.isnan(wanted)
    signs = (np.signbit(each[known]) if each.dtype.kind == "f" else () for each in (found, wanted))
    np.testing.assert_array_equal(*signs, err_msg=f"signs of {name}")


@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(d, marks=pytest.mark.slow) for d in ("int32", "int64"))]
)
def test_recurrences_make_their_steps_in_order(dtype: str) -> None:
    kind = "real" if dtype == "float32" else "int"
    machine = {} if kind == "real" else {"dtypes": {"int": dtype}}
    source, names = model(CASES, kind)
    arrays = {f"x{len(s)}": values(s, dtype) for s in (ROWS, BATCH)}
    index_type = "int32" if kind == "real" else dtype
    arrays |= {f"n{len(s)}": (np.arange(s[0]) % 5).astype(index_type) for s in (ROWS, BATCH)}
    made = tvm_nnef.build(source, **machine)(*(arrays[name] for name in names))
    for (name, case), found in zip(CASES.items(), made, strict=True):
        rank = len(case.shape)
        assert_identical(found, expected(case, arrays[f"x{rank}"], arrays[f"n{rank}"]), name)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", [0, 1, 2, 5])
def test_recurrences_of_dynamic_length(row: int) -> None:
    cases = {name: case for name, case in CASES.items() if name in DYNAMIC}
    made, names = dynamic_model()
    for shape in [(row, 0), (row, 1), (row, 3), (row, 40)]:
        x, n = values(shape, "float32"), (np.arange(row) % 5).astype("int32")
        found = made(*({"x2": x, "n2": n}[name] for name in names))
        for (name, case), each in zip(cases.items(), found, strict=True):
            assert_identical(each, expected(case, x, n), f"{name} of {shape}")


DYNAMIC = (
    "sum", "sum of columns", "backward sum", "backward sum over a copy made forward",
    "exclusive sum", "product", "maximum", "one statement", "two terms", "diagonal",
    "sum over an image", "where positive", "from a start in data", "half way back",
)  # fmt: skip

_MADE: list[Any] = []


def dynamic_model() -> Any:
    """The executable of the cases with dynamic dimensions, built once."""
    if not _MADE:
        cases = {name: CASES[name] for name in DYNAMIC}
        source, names = model(cases, "real", dynamic=True)
        _MADE.extend((tvm_nnef.build(source), names))
    return _MADE


SPECIAL = ("sum", "sum of columns", "backward sum", "exclusive sum", "product", "maximum",
           "minimum", "one statement")  # fmt: skip


def test_special_values_in_recurrences() -> None:
    x = np.ones(ROWS, "float32")
    x[0], x[1, 40], x[2, 5], x[2, 50] = -0.0, np.nan, np.inf, -np.inf
    x[3, ::2], x[3, 1::2] = 2.0**-100, 2.0**100
    x[4], x[5, 17:], x[6] = 3e38, -0.0, -1
    cases = {name: CASES[name] for name in SPECIAL}
    source, names = model(cases, "real")
    n = np.zeros(7, "int32")
    made = tvm_nnef.build(source)(*({"x2": x, "n2": n}[name] for name in names))
    for (name, case), found in zip(cases.items(), made, strict=True):
        assert_identical(found, expected(case, x, n), name)


def test_integers_wrap_around_in_prefix_sums_and_products() -> None:
    text = (
        "graph G { @input { x: int[3,70]; } @output { s: int[~..]; p: int[~..]; }\n"
        "@compose { s = f(x); p = g(x); } }\n"
    )
    for name, operator in (("f", "+="), ("g", "*=")):
        text = (
            f"operator {name} {{ @input {{ x: int[3,70]; }} @output {{ y: int[3,70]; }} @lower {{\n"
            f"  y[i,j] = x[i,j], i < 3, j < 70; y[i,j] {operator} y[i,|j-1|], i < 3, j < 70; }} }}"
            + text
        )
    for dtype in ("int8", "int32", "int64"):
        limit = np.iinfo(dtype).max
        x = np.random.default_rng(0).integers(limit - 9, limit, (3, 70)).astype(dtype)
        found = tvm_nnef.build(text, dtypes={"int": dtype})(x)
        wanted = [function(x, 1, dtype=dtype) for function in (np.cumsum, np.cumprod)]
        for pair in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(*pair)


PARTS = {
    "part of a row": (
        "y[i,j] = x[i,j], i < 7, j < 40", lambda x: np.where(np.arange(67) < 40, x, 0)),
    "part of a row, from the end": (
        "y[i,66-j] = x[i,66-j], i < 7, j < 40",
        lambda x: np.where(np.arange(67) > 26, x, 0)),
    "some rows": ("y[i,j] = x[i,j], i < 3, j < 67", lambda x: np.where(np.c_[:7] < 3, x, 0)),
    "columns of another order": (
        "y[i,66-j] = x[i,j], i < 7, j < 67", lambda x: x[:, ::-1]),
    "a diagonal": ("y[i,i] = x[i,i], i < 7", lambda x: x * np.eye(7, 67, dtype=x.dtype)),
    "where positive": (
        "y[i,j] = x[i,j], i < 7, j < 67 | x[i,j] > 0.0", lambda x: np.where(x > 0, x, 0)),
    "a moved part": (
        "y[i,j+3] = x[i,j], i < 7, j < 64", lambda x: np.c_[np.zeros((7, 3)), x[:, :64]]),
}  # fmt: skip


def test_prefix_sums_over_elements_that_are_written_in_part() -> None:
    operators, lines = "", []
    for number, (statement, _) in enumerate(PARTS.values()):
        operators += (
            f"operator f{number} {{ @input {{ x: real[7,67]; }}\n"
            f"  @output {{ y: real[7,67]; z: real[7,67]; }} @lower {{ {statement};\n"
            f"  z[i,j] = 2.0 * x[i,j], i < 7, j < 67;\n"
            f"  y[i,j] += y[i,|j-1|], i < 7, j < 67; }} }}\n"
        )
        lines.append(f"y{number}, z{number} = f{number}(x);")
    outputs = " ".join(f"y{n}: real[~..]; z{n}: real[~..];" for n in range(len(PARTS)))
    made = tvm_nnef.build(
        f"{operators} graph G {{ @input {{ x: real[7,67]; }} @output {{ {outputs} }}\n"
        f"@compose {{ {' '.join(lines)} }} }}"
    )
    x = values(ROWS, "float32")
    found = iter(made(x))
    for name, (_, wanted) in PARTS.items():
        np.testing.assert_array_equal(next(found), np.cumsum(wanted(x), 1), err_msg=name)
        np.testing.assert_array_equal(next(found), 2 * x, err_msg=name)
