"""Lookups in many numbers, which read a constant tensor instead of choosing item by item.

Input: a Formula. Output: its tables. Knows formulas only.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.graph.formula import Constant, Formula, Lookup, Scalar, ScalarType, scalars, walk
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic import dimensions

_LARGEST_SELECT_CHAIN = 8
"""A lookup with more items reads a table."""

TABLE_TYPES: Mapping[ScalarType, str] = {"real": "float64", "int": "int64", "bool": "bool"}
"""The dtype of a table, by the type of its numbers."""


def lookup_tables(formula: Formula) -> dict[tuple[Scalar, ...], Tensor]:
    """A constant tensor for each lookup in many numbers."""
    tables: dict[tuple[Scalar, ...], Tensor] = {}
    for statement in formula.statements:
        for scalar in (inner for outer in scalars(statement) for inner in walk(outer)):
            if isinstance(scalar, Lookup) and len(scalar.items) > _LARGEST_SELECT_CHAIN:
                numbers = (item.value for item in scalar.items if isinstance(item, Constant))
                values = [number for number in numbers if not dimensions.is_symbolic(number)]
                if len(values) == len(scalar.items):
                    name, shape = f"table{len(tables)}", (len(values),)
                    table = Tensor(name, scalar.type, shape, "constant", tuple(values))
                    tables.setdefault(scalar.items, table)
    return tables
