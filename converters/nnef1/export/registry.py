"""The functions that export operators, collected from the modules in ``operators``."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tvm_nnef.converters.common.operator_modules import EXTRA, module_values
from tvm_nnef.converters.nnef1.export import operators
from tvm_nnef.converters.nnef1.export.invocation import ExportFunction
from tvm_nnef.converters.nnef1.main import LIBRARY

LIBRARIES = (LIBRARY, EXTRA)
"""The modules that converters write next to a model; the table may name their operators."""


@functools.cache
def table() -> Mapping[str, ExportFunction]:
    """Return the functions by qualified name of the operator; each module has a ``TABLE``.

    An operator without an entry is exported by the operations of its body.
    """
    exporters: dict[str, ExportFunction] = {}
    for name, functions in module_values(operators):
        exporters |= functions if name == "TABLE" else {}
    return exporters
