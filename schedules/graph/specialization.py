"""Functions of loops and branches, each with the constants that it is called with.

Input: Relax functions that call private ones with the attribute ``CONSTANTS_FROM``. Output: the
same, in which such a function is a copy for the constants of its callers, so that weights inside a
loop are folded and packed as those outside are.
"""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.function_attributes import CONSTANTS_FROM
from tvm_nnef.schedules.graph.rewriting import Operands
from tvm_nnef.schedules.graph.simplify import simplify
from tvm_nnef.tvm_support.compat import (
    Module,
    RelaxExpression,
    constant,
    constant_array,
    with_own_symbols,
)


def with_bound_constants(mod: Module) -> Module:
    """The module with constants inside of the functions that they are passed to, simplified."""
    called = [f for f in mod.functions.values() if CONSTANTS_FROM in (f.attrs or {})]
    if not called:
        return mod
    walk = _Specialization(mod)
    while walk.waiting:
        variable = walk.waiting.pop()
        function = walk.builder_.get()[variable]
        walk.builder_.update_func(variable, walk.visit_expr(function))
    return simplify(relax.transform.DeadCodeElimination()(walk.builder_.get()))


@mutator
class _Specialization(PyExprMutator):  # type: ignore[misc]
    """Walks over functions, first those that others are called from; ``waiting`` are the next."""

    def __init__(self, mod: Module) -> None:
        super().__init__(mod)
        self.mod = mod
        self.copies: dict[Any, Any] = {}
        self.constants: dict[Any, Any] = {}
        self.waiting = [
            variable
            for variable, function in mod.functions.items()
            if isinstance(function, relax.Function) and CONSTANTS_FROM not in (function.attrs or {})
        ]

    def visit_call_(self, call: Any) -> Any:
        visited = super().visit_call_(call)
        function = self._called(visited.op)
        if function is None:
            return visited
        first = int(function.attrs[CONSTANTS_FROM])
        values = {n: self._constant(a) for n, a in enumerate(visited.args) if n >= first}
        bound = {number: value for number, value in values.items() if value is not None}
        rest = [a for number, a in enumerate(visited.args) if number not in bound]
        return relax.Call(self._copy(visited.op, function, bound), rest)

    def _constant(self, argument: RelaxExpression) -> RelaxExpression | None:
        """An argument as a constant; also one that is a constant in another order."""
        if constant_array(argument) is not None or argument in self.constants:
            known: RelaxExpression = self.constants.get(argument, argument)
            return known
        array = Operands(self.builder_).view(argument)
        if array is not None:
            self.constants[argument] = constant(array)
        return self.constants.get(argument)

    def _called(self, operator: Any) -> Any:
        """The function that is called, if constants may be bound to its parameters."""
        if not isinstance(operator, relax.GlobalVar):
            return None
        function = self.builder_.get()[operator]
        marked = isinstance(function, relax.Function) and CONSTANTS_FROM in (function.attrs or {})
        return function if marked else None

    def _copy(self, variable: Any, function: Any, bound: dict[int, Any]) -> Any:
        """The name of a function with constants for some parameters, by their numbers."""
        key = (variable, tuple(bound.items()))
        if key not in self.copies:
            made = with_own_symbols(function)
            values = {made.params[number]: value for number, value in bound.items()}
            made = made.bind_params(values) if values else made
            self.copies[key] = self.builder_.add_func(made, str(variable.name_hint))
            self.waiting.append(self.copies[key])
        return self.copies[key]
