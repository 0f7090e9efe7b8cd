"""Which function exports an operator: a table of the modules in ``operators``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from tvm_nnef.converters.common.operator_modules import module_values
from tvm_nnef.converters.onnx.export import operators
from tvm_nnef.converters.onnx.export.invocation import ExportFunction


@dataclass(frozen=True, slots=True)
class Rule:
    """A function that exports an operator, and whether the operator only moves elements.

    What computes is exported in the dtypes in which its formula computes (design law 11); what
    moves keeps the dtypes of its tensors.
    """

    function: ExportFunction
    moves: bool


@functools.cache
def rules() -> Mapping[str, Rule]:
    """The rules by qualified name of the operator.

    Each module of ``operators`` has ``COMPUTING`` or ``MOVING``, or both. An operator that is not
    there is exported by what it is made of, or by its formula.
    """
    found: dict[str, Rule] = {}
    for table, functions in module_values(operators):
        if table in ("COMPUTING", "MOVING"):
            moves = table == "MOVING"
            found |= {name: Rule(function, moves) for name, function in functions.items()}
    return found
