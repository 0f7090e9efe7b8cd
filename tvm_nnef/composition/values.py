"""The values of expressions during composition.

An expression of attributes and dimensions is an atom, a pack (tuple) of atoms, or null (None). In
``@compose`` it may also be a tensor or a pack of tensors; in ``@lower`` a scalar of the formula
that is built, or a subscript if an index was guarded. One evaluator serves all of them: known
values are computed, others become an expression of the formula.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeGuard

from tvm_nnef.composition.budget import Budget
from tvm_nnef.composition.symbols import Symbols
from tvm_nnef.diagnostics import NnefError, Span, error
from tvm_nnef.graph import formula
from tvm_nnef.graph.formula import Scalar, ScalarType
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Condition, Dimension


@dataclass(frozen=True, slots=True)
class Undefined:
    """A value that does not exist, such as a quotient by zero; an error only if it is needed.

    It lets ``size <= 1 ? 0.0 : 1.0 / real(size - 1)`` be taken element-wise over a pack.
    """

    message: str
    span: Span
    hint: str

    def raised(self) -> NnefError:
        """Return the error of this value."""
        return error(self.message, self.span, hint=self.hint)


Known: TypeAlias = "bool | int | float | str | Dimension | Condition"
Item: TypeAlias = "Known | Scalar | formula.Subscript | Tensor | Undefined"
Value: TypeAlias = "Item | tuple[Item, ...] | None"

SCALARS = (
    formula.Constant, formula.Index, formula.Local, formula.Unary, formula.Binary,
    formula.Select, formula.Cast, formula.Lookup, formula.Load,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Environment:
    """The values of the names in expressions; names are added as they get values.

    ``types`` maps generics to concrete types; ``dialect`` decides the rounding of integer
    divisions; ``symbols`` are the dynamic dimensions; ``budget`` limits the work.
    """

    names: dict[str, Value]
    types: dict[str, str]
    dialect: str = "draft"
    symbols: Symbols = field(default_factory=Symbols)
    budget: Budget = field(default_factory=Budget)

    def extended(self, names: Mapping[str, Value]) -> Environment:
        """Return a new environment with further names, which shadow those of this one."""
        return replace(self, names={**self.names, **names})


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Whether a value is an expression of a formula, unknown until it runs."""
    return isinstance(value, SCALARS)


def is_atom(value: object) -> TypeGuard[bool | int | float | str]:
    """Whether a value is a truth value, a number or a string."""
    return isinstance(value, bool | int | float | str)


def is_known(value: object) -> bool:
    """Whether a value is an atom, a dimension, or a condition on dimensions."""
    return is_atom(value) or dimensions.is_symbolic(value)


def type_of(value: object) -> str:
    """Return ``int``, ``real``, ``bool`` or ``str`` for an atom, dimension, scalar or tensor."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "real"
        case str():
            return "str"
        case Tensor() as tensor:
            return tensor.type
        case _ if is_scalar(value):
            return value.type
        case _:
            return "bool" if dimensions.is_condition(value) else "int"


def pack_type(value: Value) -> str | None:
    """Return the type of a value or of a pack's items; None if it is unknown."""
    if isinstance(value, tuple):
        return type_of(value[0]) if value else None
    return None if value is None else type_of(value)


def scalar(item: Item, type: ScalarType | None = None) -> Scalar:
    """Return an item as a scalar of a formula; a number becomes a constant of ``type``."""
    if is_scalar(item):
        return item
    assert is_known(item) and not isinstance(item, str), item
    kind = type or type_of(item)
    value = float(item) if kind == "real" and isinstance(item, int) else item
    return formula.Constant(kind, value)  # type: ignore[arg-type]


def defined(value: Value) -> Value:
    """Return the value itself.

    Raises the NnefError of an undefined value, or of one inside a pack.
    """
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, Undefined):
            raise item.raised()
    return value


def as_operand(value: Value, span: Span) -> Operand:
    """Return a value as tensors. Raises NnefError if it contains anything else."""
    if value is None or isinstance(value, Tensor):
        return value
    if isinstance(value, tuple) and all(isinstance(item, Tensor) for item in value):
        return tuple(item for item in value if isinstance(item, Tensor))
    hint = "numbers become a tensor in '@constant', as in 'c: real[2] = [1.0, 2.0];'"
    raise error(f"expected a tensor, found {describe(value)}", span, hint=hint)


def is_tensors(value: Value) -> bool:
    """Whether a value is a tensor or a non-empty pack of them."""
    items = value if isinstance(value, tuple) else (value,)
    return bool(items) and all(isinstance(item, Tensor) for item in items)


def show(value: Value, *, quote: bool = True) -> str:
    """Return a value as messages and formatted strings show it (section 2.4, string formatting)."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return show_real(value)
        case str():
            return f"'{value}'" if quote else value
        case tuple():
            return f"[{', '.join(show(item) for item in value)}]"
        case Tensor():
            return value.name
        case Undefined():
            return "undefined"
        case formula.Constant(type, value):
            return f"{type}({show(value)})"
        case _ if dimensions.is_symbolic(value):
            return trees.text(value)
        case _:
            return str(value)


def shown(value: Value, *, quote: bool) -> list[str | Dimension]:
    """Return the parts of the text of :func:`show`.

    Dimensions known only at run time stay as they are.
    """
    if dimensions.is_symbolic(value):
        return [value]
    if not isinstance(value, tuple) or not any(map(dimensions.is_symbolic, value)):
        return [show(value, quote=quote)]
    parts: list[str | Dimension] = []
    for item in value:
        parts += [", " if parts else "[", *shown(item, quote=True)]
    return [*parts, "]"]


def show_real(value: float) -> str:
    """Return a real with six significant digits, always recognisable as a real."""
    if math.isinf(value) or math.isnan(value):
        return str(value)
    text = f"{value:g}"
    return text if "." in text or "e" in text else text + ".0"


def describe(value: Value) -> str:
    """Return a value in the words of an error message."""
    match value:
        case None:
            return "null"
        case Tensor():
            return f"the tensor '{value.name}'"
        case tuple() if is_tensors(value):
            return f"a pack of {len(value)} tensors"
        case tuple():
            return f"the pack {show(value)}"
        case formula.Subscript():
            return "a guarded index"
        case _ if is_scalar(value):
            return f"a run-time value of type {value.type}"
        case _ if dimensions.is_symbolic(value):
            return f"'{show(value)}', known only at run time"
        case _:
            return f"{show(value)} of type {type_of(value)}"
