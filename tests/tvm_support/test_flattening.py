"""Quotients and remainders in indices: the offset in memory is the one that the formula says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tvm_nnef

Index = Callable[[np.ndarray, np.ndarray], np.ndarray]

COLUMNS: dict[str, Index] = {
    "(31 - j) % 16": lambda i, j: (31 - j) % 16,
    "(5 - j) % 8": lambda i, j: (5 - j) % 8,
    "(4 - 2 * j) % 16": lambda i, j: (4 - 2 * j) % 16,
    "(i - j) % 16": lambda i, j: (i - j) % 16,
    "(2 * i - j + 3) % 7": lambda i, j: (2 * i - j + 3) % 7,
    "(31 - j) / 2": lambda i, j: (31 - j) // 2,
    "(3 * i - 2 * j) / 3 % 16": lambda i, j: (3 * i - 2 * j) // 3 % 16,
    "(9 - j) % 32 / 4": lambda i, j: (9 - j) % 32 // 4,
    "(j % 4 + 3) / 4": lambda i, j: (j % 4 + 3) // 4,
    "(j % 4 + i % 3) / 2": lambda i, j: (j % 4 + i % 3) // 2,
    "(j / 4 + 3 * i) % 5": lambda i, j: (j // 4 + 3 * i) % 5,
    "(0 - (i + j) % 8) % 8": lambda i, j: (-((i + j) % 8)) % 8,
    "j % -4 / 2 % 16": lambda i, j: j % -4 // 2 % 16,
    "j % 6 / -3 % 16": lambda i, j: j % 6 // -3 % 16,
    "(i - j) / -2 % 16": lambda i, j: (i - j) // -2 % 16,
    "(j - 9) % -5 % -2 % 16": lambda i, j: (j - 9) % -5 % -2 % 16,
}
"""Columns of a matrix of 16 columns, for i and j in [0, 8) and [0, 16)."""


def model(statement: str, dims: str) -> str:
    """A model with an operator and an output for each column."""
    operators = "\n".join(
        f"operator f{number} {{ @input {{ x: real[n,m]; }} @output {{ y: real[n,m]; }} "
        f"@lower {{ {statement.replace('{}', text)}; }} }}"
        for number, text in enumerate(COLUMNS)
    )
    outputs = " ".join(f"y{number}: real[~..];" for number in range(len(COLUMNS)))
    lines = " ".join(f"y{number} = f{number}(x);" for number in range(len(COLUMNS)))
    return (
        f"{operators}\ngraph G {{ @input {{ x: real[{dims}]; }} @output {{ {outputs} }} "
        f"@compose {{ {lines} }} }}"
    )


@pytest.mark.parametrize(
    ("row", "dims"),
    [("i", "8,16"), ("0", "8,16"), pytest.param("i", "a|20,b|20", marks=pytest.mark.slow)],
    ids=str,
)
def test_quotients_and_remainders_in_indices(row: str, dims: str) -> None:
    x = np.arange(128, dtype="float32").reshape(8, 16)
    i, j = np.indices(x.shape)
    text = model(f"y[i,j] = x[{row}, {{}}], i < n, j < m", dims)
    found = tvm_nnef.build(text, route="formula", progress=False)(x)
    rows = i if row == "i" else 0
    wrong = [
        name
        for (name, column), each in zip(COLUMNS.items(), found, strict=True)
        if not np.array_equal(each, x[rows, column(i, j)])
    ]
    assert wrong == []
