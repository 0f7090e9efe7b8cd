"""Inference of sizes and dtypes of the tensors of a trace, from those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvm_nnef.converters.common.bounds import Bounds, check_bounds
from tvm_nnef.converters.common.inputs import input_tensors
from tvm_nnef.converters.common.names import Namer
from tvm_nnef.converters.common.symbolic import Size, largest
from tvm_nnef.converters.common.tensors import Tensor as GraphTensor
from tvm_nnef.converters.common.types import Type, kind
from tvm_nnef.converters.tile.dimensions import Dim, Symbol, evaluate, substitute
from tvm_nnef.converters.tile.locations import Mistake
from tvm_nnef.converters.tile.tracing import Output, Tensor, Trace
from tvm_nnef.diagnostics import NnefError

DEFAULT = "float32"
"""The dtype of inputs; Tile's texts have none."""


class Sizes:
    """The values of dimensions, and the names that are bound to others.

    ``wrong`` has, by the id of an input, the error if its sizes differ from those that are
    bound.
    """

    def __init__(self) -> None:
        self.wrong: dict[int, NnefError] = {}
        self.values: dict[Symbol, Size] = {}
        self.aliases: dict[Symbol, Dim] = {}

    def resolved(self, dim: Dim) -> Dim:
        """Return the expression in terms of sizes of inputs. Raises Mistake for an unbound name."""
        return substitute(dim, self._resolved)

    def _resolved(self, symbol: Symbol) -> Dim:
        if symbol in self.aliases:
            return self.aliases[symbol]
        if symbol not in self.values:
            raise Mistake(
                f"size '{symbol.name or 'without a name'}' is not known",
                "bind it: I.bind_dims(N)",
            )
        return Dim({symbol: 1})

    def value(self, dim: Dim) -> Size:
        """Return the value of a resolved expression."""
        return evaluate(dim, self.values.__getitem__)

    def shape(self, shape: Sequence[Dim]) -> tuple[Size, ...]:
        """Return the values of resolved expressions."""
        return tuple(map(self.value, shape))

    def number(self, dim: Dim) -> int:
        """Return the value, at the largest sizes of dynamic dimensions."""
        value = evaluate(dim, lambda symbol: largest(self.values[symbol]))
        assert isinstance(value, int)
        return value

    def bind(self, tensor: Tensor, shape: Sequence[Dim]) -> None:
        """Bind the names of ``bind_dims``. Raises Mistake if sizes differ."""
        for binding in tensor.bindings:
            name = tensor.name or "the tensor"
            if len(binding.dims) != len(shape):
                raise Mistake(
                    f"'{name}' has {len(shape)} dimensions, but bind_dims has {len(binding.dims)}",
                    "bind each dimension once",
                    binding.location,
                )
            for axis, (dim, size) in enumerate(zip(binding.dims, shape, strict=True)):
                if dim.key not in self.values and dim.key not in self.aliases:
                    self.aliases[dim.key] = size
                    continue
                known, found = self.value(self.resolved(dim)), self.value(size)
                if known != found:
                    raise Mistake(
                        f"'{dim.name}' is {known}, but dimension {axis} of '{name}' is {found}",
                        f"give '{name}' a shape with {known} at this dimension",
                        binding.location,
                    )


