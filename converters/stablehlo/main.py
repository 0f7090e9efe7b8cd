"""The converter of StableHLO modules: a module is read, converted, named, and assembled as a
model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_nnef.converters.common.assembly import assemble_graph
from tvm_nnef.converters.common.bounds import Bounds
from tvm_nnef.converters.common.input_options import shapes_given
from tvm_nnef.converters.common.operator_modules import EXTRA, Library
from tvm_nnef.converters.stablehlo.conversion import convert_module
from tvm_nnef.converters.stablehlo.operation import OperatorFunction
from tvm_nnef.converters.stablehlo.reading import read
from tvm_nnef.graph.machine_types import dtypes_given
from tvm_nnef.model.model import Model
from tvm_nnef.version import __version__

LIBRARY = Library(
    "xla", "tvm_nnef.stdlib.extensions", "XLA operators that the standard library lacks"
)
"""Operators of XLA."""


def convert(
    source: Any,
    *,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    bounds: Bounds = 0,
    converters: Mapping[str, OperatorFunction] | None = None,
    outline: bool = True,
) -> Model:
    """Convert a StableHLO module to a SkriptND model.

    ``source`` is a result of ``jax.export.export(f)(…)`` or ``jax.jit(f).lower(…)``, the module's
    text or bytes, or a file of either. ``input_shapes`` gives dynamic dimensions sizes, by input; a
    dimension with a name stays dynamic up to its bound: ``bounds={"batch": 16}``, or one number for
    all. ``converters`` are functions ``(operation, builder) -> tensor or tensors`` by the target of
    a custom call, or by operation (``"stablehlo.add"``). Repeated blocks of operations become
    operators of the model, unless ``outline`` is false.

    Raises NnefError, which lists every operation that cannot be converted, the reason, and a
    hint.
    """
    module = read(source)
    shapes, named = shapes_given(input_shapes), dtypes_given(dtypes)
    graph = convert_module(module, shapes, named, bounds, converters or {})
    assembled = assemble_graph(
        graph,
        module.name,
        path=module.path,
        header=f"Converted from a StableHLO module by tvm-nnef {__version__}.",
        libraries=(EXTRA, LIBRARY),
        outline=outline,
    )
    return Model(*assembled)
