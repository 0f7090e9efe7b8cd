"""Dimensions and conditions as trees of JSON: sizes, evaluation without TVM, text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tvm_nnef.symbolic.dimensions import (
    COMPARISONS,
    FUNCTIONS,
    Condition,
    Dimension,
    is_condition,
    is_symbolic,
)

Tree: TypeAlias = "bool | int | str | list[Any]"
"""An expression as JSON: a number, the name of a symbol, or a function with its arguments."""


def size(expression: Dimension | Condition, most: int) -> int:
    """Return the number of operators and operands of an expression; counting stops at ``most``."""
    stack: list[Any] = [expression]
    count = 0
    while stack and count < most:
        count += 1
        node = stack.pop()
        if is_symbolic(node):
            stack += [
                getattr(node, name) for name in _CHILDREN.get(type(node).__name__, ("a", "b"))
            ]
    return count


def tree(expression: Dimension | Condition) -> Tree:
    """Return a dimension or condition as JSON, which :func:`evaluate` reads without TVM."""
    if not is_symbolic(expression):
        return expression
    node: Any = expression
    match type(node).__name__:
        case "Var":
            return str(node.name)
        case "IntImm":
            return bool(node.value) if is_condition(node) else int(node.value)
        case "Cast":
            return tree(node.value)
        case "Not":
            return ["not", tree(node.a)]
        case "Select":
            return ["select", tree(node.condition), tree(node.true_value), tree(node.false_value)]
        case name if name in _NODES:
            return [_NODES[name], tree(node.a), tree(node.b)]
    raise NotImplementedError(f"no tree for {type(node).__name__}: {node}")


def names(tree: Tree) -> set[str]:
    """Return the names of the symbols in a tree."""
    match tree:
        case str():
            return {tree}
        case [_, *operands]:
            return {name for operand in operands for name in names(operand)}
    return set()


def text(expression: Dimension | Condition | Tree) -> str:
    """Return a dimension or condition in the notation of the draft: ``(s + 1) / 2``."""
    return _text(tree(expression) if is_symbolic(expression) else expression, 0)


def _text(node: Any, around: int) -> str:
    match node:
        case ["not", operand]:
            return f"!{_text(operand, 9)}"
        case ["select", condition, consequent, alternative]:
            parts = [_text(condition, 1), _text(consequent, 1), _text(alternative, 0)]
            return _within("{} ? {} : {}".format(*parts), 0, around)
        case [function, left, right]:
            symbol, strength = _OPERATORS[function]
            inner = f"{_text(left, strength)} {symbol} {_text(right, strength + 1)}"
            return _within(inner, strength, around)
        case bool():
            return "true" if node else "false"
    return str(node)


def _within(inner: str, strength: int, around: int) -> str:
    return f"({inner})" if strength < around else inner


def evaluate(expression: Dimension | Condition | Tree, values: Mapping[str, int]) -> Any:
    """Return the value of a dimension, a condition or its tree, given those of its symbols.

    It is an int, or a bool for a condition. Raises KeyError for a symbol without a value, and
    ZeroDivisionError.
    """
    match tree(expression) if is_symbolic(expression) else expression:
        case str(name):
            return values[name]
        case ["not", operand]:
            return not evaluate(operand, values)
        case ["and", left, right]:
            return evaluate(left, values) and evaluate(right, values)
        case ["or", left, right]:
            return evaluate(left, values) or evaluate(right, values)
        case ["select", condition, consequent, alternative]:
            return evaluate(consequent if evaluate(condition, values) else alternative, values)
        case [str(function), left, right]:
            first, second = evaluate(left, values), evaluate(right, values)
            return _EVALUATED[function](first, second)
        case number:
            return number


_EVALUATED: Mapping[str, Callable[..., Any]] = {**FUNCTIONS, **COMPARISONS}

_OPERATORS: Mapping[str, tuple[str, int]] = {
    "or": ("||", 1),
    "and": ("&&", 2),
    "lt": ("<", 3),
    "le": ("<=", 3),
    "gt": (">", 3),
    "ge": (">=", 3),
    "eq": ("==", 3),
    "ne": ("!=", 3),
    "min": ("<<", 4),
    "max": (">>", 4),
    "add": ("+", 5),
    "sub": ("-", 5),
    "mul": ("*", 6),
    "floordiv": ("/", 6),
    "floormod": ("%", 6),
    "truncdiv": ("/", 6),
    "truncmod": ("%", 6),
}
"""The operator of each function in the draft, and its precedence."""

_NODES: Mapping[str, str] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "FloorDiv": "floordiv",
    "FloorMod": "floormod",
    "Div": "truncdiv",
    "Mod": "truncmod",
    "Min": "min",
    "Max": "max",
    "LT": "lt",
    "LE": "le",
    "GT": "gt",
    "GE": "ge",
    "EQ": "eq",
    "NE": "ne",
    "And": "and",
    "Or": "or",
}
"""The functions of TVM's nodes with two operands."""

_CHILDREN: Mapping[str, tuple[str, ...]] = {
    "Var": (),
    "IntImm": (),
    "Cast": ("value",),
    "Not": ("a",),
    "Select": ("condition", "true_value", "false_value"),
}
"""The fields with the operands of TVM's other nodes."""
