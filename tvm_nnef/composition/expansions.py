"""Formulas and helper symbols of equal invocations, computed once.

Input: an invocation of an operator. Output: its helper symbols, and its formula if it is lowered.
Invocations with the same values, and tensors of the same types and static shapes, have the same
formula of other tensors, the same helper symbols if no tensor is one, and satisfy the same
assertions.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from tvm_nnef.composition.assignment import target_names
from tvm_nnef.composition.checks import run_helpers
from tvm_nnef.composition.formula import expand
from tvm_nnef.composition.values import Environment, Value, is_atom
from tvm_nnef.diagnostics import Span
from tvm_nnef.graph.formula import Formula, with_tensors
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.semantics.program import CheckedDefinition

_Numbers: TypeAlias = dict[Tensor, int]
"""Tensors in the order in which they are found."""


class Expansions:
    """The formulas and helper symbols of the invocations of one program so far."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[_Numbers, Formula]] = {}
        self._helpers: dict[Hashable, dict[str, Value]] = {}

    def run_helpers(self, definition: CheckedDefinition, env: Environment, location: Span) -> None:
        """Evaluate ``@using`` and ``@assert`` of an invocation, unless an equal one passed."""
        key = _key_of(definition, env, {})
        if key in self._helpers:
            env.names.update(self._helpers[key])
            return
        run_helpers(definition, env, location)
        helpers = {
            n: env.names[n] for using in definition.usings for n in target_names(using.target)
        }
        if key is not None and all(map(_is_static, helpers.values())):
            self._helpers[key] = helpers

    def formula(
        self, definition: CheckedDefinition, results: tuple[Operand, ...], env: Environment
    ) -> Formula:
        """Return the formula of an invocation; ``env`` has operands and results by their names."""
        tensors: _Numbers = {}
        key = _key_of(definition, env, tensors)
        if key in self._known:
            known, formula = self._known[key]
            return with_tensors(formula, dict(zip(known, tensors, strict=True)))
        formula = expand(definition.lowerings, results, env)
        if key is not None:
            self._known[key] = tensors, formula
        return formula


def _key_of(definition: CheckedDefinition, env: Environment, tensors: _Numbers) -> Hashable | None:
    """Return what equal invocations share, None if there are none; tensors are added."""
    try:
        values = tuple((name, _key(value, tensors)) for name, value in env.names.items())
    except _Unique:
        return None
    return (id(definition), values, tuple(env.types.items()), env.dialect)


def _is_static(value: Value) -> bool:
    """Whether a value has no tensors and no dynamic dimensions."""
    if isinstance(value, tuple):
        return all(map(_is_static, value))
    return value is None or is_atom(value)


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
