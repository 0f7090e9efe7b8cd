"""The types of NNEF 1 (section 3.3.1), which casts are implicit, and generic types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

GENERIC = "?"
PRIMITIVES = ("integer", "scalar", "logical", "string")


@dataclass(frozen=True, slots=True)
class Primitive:
    """``integer``, ``scalar``, ``logical``, ``string``, or ``?``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor of a primitive type; unbound (``tensor<>``) if that is None."""

    item: str | None

    def __str__(self) -> str:
        return f"tensor<{self.item or ''}>"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array; the item type of the literal ``[]`` is None."""

    item: Type | None

    def __str__(self) -> str:
        return "[]" if self.item is None else f"{self.item}[]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple of a fixed number of items."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


Type: TypeAlias = "Primitive | TensorType | ArrayType | TupleType"

INTEGER, SCALAR, LOGICAL, STRING = map(Primitive, PRIMITIVES)
EMPTY_ARRAY = ArrayType(None)


def parts(type_: Type) -> Iterator[Primitive | TensorType]:
    """Yield the primitive and tensor types that a type is made of."""
    match type_:
        case Primitive() | TensorType():
            yield type_
        case ArrayType(item):
            yield from () if item is None else parts(item)
        case TupleType(items):
            for each in items:
                yield from parts(each)


def is_generic(type_: Type) -> bool:
    """Whether a type contains ``?``."""
    return any(each in (Primitive(GENERIC), TensorType(GENERIC)) for each in parts(type_))


def has_tensor(type_: Type) -> bool:
    """Whether a type contains a tensor type; a type that does not is an attribute type."""
    return any(isinstance(each, TensorType) for each in parts(type_))


def has_attribute(type_: Type) -> bool:
    """Whether a type contains a primitive type outside of a tensor."""
    return any(isinstance(each, Primitive) for each in parts(type_))


def is_unbound(type_: Type) -> bool:
    """Whether a type contains ``tensor<>``."""
    return TensorType(None) in parts(type_)


def bound(type_: Type, generic: str) -> Type:
    """Return a type with a primitive type instead of ``?``."""
    match type_:
        case Primitive(name):
            return Primitive(generic) if name == GENERIC else type_
        case TensorType(item):
            return TensorType(generic) if item == GENERIC else type_
        case ArrayType(item):
            return ArrayType(None if item is None else bound(item, generic))
        case TupleType(items):
            return TupleType(tuple(bound(each, generic) for each in items))


def castable(source: Type, target: Type) -> bool:
    """Whether a value of one type can be used as another without an explicit cast.

    ``?`` in either is a separate opaque type, as in the body of a generic fragment.
    """
    match source, target:
        case Primitive(name), TensorType(item):
            return item is None or item == name
        case TensorType(item), TensorType(wanted):
            return wanted is None or item == wanted
        case ArrayType(item), ArrayType(wanted):
            return item is None or (wanted is not None and castable(item, wanted))
        case TupleType(items), TupleType(wanted):
            pairs = zip(items, wanted, strict=False)
            return len(items) == len(wanted) and all(castable(a, b) for a, b in pairs)
    return source == target


def common(first: Type, second: Type) -> Type | None:
    """Return the one of two types to which the other can be cast; None if there is none."""
    if castable(first, second):
        return second
    return first if castable(second, first) else None


def candidates(parameter: Type, argument: Type) -> Iterator[str]:
    """Yield the types that ``?`` in the type of a parameter can be for an argument of a type."""
    match parameter, argument:
        case (Primitive("?"), Primitive(name)) | (TensorType("?"), Primitive(name)):
            yield name
        case TensorType("?"), TensorType(item):
            yield from () if item is None else (item,)
        case ArrayType(item), ArrayType(given):
            if item is not None and given is not None:
                yield from candidates(item, given)
        case TupleType(items), TupleType(given_items):
            for each, other in zip(items, given_items, strict=False):
                yield from candidates(each, other)


def binary_type(sign: str, left: Type, right: Type) -> Type | None:
    """Return the type of an operator on compile-time values; None if it does not accept them."""
    if sign in ("&&", "||"):
        return LOGICAL if left == right == LOGICAL else None
    if sign in ("==", "!="):
        return LOGICAL if left == right and isinstance(left, Primitive) else None
    if sign == "+" and isinstance(left, ArrayType) and isinstance(right, ArrayType):
        return common(left, right)
    if sign == "*" and (isinstance(left, ArrayType) or left == STRING):
        return left if right == INTEGER else None
    if sign == "+" and left == right == STRING:
        return STRING
    if left != right or left not in (INTEGER, SCALAR):
        return None
    return LOGICAL if sign in ("<", "<=", ">", ">=") else left


def cast_hint(found: Type, wanted: Type | None = None) -> str:
    """Return a hint how to convert a value of one type into another."""
    if wanted is None:
        return "see table 1 of the specification, section 3.3.3"
    if found == INTEGER and wanted in (SCALAR, TensorType("scalar")):
        return "write the number as a scalar, as in '1.0', or cast it: 'scalar(i)'"
    if isinstance(found, Primitive) and isinstance(wanted, Primitive):
        return f"cast it, as in '{wanted}(x)'" if wanted.name != GENERIC else "use the type '?'"
    if isinstance(found, Primitive) and isinstance(wanted, ArrayType):
        return "write an array, as in '[1, 2]'"
    if isinstance(found, TensorType) and isinstance(wanted, TensorType) and wanted.item:
        return f"cast it, as in 'cast<{wanted.item}>(x)'"
    if isinstance(found, TensorType) and not has_tensor(wanted):
        return "an attribute is known before the graph runs; give a literal"
    if found == EMPTY_ARRAY:
        return "give items"
    return f"give a value of type {wanted}"
