"""The inputs of a model as tensors, as the model and the user settle their types and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from tvm_nnef.converters.common.bounds import Bounds, bound_of_extent, check_bounds
from tvm_nnef.converters.common.symbolic import Extent, Shape, Symbolic, symbol
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Open, OpenShape, Type
from tvm_nnef.converters.onnx.bounds import bounded_names, dynamic_dimensions
from tvm_nnef.converters.onnx.inference import type_of
from tvm_nnef.converters.onnx.limits import MAX_RANK
from tvm_nnef.converters.onnx.reading import OnnxModel
from tvm_nnef.converters.onnx.types import NUMBER_OF, dimension_name, type_name
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean


def graph_inputs(
    model: OnnxModel,
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
) -> tuple[list[Tensor], dict[str, Symbolic]]:
    """A tensor for each input that is no initializer, and the extents that stay open, by name.

    An extent is what ``shapes`` says, else what the model says; a name (of ONNX or of the user)
    that has no number there stays open up to its bound. Raises NnefError, which lists all inputs
    that are not settled.
    """
    graph, problems = model.proto.graph, list[Diagnostic]()
    given_names = (each for shape in shapes.values() for each in shape if isinstance(each, str))
    bounded = {*bounded_names(graph), *given_names}
    check_bounds(bounds, bounded, list(dynamic_dimensions(graph)))
    constants = {tensor.name for tensor in graph.initializer}
    settled = _settled(graph, shapes)
    symbols: dict[str, Symbolic] = {}
    found = []
    for value in graph.input:
        if value.name in constants:
            continue
        known, given = type_of(value.type), shapes.get(value.name)
        wrong = _wrong_rank(model, value.name, known.shape, given)
        if wrong is not None:
            problems.append(wrong)
            continue
        dtype = dtypes.get(value.name) or known.dtype
        wanted: OpenShape = known.shape if given is None else tuple(given)
        shape = None if wanted is None else _shape(value.name, wanted, settled, bounds, symbols)
        if dtype is None or shape is None:
            problems.append(_open_input(model, value, known, wanted))
            continue
        found.append(Tensor(dtype, shape, value.name))
    names = [value.name for value in graph.input if value.name not in constants]
    for name in sorted({*shapes, *dtypes} - {value.name for value in graph.input}):
        hint = did_you_mean(name, names) or f"inputs are {', '.join(names)}"
        problems.append(Diagnostic(f"the model has no input '{name}'", hint=hint))
    if problems:
        raise NnefError(problems)
    return found, symbols


def _wrong_rank(
    model: OnnxModel, name: str, shape: OpenShape, given: Sequence[int | str] | None
) -> Diagnostic | None:
    """What is wrong with the number of dimensions of an input, by the model or by the user."""
    if given is not None and shape is not None and len(given) != len(shape):
        shown = ", ".join(map(str, given))
        message = f"the shape given for input '{name}' ({shown}) has {len(given)} dimensions"
        message += f", but the model declares {len(shape)} ({_shown(shape)})"
        example = ",".join(f"{each}" if isinstance(each, int) else "1" for each in shape)
        return Diagnostic(message, hint=f"give all of them, as in --shape {name}={example}")
    rank = len(shape or given or ())
    if rank > MAX_RANK:
        message = f"input '{name}' has {rank} dimensions, and the limit is {MAX_RANK}"
        return Diagnostic(message, hint="use fewer dimensions", file=model.path)
    return None


def _shown(shape: OpenShape) -> str:
    if shape is None:
        return "no rank"
    return ", ".join("?" if extent is None else str(extent) for extent in shape) or "a scalar"


def _shape(
    name: str,
    wanted: Sequence[Open],
    settled: Mapping[str, int],
    bounds: Bounds,
    symbols: dict[str, Symbolic],
) -> Shape | None:
    """A shape with its names replaced by numbers or symbols; None where one has no bound."""
    extents: list[Extent] = []
    for axis, extent in enumerate(wanted):
        key = f"{name}_{axis}" if extent is None else extent
        if not isinstance(key, str):
            extents.append(key)
            continue
        if key in settled:
            extents.append(settled[key])
            continue
        bound = bound_of_extent(bounds, key, name, axis)
        if bound <= 0:
            return None
        if key not in symbols:
            symbols[key] = symbol(key, bound, len(symbols))
        extents.append(symbols[key])
    return tuple(extents)


def _settled(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int | str]]) -> dict[str, int]:
    """The values of named extents that the shapes given for some inputs settle."""
    found: dict[str, int] = {}
    for value in graph.input:
        if value.name in shapes and value.type.HasField("tensor_type"):
            dims = value.type.tensor_type.shape.dim
            for dim, extent in zip(dims, shapes[value.name], strict=False):
                key = dimension_name(dim)
                if key is not None and isinstance(extent, int):
                    found[key] = extent
    return found


def _open_input(
    model: OnnxModel, value: onnx.ValueInfoProto, known: Type, dims: OpenShape
) -> Diagnostic:
    form = value.type.WhichOneof("value") or "nothing"
    if form != "tensor_type":
        message = f"input '{value.name}' is of kind {form}; only tensors can be converted"
        hint = "give the tensors that it holds as inputs of their own, and join them in the model"
        return Diagnostic(message, hint=hint, file=model.path)
    if known.dtype is None:
        name = type_name(value.type.tensor_type.elem_type)
        message = f"input '{value.name}' has elements of type {name}, which cannot be converted"
        hint = (
            "encode texts as integers before the model"
            if name == "string"
            else f"types that can be: {', '.join(sorted(NUMBER_OF))}"
        )
        return Diagnostic(message, hint=hint, file=model.path)
    message = f"the shape of input '{value.name}' is not known ({_shown(dims)})"
    if dims is None:
        # Without a rank there is no dimension that a bound could be for.
        hint = f"give it: input_shapes={{'{value.name}': (1, 3)}} (--shape {value.name}=1,3)"
        return Diagnostic(message, hint=hint, file=model.path)
    names = [f"{value.name}_{axis}" if dim is None else dim for axis, dim in enumerate(dims)]
    open_ = next(name for name in names if isinstance(name, str))
    hint = (
        f"give it: input_shapes={{'{value.name}': (…)}} (--shape), "
        f"or bounds={{'{open_}': 16}} (--bound {open_}=16) to keep it open"
    )
    return Diagnostic(message, hint=hint, file=model.path)
