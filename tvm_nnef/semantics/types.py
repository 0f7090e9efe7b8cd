"""Types of expressions: a base type with the modifiers packed, optional and tensor (2.3).

This module does not read syntax trees. A type that could not be inferred is :data:`UNKNOWN`, which
agrees with everything, so that one mistake is reported once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tvm_nnef.symbolic.functions import FUNCTIONS

ANY: Final = "?"
"""The base of a value whose base type is not known, such as an empty list."""

ABSTRACT: Final[Mapping[str, frozenset[str]]] = {
    "num": frozenset({"int", "real"}),
    "arith": frozenset({"int", "real", "bool"}),
    "type": frozenset({"int", "real", "bool", "str"}),
}
CONCRETE: Final = frozenset({"int", "real", "bool", "str"})
NUMERIC: Final = ABSTRACT["num"]
_DTYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("float", "double", "half", "float16", "float32", "float64", "bfloat16"), "real"
    ),
    **{f"{sign}int{bits}": "int" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("integer", "long", "short", "uint"), "int"),
    **dict.fromkeys(("boolean", "logical"), "bool"),
    **dict.fromkeys(("string", "text", "char"), "str"),
}
"""Names of types in other languages, with the corresponding types."""


def dtype_hint(name: str) -> str | None:
    """Return a hint for the type name of another language; None for any other name."""
    type_name = _DTYPES.get(name)
    if type_name is None:
        return None
    sizes = "; sizes such as float32, float16 and int64 are set in model.json ('machine_types')"
    return f"SkriptND has real, int, bool and str: write '{type_name}'" + (
        "" if type_name in ("bool", "str") else sizes
    )


ARITHMETIC: Final = ABSTRACT["arith"]


@dataclass(frozen=True, slots=True)
class Type:
    """A type: ``base`` is int, real, bool, str, the name of a generic type, or :data:`ANY`.

    ``length`` is the number of items of a pack if it is a literal. ``guarded`` marks an index
    between bars, which can only be used as a complete index. ``poison`` marks the type of an
    erroneous expression.
    """

    base: str
    packed: bool = False
    optional: bool = False
    tensor: bool = False
    length: int | None = None
    guarded: bool = False
    poison: bool = False

    def __str__(self) -> str:
        name = {ANY: "unknown type"}.get(self.base, self.base)
        return (
            ("optional " if self.optional else "")
            + name
            + ("[...]" if self.tensor else "")
            + (".." if self.packed else "")
        )

    @property
    def item(self) -> Type:
        """The type of one item of a pack."""
        return replace(self, packed=False, length=None)

    @property
    def required(self) -> Type:
        """The same type without null."""
        return replace(self, optional=False)

    def pack(self, length: int | None = None) -> Type:
        """Return a pack of items of this type."""
        return replace(self, packed=True, length=length)


UNKNOWN: Final = Type(ANY, poison=True)
INT: Final = Type("int")
REAL: Final = Type("real")
BOOL: Final = Type("bool")
STR: Final = Type("str")

BUILTINS: Final[Mapping[str, frozenset[str]]] = {
    name: each.types for name, each in FUNCTIONS.items()
}
"""The built-in functions and the types that they accept; the result has the type of the operand."""

OPERANDS: Final[Mapping[str, frozenset[str]]] = {
    "+": NUMERIC | {"str"},
    **dict.fromkeys(("-", "*", "/", "\\", "%", "**", "min", "max"), NUMERIC),
    **dict.fromkeys(("&&", "||", "^", "=>"), frozenset({"bool"})),
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "is", "in", ":="), CONCRETE),
}
"""Operators and the base types of their operands (2.4)."""

COMPARISONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "is", "in"})

SPELLING: Final[Mapping[str, str]] = {"min": "<<", "max": ">>", "min=": "<=", "max=": ">="}
"""Operators whose names in the tree differ from the text."""


@dataclass(frozen=True, slots=True)
class Generics:
    """The generic types of a definition and their restrictions: name to abstract base."""

    bases: Mapping[str, str]

    def may_be(self, base: str, allowed: frozenset[str]) -> bool:
        """Whether every type that ``base`` may denote is allowed."""
        if base == ANY or base in allowed:
            return True
        abstract = self.bases.get(base, base)
        return abstract in ABSTRACT and ABSTRACT[abstract] <= allowed

    def knows(self, base: str) -> bool:
        """Whether ``base`` is the type of a value."""
        return base in CONCRETE or base in self.bases

    def describe(self, base: str) -> str:
        """Return the name of a type in an error message: generics with their restriction."""
        return f"{base} ({self.bases[base]})" if base in self.bases else base


def same_base(one: Type, other: Type) -> bool:
    """Whether two base types may be the same; true for unknown ones."""
    return one.base == other.base or ANY in (one.base, other.base)


def join_base(one: str, other: str) -> str:
    """Return the known one of two bases that agree."""
    return other if one == ANY else one


def join_length(one: Type, other: Type) -> int | None:
    """Return the length of an element-wise result of two types."""
    lengths = [t.length for t in (one, other) if t.packed and t.length is not None]
    return lengths[0] if lengths else None
