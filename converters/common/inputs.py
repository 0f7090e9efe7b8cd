"""The inputs of a graph as tensors, with types and shapes from the source and the user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tvm_nnef.converters.common.bounds import Bounds, bound_of_dimension
from tvm_nnef.converters.common.symbolic import Shape, Size, Symbolic, symbol
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import MAX_RANK, PartialShape, PartialSize, Type
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean


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
    """A tensor for each input, and the dimensions that stay dynamic, by name.

    ``declared`` is what the source says about each input, ``shapes`` and ``dtypes`` what users give
    for some. A dimension that has a name and no number stays dynamic up to its bound. ``problems``
    are reported for inputs that stay unknown, ``others`` are names of inputs that are none of the
    graph, for which the user may give shapes as well. Raises NnefError, which lists everything.
    """
    found: list[Tensor] = []
    wrong: list[Diagnostic] = []
    symbols: dict[str, Symbolic] = {}
    completed = _completed(declared, shapes)
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
            wrong.append((problems or {}).get(name) or _partial_input(name, dtype, wanted, path))
            continue
        found.append(Tensor(dtype, shape, name))
    for name in sorted({*shapes, *dtypes} - {*declared, *others}):
        hint = did_you_mean(name, declared) or f"inputs are {', '.join(declared)}"
        wrong.append(Diagnostic(f"the model has no input '{name}'", hint=hint))
    if wrong:
        raise NnefError(wrong)
    return found, symbols


def _wrong_rank(
    name: str, shape: PartialShape, given: Sequence[int | str] | None, path: str
) -> Diagnostic | None:
    """What is wrong with the number of dimensions of an input, by the source or by the user."""
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
) -> Shape | None:
    """A shape with its names replaced by numbers or symbols; None if one has no bound."""
    sizes: list[Size] = []
    for axis, size in enumerate(wanted):
        key = f"{name}_{axis}" if size is None else size
        if not isinstance(key, str):
            sizes.append(key)
            continue
        if key in completed:
            sizes.append(completed[key])
            continue
        bound = bound_of_dimension(bounds, key, name, axis)
        if bound <= 0:
            return None
        if key not in symbols:
            symbols[key] = symbol(key, bound, len(symbols))
        sizes.append(symbols[key])
    return tuple(sizes)


def _completed(
    declared: Mapping[str, Type], shapes: Mapping[str, Sequence[int | str]]
) -> dict[str, int]:
    """The values of named dimensions that follow from the shapes given for some inputs."""
    return {
        name: size
        for key, known in declared.items()
        if key in shapes
        for name, size in zip(known.shape or (), shapes[key], strict=False)
        if isinstance(name, str) and isinstance(size, int)
    }


def _partial_input(name: str, dtype: str | None, dims: PartialShape, path: str) -> Diagnostic:
    if dtype is None:
        hint = f"give it: dtypes={{'{name}': 'float32'}}"
        return Diagnostic(f"the dtype of input '{name}' is not known", hint=hint, file=path)
    message = f"the shape of input '{name}' is not known ({_shown(dims)})"
    if dims is None:
        # Without a rank there is no dimension that a bound could be for.
        hint = f"give it: input_shapes={{'{name}': (1, 3)}} (--shape {name}=1,3)"
        return Diagnostic(message, hint=hint, file=path)
    names = [f"{name}_{axis}" if dim is None else dim for axis, dim in enumerate(dims)]
    open_ = next(each for each in names if isinstance(each, str))
    hint = (
        f"give it: input_shapes={{'{name}': (…)}} (--shape), "
        f"or bounds={{'{open_}': 16}} (--bound {open_}=16) to keep it dynamic"
    )
    return Diagnostic(message, hint=hint, file=path)
