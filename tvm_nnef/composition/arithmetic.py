"""Operators on values (NNEF 2.0 draft, section 2.4), computed for atoms and built as formulas for
scalars.

Packs are combined element by element, a single value with every item. If an operand is null, so is
the result; an undefined item makes the item of the result undefined.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping

from tvm_nnef.composition import reals
from tvm_nnef.composition.budget import MAX_TERMS
from tvm_nnef.composition.values import (
    Environment,
    Item,
    Undefined,
    Value,
    describe,
    is_atom,
    is_scalar,
    scalar,
    type_of,
)
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph import formula
from tvm_nnef.graph.formula import Scalar, ScalarType
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.semantics import hints
from tvm_nnef.semantics.types import BUILTINS, OPERANDS
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Condition

COMPARISONS: Mapping[str, str] = {
    "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "is": "eq",
}  # fmt: skip
_LOGICAL: Mapping[str, str] = {"&&": "and", "||": "or", "^": "xor"}
_ARITHMETIC: Mapping[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "**": "pow", "min": "min", "max": "max",
}  # fmt: skip
# The draft rounds `/` down and `\` up; Khronos's tools truncate `/` and round `\` away from zero.
_DIVISIONS: Mapping[tuple[str, str], str] = {
    ("/", "draft"): "floordiv", ("\\", "draft"): "ceildiv", ("%", "draft"): "floormod",
    ("/", "tools"): "truncdiv", ("\\", "tools"): "awaydiv", ("%", "tools"): "truncmod",
}  # fmt: skip
_REAL_DIVISIONS: Mapping[str, str] = {"/": "div", "\\": "realceildiv", "%": "fmod"}
_INTEGER_DIVISIONS = frozenset(_DIVISIONS.values())
_PREDICATES: Mapping[str, Callable[..., bool]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
    "and": lambda left, right: left and right, "or": lambda left, right: left or right,
    "xor": operator.ne,
}  # fmt: skip

MAX_TEXT = 1 << 20
"""Upper limit of the length of a string, in characters."""


def elementwise(apply: Callable[..., Item | None], span: Span, *values: Value) -> Value:
    """Return a function of items applied over packs. Raises NnefError if packs differ in length."""
    if any(value is None for value in values):
        return None
    lengths = {len(value) for value in values if isinstance(value, tuple)}
    if not lengths:
        return apply(*values)
    if len(lengths) > 1:
        sizes = " and ".join(str(len(v)) for v in values if isinstance(v, tuple))
        raise error(f"packs of different lengths: {sizes}", span, hint=hints.LENGTHS)
    rows = ([v[i] if isinstance(v, tuple) else v for v in values] for i in range(lengths.pop()))
    items = [apply(*row) for row in rows]
    return None if any(item is None for item in items) else tuple(items)


def strict(apply: Callable[..., Item | None]) -> Callable[..., Item | None]:
    """Return a function of items that returns the first undefined argument, if there is one."""

    def applied(*items: Item) -> Item | None:
        undefined = (item for item in items if isinstance(item, Undefined))
        return next(undefined, None) or apply(*items)

    return applied


def binary(symbol: str, left: Value, right: Value, span: Span, env: Environment) -> Value:
    """Return a binary operator of the language, on any values.

    Raises NnefError for packs of different lengths and for operands of different types.
    """

    def apply(first: Item, second: Item) -> Item:
        if isinstance(first, Undefined):
            return first
        if isinstance(second, Undefined):
            # What the left side decides alone does not depend on the right side.
            decided = isinstance(first, bool) and first is DECISIVE.get(symbol)
            return symbol != "&&" if decided else second
        return _binary(symbol, first, second, span, env.dialect)

    return elementwise(apply, span, left, right)


DECISIVE: Mapping[str, bool] = {"&&": False, "||": True, "=>": False}


def _binary(symbol: str, left: Item, right: Item, span: Span, dialect: str) -> Item:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        if symbol == "is":
            return left is right
        raise error(f"operator '{symbol}' does not apply to tensors", span, hint=_TENSOR_HINT)
    if isinstance(left, formula.Subscript) or isinstance(right, formula.Subscript):
        raise error("only a whole index can be guarded", span, hint=_GUARD_HINT)
    left, right = promoted(left, right)
    if symbol in COMPARISONS:
        left, right = _comparable(left, right)
    types = {type_of(left), type_of(right)}
    if len(types) > 1:
        found = f"{describe(left)} and {describe(right)}"
        message = f"operator '{symbol}' needs operands of the same type, found {found}"
        raise error(message, span, hint=hints.one_type(types))
    if symbol == "=>":
        return _apply("or", unary("!", left, span), right, span)
    if symbol == "is" and dimensions.is_symbolic(left) | dimensions.is_symbolic(right):
        return _identical(left, right)
    function = binary_function(symbol, types.pop(), dialect)
    if function is None:
        message = f"operator '{symbol}' does not apply to {describe(left)}"
        raise error(message, span, hint=_takes(OPERANDS[symbol]))
    return _apply(function, left, right, span)


def _identical(left: Item, right: Item) -> bool:
    """Whether symbolic expressions are the same, which is decided during composition."""
    if is_scalar(left) or is_scalar(right):
        return False
    if type_of(left) == "bool":
        return dimensions.differ(left, right) is False
    return dimensions.equal(left, right)


def promoted(left: Item, right: Item) -> tuple[Item, Item]:
    """Return an int that is the fold of an empty pack of reals as a real.

    The type of an empty pack is in its items alone, so such a fold gets the type int.
    """
    if type_of(left) == "real" and type(right) is int:
        return left, float(right)
    if type_of(right) == "real" and type(left) is int:
        return float(left), right
    return left, right


def _comparable(left: Item, right: Item) -> tuple[Item, Item]:
    """Return operands of one type: math.eq and others compare int with real, math.eq bool with
    both.
    """
    kinds = type_of(left), type_of(right)
    if kinds[0] == kinds[1] or not (is_scalar(left) or is_scalar(right)):
        return left, right
    if not {*kinds} <= {"bool", "int", "real"}:
        return left, right
    wider: ScalarType = "real" if "real" in kinds else "int"
    return _widened(left, wider), _widened(right, wider)


def _widened(item: Item, type: ScalarType) -> Item:
    if type_of(item) == type:
        return item
    if is_atom(item):
        return float(item) if type == "real" else int(item)
    return formula.Cast(type, scalar(item))


def _takes(types: Iterable[str]) -> str:
    return f"it takes values of type {' or '.join(sorted(types))}"


_TENSOR_HINT = "invoke an operator, such as math.add"
_GUARD_HINT = "put the arithmetic inside the bars: |i + 1|"


def binary_function(symbol: str, type: str, dialect: str) -> str | None:
    """Return the function that an operator of the language denotes for operands of a type."""
    if symbol in COMPARISONS:
        return COMPARISONS[symbol]
    if symbol in _LOGICAL:
        return _LOGICAL[symbol] if type == "bool" else None
    if type == "str":
        return "add" if symbol == "+" else None
    if type == "bool":
        return None
    if symbol in _ARITHMETIC:
        return _ARITHMETIC[symbol]
    return _REAL_DIVISIONS[symbol] if type == "real" else _DIVISIONS[symbol, dialect]


def _apply(function: str, left: Item, right: Item, span: Span) -> Item:
    if is_scalar(left) or is_scalar(right):
        if function in _INTEGER_DIVISIONS and right == 0:
            return Undefined("division by zero", span, _ZERO)
        return _simplified(function, scalar(left), scalar(right))
    try:
        return limited(_known(function, left, right), span)
    except ZeroDivisionError:
        return Undefined("division by zero", span, _ZERO)
    except ValueError as problem:
        hint = "test the operands first, as in 'a >= 0 ? a ** b : 0'"
        return Undefined(f"no value: {problem}", span, hint)


_ZERO = "test the divisor first, as in 'd == 0 ? 0 : n / d'"


def limited(item: Item, span: Span) -> Item:
    """Return an item; undefined if it does not fit into 64 bits, or is a giant text or
    expression.
    """
    if isinstance(item, int) and not -(1 << 63) <= item < 1 << 63:
        hint = "compute with smaller numbers, or with reals, as in 'real(n)'"
        return Undefined("the integer does not fit into 64 bits", span, hint)
    if isinstance(item, str) and len(item) > MAX_TEXT:
        hint = "show fewer values, or a part of the pack, as in 'a[0:10]'"
        return Undefined(f"a text of more than {MAX_TEXT} characters", span, hint)
    if dimensions.is_symbolic(item) and trees.size(item, MAX_TERMS) == MAX_TERMS:
        message = f"an expression of dynamic dimensions with {MAX_TERMS} terms or more"
        return Undefined(message, span, "fix some of them, with --shape or input_shapes")
    return item


def _known(function: str, left: Item, right: Item) -> Item:
    if dimensions.is_symbolic(left) or dimensions.is_symbolic(right):
        return _symbolic(function, left, right)
    if function in _PREDICATES:
        return bool(_PREDICATES[function](left, right))
    if isinstance(left, str):
        return left + str(right)
    if type_of(left) == "real":
        return reals.BINARY[function](left, right)  # type: ignore[arg-type]
    return dimensions.FUNCTIONS[function](left, right)


def _symbolic(function: str, left: Item, right: Item) -> Item:
    """Apply a function to dimensions, or to conditions on dimensions, known only at run time."""
    if type_of(left) == "bool":
        return _CONDITIONS[function](left, right)
    if function in _PREDICATES:
        return dimensions.compare(function, left, right)
    return dimensions.FUNCTIONS[function](left, right)


_CONDITIONS: Mapping[str, Callable[..., Condition]] = {
    "and": dimensions.both,
    "or": dimensions.either,
    "xor": dimensions.differ,
    "ne": dimensions.differ,
    "eq": lambda left, right: dimensions.negated(dimensions.differ(left, right)),
}


def _simplified(function: str, left: Scalar, right: Scalar) -> Scalar:
    """Return a node, or its operand if an identity on integers or truth values removes the
    operation.
    """
    match function, left, right:
        case ("add", formula.Constant("int", 0), _) | ("mul", formula.Constant("int", 1), _):
            return right
        case ("add" | "sub", _, formula.Constant("int", 0)):
            return left
        case (
            "mul" | "floordiv" | "ceildiv" | "truncdiv" | "awaydiv",
            _,
            formula.Constant("int", 1),
        ):
            return left
        case ("mul", formula.Constant("int", 0), _):
            return left
        case ("mul", _, formula.Constant("int", 0)):
            return right
        case ("and", formula.Constant(_, True), _) | ("or", formula.Constant(_, False), _):
            return right
        case ("and", _, formula.Constant(_, True)) | ("or", _, formula.Constant(_, False)):
            return left
        case ("and", formula.Constant(_, False), _) | ("or", formula.Constant(_, True), _):
            return left
        case _:
            return formula.Binary(function, left, right)


def unary(symbol: str, value: Value, span: Span) -> Value:
    """``+``, ``-`` and ``!``, on any value."""

    def apply(item: Item) -> Item:
        kind = type_of(item)
        wanted = ("bool",) if symbol == "!" else ("int", "real")
        if isinstance(item, Tensor | formula.Subscript) or kind not in wanted:
            message = f"operator '{symbol}' does not apply to {describe(item)}"
            raise error(message, span, hint=_takes(wanted))
        if is_scalar(item):
            if symbol == "+":
                return item
            return formula.Unary("not" if symbol == "!" else "neg", item)
        match symbol:
            case "!":
                return dimensions.negated(item)
            case "-":
                return -item if isinstance(item, float) else dimensions.sub(0, item)
            case _:
                return item

    return elementwise(strict(apply), span, value)


def builtin(name: str, value: Value, span: Span) -> Value:
    """Return a built-in function (section 2.4, built-in functions), on any value."""

    def apply(item: Item) -> Item:
        if is_scalar(item):
            return formula.Unary(name, item)
        if isinstance(item, float):
            return reals.function(name, item)
        if type_of(item) == "int" and not isinstance(item, Tensor) and name in _INTEGER_BUILTINS:
            return _INTEGER_BUILTINS[name](item)
        message = f"function '{name}' does not apply to {describe(item)}"
        raise error(message, span, hint=_takes(BUILTINS[name]))

    return elementwise(strict(apply), span, value)


_INTEGER_BUILTINS: Mapping[str, Callable[[dimensions.Dimension], dimensions.Dimension]] = {
    "abs": lambda value: dimensions.maximum(value, dimensions.sub(0, value)),
    "sign": lambda value: dimensions.minimum(1, dimensions.maximum(-1, value)),
}


def cast(type: str, value: Value, span: Span) -> Value:
    """Convert between int, real and bool.

    An infinite int becomes the largest or smallest at run time.
    """

    def apply(item: Item) -> Item:
        kind = type_of(item)
        if kind == type:
            return item
        if "str" in (kind, type) or isinstance(item, Tensor | formula.Subscript):
            message = f"cannot cast {describe(item)} to {type}"
            raise error(message, span, hint=_cast_hint(item, type))
        if is_scalar(item):
            return formula.Cast(type, item)  # type: ignore[arg-type]
        if isinstance(item, float) and type == "int":
            return _to_int(item, span)
        if dimensions.is_symbolic(item):
            return _symbolic_cast(type, item)
        return {"int": int, "real": float, "bool": bool}[type](item)

    return elementwise(strict(apply), span, value)


def _symbolic_cast(type: str, item: Item) -> Item:
    match type, type_of(item):
        case "int", _:
            return dimensions.select(item, 1, 0)
        case "bool", _:
            return dimensions.compare("ne", item, 0)
        case _, "bool":
            item = dimensions.select(item, 1, 0)
    return formula.Cast("real", scalar(item))


def _cast_hint(item: Item, type: str) -> str:
    match item:
        case Tensor():
            return f"invoke layout.cast<{type}>, or read an element: '{item.short_name}[i,]'"
        case formula.Subscript():
            return f"put the cast inside the bars: |{type}(i)|"
    return "int, real and bool are cast; a string is formatted, as in '{n}' between quotes"


def _to_int(value: float, span: Span) -> Item:
    if math.isnan(value):
        hint = "test it first: 'r == r' is false for NaN"
        return Undefined("NaN has no integer value", span, hint)
    return formula.Constant("int", value) if math.isinf(value) else limited(int(value), span)


DEFAULTS: Mapping[str, bool | int | float | str] = {
    "int": 0, "real": 0.0, "bool": False, "str": "",
}  # fmt: skip
"""The default values of the concrete types: ``int()`` and so on."""
