# ruff: noqa: E741 -- as the tutorial writes contractions and names
"""The rules of valid indices, against an enumeration of all integers that could be valid."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.tile import TensorIndexes, TensorOutput, convert

pytestmark = pytest.mark.sampled(3)

START = {"+=": 0.0, "*=": 1.0, ">=": -np.inf, "<=": np.inf}
MERGE = {"+=": np.add, "*=": np.multiply, ">=": np.maximum, "<=": np.minimum}


@dataclass(frozen=True)
class Case:
    """``O[rows of output] operator I[…] * …``; rows have factors, and a constant.

    ``bounds`` are constraints: a row, and its exclusive bound.
    """

    operator: str
    sizes: tuple[int, ...]
    output: tuple[tuple[int, ...], ...]
    operands: tuple[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], ...]
    bounds: tuple[tuple[tuple[int, ...], int], ...] = ()

    @property
    def variables(self) -> int:
        rows = [*self.output, *(row for _, rows in self.operands for row in rows)]
        return len(rows[0]) - 1


def traced(case: Case) -> Any:
    """The case as a Tile function of one or two inputs."""

    def contraction(*tensors: Any) -> Any:
        indices = TensorIndexes(case.variables)

        def at(row: tuple[int, ...]) -> Any:
            total: Any = 0 * indices[0] + row[-1]
            for factor, index in zip(row, indices, strict=False):
                total = total + factor * index if factor else total
            return total

        O = TensorOutput(*case.sizes)
        read = [
            t[tuple(map(at, rows))] for t, (_, rows) in zip(tensors, case.operands, strict=True)
        ]
        value = read[0] if len(read) == 1 else read[0] * read[1]
        for row, bound in case.bounds:
            O.add_constraint(at(row) < bound)
        O[tuple(map(at, case.output))].aggregate(case.operator, value)
        return O

    if len(case.operands) == 1:
        return lambda A: contraction(A)
    return lambda A, B: contraction(A, B)


def enumerated(case: Case, tensors: list[np.ndarray], reach: int = 12) -> np.ndarray:
    """What the rules say, of every combination of integers near 0."""
    found = np.full(case.sizes, START[case.operator])
    written = np.zeros(case.sizes, bool)

    def at(rows: Any, values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sum(f * v for f, v in zip(row, (*values, 1), strict=True)) for row in rows)

    def fits(position: tuple[int, ...], shape: tuple[int, ...]) -> bool:
        return all(0 <= p < s for p, s in zip(position, shape, strict=True))

    for values in itertools.product(range(-reach, reach + 1), repeat=case.variables):
        position = at(case.output, values)
        positions = [at(rows, values) for _, rows in case.operands]
        limits = at([row for row, _ in case.bounds], values)
        if (
            fits(position, case.sizes)
            and all(fits(p, t.shape) for p, t in zip(positions, tensors, strict=True))
            and fits(limits, tuple(bound for _, bound in case.bounds))
        ):
            value = np.prod([t[p] for p, t in zip(positions, tensors, strict=True)])
            found[position] = MERGE[case.operator](found[position], value)
            written[position] = True
    return np.where(written, found, 0)


# Rows have factors of i, j (and k), then the constant.
CASES = [
    Case("+=", (6,), ((2, 0, 0),), (((4, 3), ((1, 0, 0), (0, 1, 0))),)),
    Case(">=", (6,), ((2, 0, 0),), (((4, 3), ((1, 0, 0), (0, 1, 0))),)),
    Case("<=", (7,), ((1, 0, 0),), (((5, 3), ((1, 0, -1), (0, 1, 0))),)),
    Case("*=", (5,), ((1, 0, 0),), (((4, 3), ((1, 0, 0), (0, 1, 0))),)),
    Case("+=", (9,), ((1, 1, 0),), (((5,), ((1, 0, 0),)), ((4,), ((0, 1, 0),)))),
    Case(">=", (12,), ((2, 1, 0),), (((5,), ((1, 0, 0),)), ((4,), ((0, 1, 0),)))),
    Case("+=", (9,), ((1, 1, 0),), (((5,), ((1, -1, 0),)),)),
    Case(">=", (4,), ((2, 3, 0),), (((5,), ((1, -1, 0),)),)),
    Case("+=", (3, 3), ((1, 0, 0), (1, 0, 0)), (((3, 2), ((1, 0, 0), (0, 1, 0))),)),
    Case("+=", (), (), (((3, 3), ((1, 0), (1, 0))),)),
    Case("+=", (5,), ((-1, 0, 4),), (((5, 2), ((1, 0, 0), (0, 1, 0))),)),
    Case(">=", (5,), ((1, 0, 0),), (((10,), ((2, 1, -1),)),), (((0, 1, 0), 3),)),
    Case(">=", (6,), ((1, 0, 0),), (((10,), ((2, 1, -2),)),), (((0, 1, 0), 2),)),
    Case("<=", (4,), ((1, 0, 0),), (((6,), ((0, 1, 0),)),), (((1, -1, 0), 4),)),
    Case(">=", (4,), ((1, 0, 0),), (((6,), ((0, 1, 0),)),), (((1, -1, -1), 4),)),
    Case("+=", (4,), ((1, 0, 0),), (((6,), ((0, 1, 0),)),), (((1, 1, -5), 2),)),
    Case("+=", (4, 2), ((1, 0, 0), (0, 0, 1)), (((3, 5), ((0, 1, 0), (1, 1, 0))),)),
    Case("+=", (4,), ((1, 5),), (((6,), ((1, 2),)),)),
    Case("+=", (4,), ((1, 0, 0),), (((2,), ((1, 0, -9),)),)),
    Case("+=", (3, 4), ((1, 0, 0), (0, 1, 0)), (((2,), ((1, 0, 0),)),)),
    Case(
        "+=", (8,), ((0, 0, 1, 0),), (((8,), ((1, 2, 0, 0),)),),
        (((1, 0, -1, 2), 4), ((0, 1, 0, 0), 3)),
    ),
    Case("+=", (6,), ((3, -2, 0),), (((5, 4), ((1, 0, 0), (0, 1, 0))),)),
    Case(">=", (5,), ((1, 0, 0),), (((3, 5), ((0, 2, 0), (1, 0, 0))),)),
    # Skipped elements of each aggregation, none valid at all, negative factors everywhere.
    Case("*=", (7,), ((2, 0, 0),), (((4, 3), ((1, 0, 0), (0, 1, 0))),)),
    Case("<=", (7,), ((-2, 0, 5),), (((4, 3), ((1, 0, 0), (0, -1, 2))),)),
    Case("<=", (4,), ((1, 0, 0),), (((2,), ((1, 0, -9),)),)),
    Case("*=", (4,), ((1, 0, 0),), (((6,), ((0, 1, 0),)),), (((0, 1, 0), 0),)),
    Case(">=", (5, 5), ((1, 0, 0), (-1, 0, 4)), (((5, 2), ((1, 0, 0), (0, 1, 0))),)),
    Case("+=", (), (), (((4,), ((-2, 3),)),)),
    Case("*=", (3,), ((1, -1, 1),), (((4,), ((1, 1, -1),)), ((5,), ((0, 2, 1),)))),
    Case("+=", (4,), ((-1, 0, 3),), (((3, 3), ((1, 1, 0), (1, -1, 0))),), (((2, 3, -4), 6),)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_contraction_reads_and_writes_what_is_valid(case: Case) -> None:
    generator = np.random.default_rng(1)
    tensors = [generator.standard_normal(shape).astype(np.float32) for shape, _ in case.operands]
    names = dict(zip("AB", (shape for shape, _ in case.operands), strict=False))
    model = convert(traced(case), input_shapes=names)
    expected = enumerated(case, tensors)
    (evaluated,) = tvm_nnef.evaluate(model, *tensors)
    np.testing.assert_allclose(evaluated, expected, rtol=1e-4, atol=1e-5)
    (compiled,) = tvm_nnef.build(model, progress=False)(*tensors)
    np.testing.assert_allclose(compiled, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_contraction_of_dynamic_sizes_reads_and_writes_what_is_valid(case: Case) -> None:
    generator = np.random.default_rng(2)
    model = convert(traced(case), bounds=12)
    larger = [tuple(size + 1 for size in shape) for shape, _ in case.operands]
    for shapes in ([shape for shape, _ in case.operands], larger):
        tensors = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
        (found,) = tvm_nnef.evaluate(model, *tensors)
        np.testing.assert_allclose(found, enumerated(case, tensors), rtol=1e-4, atol=1e-5)


def random_case(generator: np.random.Generator) -> Case:
    """A contraction of two variables that is bounded in most cases."""

    def row() -> tuple[int, ...]:
        i, j = (int(generator.choice([-1, 0, 1, 1, 2, 3])) for _ in range(2))
        return (i, j, int(generator.integers(-3, 4)))

    shape = (int(generator.integers(2, 6)), int(generator.integers(2, 5)))
    bounds = ((row(), int(generator.integers(1, 6))),) if generator.integers(2) else ()
    operator = str(generator.choice(list(START)))
    return Case(
        operator, (int(generator.integers(2, 8)),), (row(),), ((shape, (row(), row())),), bounds
    )


@pytest.mark.slow
def test_random_contractions_follow_the_rules() -> None:
    generator = np.random.default_rng(7)
    tried = 0
    for _ in range(30):
        case = random_case(generator)
        shape = case.operands[0][0]
        tensor = generator.standard_normal(shape).astype(np.float32)
        try:
            model = convert(traced(case), input_shapes={"A": shape})
        except tvm_nnef.NnefError as problem:
            assert "has no" in str(problem), case
            continue
        (found,) = tvm_nnef.evaluate(model, tensor)
        expected = enumerated(case, [tensor], reach=25)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=str(case))
        tried += 1
    assert tried > 12


@pytest.mark.parametrize("operator", START)
def test_elements_without_a_value_are_zero(operator: str) -> None:
    case = Case(operator, (3,), ((0, 1, 0),), (((0, 3), ((1, 0, 0), (0, 1, 0))),))
    x = np.zeros((0, 3), np.float32)
    (found,) = tvm_nnef.evaluate(convert(traced(case), input_shapes={"A": (0, 3)}), x)
    np.testing.assert_array_equal(found, np.zeros(3, np.float32))


def test_elements_that_are_not_written_are_zero_in_an_assignment() -> None:
    def spread(I):
        i, _ = TensorIndexes(2)
        O = TensorOutput(7)
        O[3 * i + 1] = I[i]
        return O

    model = convert(spread, input_shapes={"I": (2,)})
    for run in (tvm_nnef.evaluate, lambda m, *x: tvm_nnef.build(m, progress=False)(*x)):
        (found,) = run(model, np.array([5, 6], np.float32))
        np.testing.assert_array_equal(found, [0, 5, 0, 0, 6, 0, 0])
