"""Which function exports an operator: a table of the modules in ``operators``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass

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
    for each in pkgutil.iter_modules(operators.__path__):
        module = importlib.import_module(f"{operators.__name__}.{each.name}")
        for table, moves in (("COMPUTING", False), ("MOVING", True)):
            entries: Mapping[str, ExportFunction] = getattr(module, table, {})
            found |= {name: Rule(function, moves) for name, function in entries.items()}
    return found
