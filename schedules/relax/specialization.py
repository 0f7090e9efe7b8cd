"""Functions of loops and branches, each with the constants that it is called with.

Input: Relax functions that call private ones with the attribute ``CONSTANTS_FROM``. Output: the
same, in which such a function is a copy for the constants of its callers, so that weights inside a
loop are folded and packed as those outside are.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax
from tvm.ir import Call
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.relax.rewriting import Operands
from tvm_nnef.schedules.relax.simplify import simplify
from tvm_nnef.tvm_support.compat import (
    Module,
    RelaxExpression,
    constant,
    constant_array,
    with_own_symbols,
)
from tvm_nnef.tvm_support.function_attributes import CONSTANTS_FROM


def with_bound_constants(mod: Module) -> Module:
    """The module with constants inside of the functions that they are passed to, simplified."""
    if not any(map(_is_marked, mod.functions.values())):
        return mod
    walk = _Specialization(mod)
    while walk.waiting:
        variable = walk.waiting.pop()
        function = walk.builder_.get()[variable]
        walk.builder_.update_func(variable, walk.visit_expr(function))
    return simplify(relax.transform.DeadCodeElimination()(walk.builder_.get()))


def _is_marked(function: relax.Function) -> bool:
    """Whether constants may be bound to parameters of a function."""
    return CONSTANTS_FROM in (function.attrs or {})


@mutator
class _Specialization(PyExprMutator):  # type: ignore[misc]
    """Walks over functions, first those that others are called from; ``waiting`` are the next."""

    def __init__(self, mod: Module) -> None:
        super().__init__(mod)
        self.copies: dict[object, relax.GlobalVar] = {}
        self.constants: dict[RelaxExpression, RelaxExpression | None] = {}
        self.waiting = [
            variable
            for variable, function in mod.functions.items()
            if isinstance(function, relax.Function) and not _is_marked(function)
        ]

    def visit_call_(self, call: Call) -> Call:
        visited: Call = super().visit_call_(call)
        if not isinstance(visited.op, relax.GlobalVar):
            return visited
        function = self.builder_.get()[visited.op]
        if not _is_marked(function):
            return visited
        first = int(function.attrs[CONSTANTS_FROM])
        values = {n: self._constant(a) for n, a in enumerate(visited.args) if n >= first}
        bound = {number: value for number, value in values.items() if value is not None}
        rest = [a for number, a in enumerate(visited.args) if number not in bound]
        return relax.Call(self._copy(visited.op, function, bound), rest)

    def _constant(self, argument: RelaxExpression) -> RelaxExpression | None:
        """An argument as a constant; also one that is a constant in another order."""
        if constant_array(argument) is not None:
            return argument
        if argument not in self.constants:
            array = Operands(self.builder_).view(argument)
            self.constants[argument] = None if array is None else constant(array)
        return self.constants[argument]

    def _copy(
        self, variable: relax.GlobalVar, function: relax.Function, bound: Mapping[int, object]
    ) -> relax.GlobalVar:
        """The name of a function with constants for some parameters, by their numbers."""
        key = (variable, tuple(bound.items()))
        if key not in self.copies:
            made = with_own_symbols(function)
            values = {made.params[number]: value for number, value in bound.items()}
            made = made.bind_params(values) if values else made
            self.copies[key] = self.builder_.add_func(made, str(variable.name_hint))
            self.waiting.append(self.copies[key])
        return self.copies[key]
