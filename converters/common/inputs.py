"""The inputs of a graph as tensors, with types and shapes from the source and the user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tvm_nnef.converters.common.bounds import Bounds, bound_of_dimension
from tvm_nnef.converters.common.chosen_shapes import ChosenShapes, named_sizes
from tvm_nnef.converters.common.symbolic import Shape, Size, Symbolic, symbol
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import MAX_RANK, PartialShape, PartialSize, Type
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean
from tvm_nnef.symbolic.dimensions import UNLIMITED


def input_tensors(
    declared: Mapping[str, Type],
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
    path: str,
    *,
    problems: Mapping[str, Diagnostic] | None = None,
    others: Collection[str] = (),
) -> tuple[list[Tensor], dict[str, Symbolic]]:
    """Return a tensor for each input, and the dimensions that stay dynamic, by name.

    ``declared`` are the types of inputs in the source, ``shapes`` and ``dtypes`` the user's for
    some of them. A dimension without a number stays dynamic, up to its bound if it has one.
    ``problems`` are reported for inputs that stay unknown. ``others`` are names of inputs that the
    graph does not have, for which the user may give shapes as well. Raises NnefError, which lists
    all errors.
    """
    tensors: list[Tensor] = []
    wrong: list[Diagnostic] = []
    symbols: dict[str, Symbolic] = {}
    if isinstance(shapes, ChosenShapes):
        shapes.complete(declared, bounds)
    completed = named_sizes(declared, shapes)
    for name, known in declared.items():
        given = shapes.get(name)
        rank = _wrong_rank(name, known.shape, given, path)
        if rank is not None:
            wrong.append(rank)
            continue
        dtype = dtypes.get(name) or known.dtype
        wanted: PartialShape = known.shape if given is None else tuple(given)
        shape = None if wanted is None else _shape(name, wanted, completed, bounds, symbols)
        if dtype is None or shape is None:
            wrong.append((problems or {}).get(name) or _partial_input(name, dtype, path))
            continue
        tensors.append(Tensor(dtype, shape, name))
    for name in sorted({*shapes, *dtypes} - {*declared, *others}):
        hint = did_you_mean(name, declared) or f"inputs are {', '.join(declared)}"
        wrong.append(Diagnostic(f"the model has no input '{name}'", hint=hint))
    if wrong:
        raise NnefError(wrong)
    return tensors, symbols


def _wrong_rank(
    name: str, shape: PartialShape, given: Sequence[int | str] | None, path: str
) -> Diagnostic | None:
    """Return the error in the rank of an input, from the source or the user.

    It is None if there is none.
    """
    if given is not None and shape is not None and len(given) != len(shape):
        shown = ", ".join(map(str, given))
        message = f"the shape given for input '{name}' ({shown}) has {len(given)} dimensions"
        message += f", but the model declares {len(shape)} ({_shown(shape)})"
        example = ",".join(f"{each}" if isinstance(each, int) else "1" for each in shape)
        return Diagnostic(message, hint=f"give all of them, as in --shape {name}={example}")
    rank = len(shape or given or ())
    if rank > MAX_RANK:
        message = f"input '{name}' has {rank} dimensions, and the limit is {MAX_RANK}"
        return Diagnostic(message, hint="use fewer dimensions", file=path)
    return None


def _shown(shape: PartialShape) -> str:
    if shape is None:
        return "no rank"
    return ", ".join("?" if size is None else str(size) for size in shape) or "a scalar"


def _shape(
    name: str,
    wanted: Sequence[PartialSize],
    completed: Mapping[str, int],
    bounds: Bounds,
    symbols: dict[str, Symbolic],
) -> Shape:
    """Return a shape with its names replaced by numbers or symbols."""
    sizes: list[Size] = []
    for axis, size in enumerate(wanted):
        key = f"{name}_{axis}" if size is None else size
        if not isinstance(key, str):
            sizes.append(key)
            continue
        if key in completed:
            sizes.append(completed[key])
            continue
        if key not in symbols:
            bound = bound_of_dimension(bounds, key, name, axis) or UNLIMITED
            symbols[key] = symbol(key, bound, len(symbols))
        sizes.append(symbols[key])
    return tuple(sizes)


def _partial_input(name: str, dtype: str | None, path: str) -> Diagnostic:
    if dtype is None:
        hint = f"give it: dtypes={{'{name}': 'float32'}}"
        return Diagnostic(f"the dtype of input '{name}' is not known", hint=hint, file=path)
    message = f"the rank of input '{name}' is not known"
    hint = f"give its shape: input_shapes={{'{name}': (1, 3)}} (--shape {name}=1,3)"
    return Diagnostic(message, hint=hint, file=path)
