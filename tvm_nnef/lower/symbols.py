"""Symbols of a Graph in what is lowered: which ones occur, and which are arguments of a function.

While a module is made, all of its functions share the symbols of the Graph; each gets symbols of
its own in the end (:func:`separated`). Dimensions in, TIR variables out; no arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tvm import relax, tirx

from tvm_nnef.symbolic.dimensions import Dimension, is_symbolic
from tvm_nnef.tvm_support.compat import Module, RelaxExpression, update_functions, with_own_symbols
from tvm_nnef.tvm_support.function_attributes import SIZE_ESTIMATES

Symbol: TypeAlias = Any
"""A TIR variable that stands for a dimension."""


def occurring(values: Iterable[object]) -> list[Symbol]:
    """The symbols of dimensions, each once; what is not a dimension has none."""
    found: dict[Symbol, None] = {}
    for value in values:
        if is_symbolic(value):
            found.update(dict.fromkeys(tirx.analysis.undefined_vars(value)))
    return list(found)


def own(shape: Sequence[Dimension]) -> list[Symbol]:
    """The symbols that are their own dimensions in a shape: the shape defines them."""
    return [size for size in shape if isinstance(size, tirx.Var)]


def untold(shapes: Sequence[Sequence[Dimension]], others: Iterable[object] = ()) -> list[Symbol]:
    """The symbols in shapes, and in other dimensions, that no shape defines."""
    defined = {symbol for shape in shapes for symbol in own(shape)}
    everything = [*(size for shape in shapes for size in shape), *others]
    return [symbol for symbol in occurring(everything) if symbol not in defined]


def sizes(symbols: Iterable[Symbol]) -> list[RelaxExpression]:
    """The argument that gives a function the values of symbols; none if there are no symbols."""
    found = list(symbols)
    return [relax.ShapeExpr(found)] if found else []


def separated(mod: Module, sizes: Mapping[str, int]) -> Module:
    """A module in which each Relax function has its own symbols, with their size estimates.

    Functions with data-dependent dimensions get their dataflow blocks.
    """
    copies = {
        variable.name_hint: with_own_symbols(function).with_attr(SIZE_ESTIMATES, dict(sizes))
        for variable, function in mod.functions.items()
        if isinstance(function, relax.Function)
    }
    return relax.transform.ConvertToDataflow()(update_functions(mod, copies))
