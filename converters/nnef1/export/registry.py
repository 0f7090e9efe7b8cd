"""Which function exports an operator: the tables of the modules in ``operators``."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tvm_nnef.converters.common.operator_modules import EXTRA, module_values
from tvm_nnef.converters.nnef1.export import operators
from tvm_nnef.converters.nnef1.export.invocation import ExportFunction
from tvm_nnef.converters.nnef1.main import LIBRARY

LIBRARIES = (LIBRARY, EXTRA)
"""The modules that converters write beside a model, which the table may name."""


@functools.cache
def table() -> Mapping[str, ExportFunction]:
    """The functions by qualified name of the operator; each module has a ``TABLE``.

    An operator that is not there is exported by what it is composed of.
    """
    found: dict[str, ExportFunction] = {}
    for name, functions in module_values(operators):
        found |= functions if name == "TABLE" else {}
    return found
