"""Formulas of equal invocations, expanded once.

Input: an invocation of a lowered operator. Output: its formula. Invocations with the same values,
and tensors of the same types and static shapes, have the same formula of other tensors.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from tvm_nnef.composition.formula import expand
from tvm_nnef.composition.values import Environment, Value, is_atom
from tvm_nnef.graph.formula import Formula, with_tensors
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.semantics.program import CheckedDefinition

_Numbers: TypeAlias = dict[Tensor, int]
"""Tensors in the order in which they are found."""


class Expansions:
    """The formulas of the invocations of one program so far, and their tensors."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[_Numbers, Formula]] = {}

    def formula(
        self, definition: CheckedDefinition, results: tuple[Operand, ...], env: Environment
    ) -> Formula:
        """Return the formula of an invocation; ``env`` has operands and results by their names."""
        tensors: _Numbers = {}
        try:
            values = tuple((name, _key(value, tensors)) for name, value in env.names.items())
        except _Unique:
            return expand(definition.lowerings, results, env)
        key = (id(definition), values, tuple(env.types.items()), env.dialect)
        if key in self._known:
            known, formula = self._known[key]
            return with_tensors(formula, dict(zip(known, tensors, strict=True)))
        formula = expand(definition.lowerings, results, env)
        self._known[key] = tensors, formula
        return formula


class _Unique(Exception):
    """A value that no other invocation is taken to have."""


def _key(value: Value, tensors: _Numbers) -> Hashable:
    """Return what formulas depend on in a value; new tensors are added to ``tensors``."""
    match value:
        case None:
            return None
        case tuple():
            return tuple(_key(item, tensors) for item in value)
        case Tensor(type=type_, shape=shape, role=role, value=None) if all(
            isinstance(size, int) for size in shape
        ):
            return (tensors.setdefault(value, len(tensors)), type_, shape, role)
        case _ if is_atom(value):
            # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
            return f"{type(value).__name__} {value!r}"
    raise _Unique