def complete_inputs(
    trace: Trace,
    tensors: Sequence[Tensor],
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
    path: str,
) -> tuple[list[GraphTensor], list[tuple[Dim, ...]], Sizes]:
    """Return a graph input for each input, its sizes, and the values of all dimensions."""
    ranks = _ranks(tensors)
    named = [_symbols(each, ranks.get(id(each))) for each in trace.inputs]
    keys = _keys(trace.inputs, named)
    declared = {
        tensor.name: Type(
            DEFAULT, None if own is None else tuple(None if s is None else keys[s] for s in own)
        )
        for tensor, own in zip(trace.inputs, named, strict=True)
    }
    dynamic = [
        f"{name}_{axis}" if each is None else str(each)
        for name, known in declared.items()
        for axis, each in enumerate(known.shape or ())
    ]
    given = [each for shape in shapes.values() for each in shape if isinstance(each, str)]
    check_bounds(bounds, {*declared, *dynamic, *given}, dynamic)
    found, _ = input_tensors(declared, shapes, dtypes, bounds, path)
    sizes = Sizes()
    dims: list[tuple[Dim, ...]] = []
    for tensor, own, made in zip(trace.inputs, named, found, strict=True):
        axes = own or (None,) * len(made.shape)
        shape: list[Dim] = []
        for axis, (symbol, size) in enumerate(zip(axes, made.shape, strict=True)):
            first = symbol is not None and symbol not in sizes.values
            key = symbol if symbol and first else Symbol(f"{tensor.name}_{axis}")
            sizes.values[key] = size
            key.least = 0 if size == 0 else 1
            shape.append(Dim({key: 1}))
        try:
            sizes.bind(tensor, shape)
        except Mistake as mistake:
            sizes.wrong[id(tensor)] = mistake.at(trace.location)
        # Equal sizes have one name.
        pairs = zip(axes, shape, strict=True)
        dims.append(tuple(sizes.resolved(Dim({s: 1})) if s else d for s, d in pairs))
    return found, dims, sizes


def _symbols(tensor: Tensor, rank: int | None) -> tuple[Symbol | None, ...] | None:
    if tensor.bindings:
        return tuple(each.key for each in tensor.bindings[0].dims)
    return None if rank is None else (None,) * rank


def _keys(
    inputs: Sequence[Tensor], named: Sequence[tuple[Symbol | None, ...] | None]
) -> dict[Symbol, str]:
    """Return a name for each dimension that users can give a bound."""
    namer = Namer(each.name for each in inputs)
    names: dict[Symbol, str] = {}
    for own in named:
        for symbol in own or ():
            if symbol is not None and symbol not in names:
                names[symbol] = namer.name(symbol.name or "size")
    return names


def _ranks(tensors: Sequence[Tensor]) -> dict[int, int]:
    """Return the ranks of tensors that are bound or read by index, and of their operands."""
    ranks: dict[int, int] = {}
    for tensor in reversed(tensors):
        if tensor.ranks:
            ranks[id(tensor)] = tensor.ranks[0][0]
        operands = tensor.made.operands if tensor.made else ()
        only = [each for each in operands if isinstance(each, Tensor)]
        if id(tensor) in ranks and len({id(each) for each in only}) == 1:
            ranks.setdefault(id(only[0]), ranks[id(tensor)])
    return ranks


def broadcast(shapes: Sequence[Sequence[Dim]], sizes: Sizes) -> tuple[Dim, ...]:
    """Return the shape to which shapes broadcast, aligned from the right."""
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = []
    for axis in range(rank, 0, -1):
        column = [shape[-axis] for shape in shapes if len(shape) >= axis]
        candidates = [each for each in column if sizes.value(each) != 1] or column[:1]
        wrong = next(
            (each for each in candidates if sizes.value(each) != sizes.value(candidates[0])), None
        )
        if wrong is not None:
            shown = " and ".join(f"[{', '.join(str(sizes.value(d)) for d in s)}]" for s in shapes)
            raise Mistake(
                f"shapes {shown} do not broadcast",
                "sizes must be equal or 1, aligned from the right",
            )
        result.append(candidates[0])
    return tuple(result)


def promoted(dtypes: Sequence[str], *, real: bool = False, least: str = "int32") -> str:
    """Return the dtype of arithmetic: reals have priority over integers, these over truth
    values.
    """
    for wanted in ("real", "int"):
        own = [each for each in dtypes if kind(each) == wanted]
        if own and (wanted == "real" or not real):
            return own[0] if len({*own}) == 1 else str(np.result_type(*map(np.dtype, own)))
    return DEFAULT if real else least


def check_output(output: Output, shape: Sequence[Dim], sizes: Sizes) -> None:
    """Raise Mistake for negative sizes."""
    for axis, dim in enumerate(shape):
        size = sizes.value(dim)
        if isinstance(size, int) and size < 0:
            raise Mistake(
                f"dimension {axis} of output '{output.name}' is {size}",
                "correct the size, or give larger inputs",
                output.location,
            )
