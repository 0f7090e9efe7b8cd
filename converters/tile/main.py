"""The converter of Tile functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tvm_nnef.converters.common.assembly import assemble_graph
from tvm_nnef.converters.common.bounds import Bounds
from tvm_nnef.converters.common.input_options import shapes_given
from tvm_nnef.converters.tile.conversion import convert_trace
from tvm_nnef.converters.tile.functions import file_of, is_function, trace_function
from tvm_nnef.converters.tile.text.program import trace_text
from tvm_nnef.converters.tile.text.reading import read_text
from tvm_nnef.graph.machine_types import dtypes_given
from tvm_nnef.model.model import Model
from tvm_nnef.version import __version__

Source: TypeAlias = "Callable[..., Any] | str | bytes | os.PathLike[str]"


def convert(
    source: Source,
    *,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    bounds: Bounds = 0,
    arguments: Mapping[str, Any] | None = None,
    function: str | None = None,
    outline: bool = True,
) -> Model:
    """Convert a Tile function to a SkriptND model.

    Parameters
    ----------
    source : function, str, bytes or path
        A Python function, which is called once with tensors instead of arrays; or a text in C++,
        or a file of it, which is parsed.
    input_shapes : mapping, optional
        The shape of each input: numbers, and names for dynamic dimensions. Without it dimensions
        are dynamic and called as ``bind_dims`` calls them.
    dtypes : mapping, optional
        NumPy's dtypes of inputs; ``float32`` by default.
    bounds : int or mapping, optional
        The largest values of dynamic dimensions, one for all or by name: ``{"N": 64}``.
    arguments : mapping, optional
        Values of parameters that are not tensors, such as strides.
    function : str, optional
        Which function of a text; by default the one that no other calls.
    outline : bool
        Whether blocks of operations that repeat become their own operators.

    Returns
    -------
    Model
        One operator with a ``@lower`` formula for each contraction, and a graph that invokes them.

    Raises
    ------
    NnefError
        For mistakes, with the line of the source.

    Examples
    --------
    >>> from tvm_nnef.converters.tile import TensorDims, TensorIndexes, TensorOutput, convert
    >>> def total(I):
    ...     M, N = TensorDims(2)
    ...     m, n = TensorIndexes(2)
    ...     I.bind_dims(M, N)
    ...     O = TensorOutput(N)
    ...     O[n] += I[m, n]
    ...     return O
    >>> convert(total, input_shapes={"I": (2, 3)}).graphs
    ('Total',)
    """
    shapes, named = shapes_given(input_shapes), dtypes_given(dtypes)
    if is_function(source):
        path = file_of(source)
        trace = trace_function(source, arguments or {})  # type: ignore[arg-type]
    else:
        text = read_text(source)  # type: ignore[arg-type]
        path = text.path
        trace = trace_text(text, arguments or {}, function)
    graph, operators = convert_trace(trace, shapes, named, bounds, path)
    where = "" if path.startswith("<") else f" of '{Path(path).name}'"
    assembled = assemble_graph(
        graph,
        "".join(part[:1].upper() + part[1:] for part in trace.name.split("_")) or "G",
        path=path,
        header=f"Converted from the Tile function '{trace.name}'{where} by tvm-nnef {__version__}.",
        definitions=operators,
        outline=outline,
    )
    return Model(*assembled)
