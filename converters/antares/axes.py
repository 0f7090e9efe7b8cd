"""The axes of a statement: their order, and their lengths, inferred from the shapes of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tvm_nnef.converters.antares import nodes
from tvm_nnef.converters.antares.nodes import Access, Axis, Binary, Number, Scalar, Statement
from tvm_nnef.diagnostics import Note, Span, did_you_mean, error

Shapes = Mapping[str, tuple[int, ...]]

MAX_STEPS = 1 << 50
"""Upper limit of the steps of the loops of a statement."""


def axis_lengths(statement: Statement, shapes: Shapes) -> dict[str, int]:
    """Return the length of each axis, those of the target first.

    A length that ``where`` does not give is that of the dimensions that are indexed by the axis
    alone. Raises NnefError for an axis without a length and for one with several.
    """
    for access in accesses(statement):
        _check_access(access, shapes)
    implied = _implied(statement, shapes)
    lengths: dict[str, int] = {}
    for axis in _axes(statement):
        if axis.name in lengths:
            continue
        if axis.name in statement.lengths:
            lengths[axis.name] = statement.lengths[axis.name][0]
        elif axis.name in implied:
            lengths[axis.name] = implied[axis.name][0]
        else:
            message = f"the length of axis '{axis.name}' is not known"
            raise error(message, axis.span, hint=f"add: where {axis.name} in 16")
    for name, (length, span) in statement.lengths.items():
        if name not in lengths and not statement.is_reduction:
            hint = did_you_mean(name, lengths) or "remove it"
            raise error(f"axis '{name}' is not used in this statement", span, hint=hint)
        lengths.setdefault(name, length)
    _check_steps(statement, lengths)
    return lengths


def _check_steps(statement: Statement, lengths: Mapping[str, int]) -> None:
    steps = 1
    for length in lengths.values():
        steps *= length
        if steps > MAX_STEPS:
            message = "the loops of this statement have more than 2^50 steps"
            raise error(message, statement.span, hint="use shorter axes")


def accesses(statement: Statement) -> Iterator[Access]:
    """Yield the accesses whose tensors must be known: tensors that are read, or whose dtype is
    used.
    """
    yield from _read(statement)
    yield from nodes.typed(statement.value)


def _read(statement: Statement) -> Iterator[Access]:
    """Yield the accesses whose elements are read or replaced."""
    if statement.operator == "=.":
        yield statement.target
    for index in statement.target.indices:
        yield from nodes.accesses(index)
    yield from nodes.accesses(statement.value)


def _axes(statement: Statement) -> Iterator[Axis]:
    """Yield the axes from left to right."""
    for node in (*statement.target.indices, statement.value):
        for each in nodes.walk(node):
            if isinstance(each, Axis):
                yield each
            elif isinstance(each, nodes.Length):
                yield Axis(each.span, each.axis)


def _check_access(access: Access, shapes: Shapes) -> None:
    shape = shapes.get(access.tensor)
    if shape is None:
        hint = did_you_mean(access.tensor, shapes) or (
            "list it in input_dict, or compute it in a statement before"
        )
        raise error(f"there is no tensor '{access.tensor}'", access.span, hint=hint)
    if len(shape) != len(access.indices):
        message = (
            f"'{access.tensor}' has {len(shape)} dimensions, and {len(access.indices)} indices"
        )
        shown = ", ".join(map(str, shape))
        raise error(message, access.span, hint=f"its shape is [{shown}]")


def _implied(statement: Statement, shapes: Shapes) -> dict[str, tuple[int, Span]]:
    """Return the lengths that dimensions imply, with the index that implies each."""
    implied: dict[str, tuple[int, Span]] = {}
    for access in _read(statement):
        for index, length in zip(access.indices, shapes[access.tensor], strict=True):
            if not isinstance(index, Axis) or index.name in statement.lengths:
                continue
            other, span = implied.setdefault(index.name, (length, index.span))
            if other != length:
                message = f"axis '{index.name}' has the length {length} here, and {other} elsewhere"
                note = Note(f"this dimension has the length {other}", span)
                hint = f"say which one is meant: where {index.name} in {min(other, length)}"
                raise error(message, index.span, hint=hint, notes=[note])
    return implied


def check_bounds(statement: Statement, lengths: Mapping[str, int], shapes: Shapes) -> None:
    """Raise NnefError for an index that is certainly out of bounds in some step."""
    waiting: list[Scalar] = [*statement.target.indices, statement.value]
    if statement.operator == "=.":
        waiting.append(statement.target)
    while waiting:
        node = waiting.pop()
        if isinstance(node, nodes.When) and node.conditions:
            # What its conditions exclude is not read.
            waiting.extend(node.conditions)
            continue
        waiting.extend(nodes.children(node))
        if isinstance(node, Access):
            for dimension, length in enumerate(shapes[node.tensor]):
                if dimension not in node.guarded:
                    _check_index(node, node.indices[dimension], length, lengths)


def _check_index(access: Access, index: Scalar, length: int, lengths: Mapping[str, int]) -> None:
    limits = exceeds(index, length, lengths)
    if limits is None:
        return
    low, high = limits
    message = f"the index runs from {low} to {high}, and the dimension of '{access.tensor}' "
    message += f"has the length {length}"
    hint = "shorten the axis with 'where', or exclude these steps with .when([…], 0.0)"
    raise error(message, index.span, hint=hint)


def exceeds(index: Scalar, length: int, lengths: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the range of an index that is certainly out of bounds in some step.

    It is None for others.
    """
    names = [each.name for each in nodes.walk(index) if isinstance(each, Axis)]
    limits = bounds(index, lengths) if len(names) == len(set(names)) else None
    return None if limits is None or (limits[0] >= 0 and limits[1] < length) else limits


def bounds(node: Scalar, lengths: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the smallest and largest value of an index if it has both; axes occur once in it."""
    match node:
        case Number(_, int() as value):
            return value, value
        case Axis(_, name):
            return 0, lengths[name] - 1
        case nodes.Negated(_, "-", operand):
            limits = bounds(operand, lengths)
            return limits and (-limits[1], -limits[0])
        case Binary(_, operator, left, right):
            a, b = bounds(left, lengths), bounds(right, lengths)
            return None if a is None or b is None else _combined(operator, a, b, left)
    return None


def _combined(
    operator: str, a: tuple[int, int], b: tuple[int, int], left: Scalar
) -> tuple[int, int] | None:
    match operator:
        case "+":
            return a[0] + b[0], a[1] + b[1]
        case "-":
            return a[0] - b[1], a[1] - b[0]
        case "*":
            products = [x * y for x in a for y in b]
            return min(products), max(products)
        case "/" | "//" if b[0] == b[1] > 0:
            return a[0] // b[0], a[1] // b[0]
        case "%" if b[0] == b[1] > 0 and isinstance(left, Axis):
            return 0, min(a[1], b[0] - 1)
    return None


def simplified(node: Scalar, lengths: Mapping[str, int]) -> Scalar:
    """Return a scalar without redundant integer arithmetic, as ``HO * 1 + KH - 0``."""
    inner = nodes.children(node)
    if inner:
        node = nodes.with_children(node, tuple(simplified(each, lengths) for each in inner))
    match node:
        case nodes.Length(span, axis):
            return Number(span, lengths[axis])
        case Binary(span, operator, Number(_, int() as a), Number(_, int() as b)):
            value = _folded(operator, a, b)
            return node if value is None else Number(span, value)
        case Binary(span, operator, Axis(_, name), Number(_, int() as b)) if b >= lengths[name]:
            if operator in ("/", "//"):
                return Number(span, 0)
            return node.left if operator == "%" else node
        case Binary(span, "*" | "/" | "//", left, Number(_, int(1))):
            return replace(left, span=span)
        case Binary(span, "+" | "-", left, Number(_, int(0))):
            return replace(left, span=span)
        case Binary(span, "*", Number(_, int(1)), right):
            return replace(right, span=span)
        case Binary(span, "+", Number(_, int(0)), right):
            return replace(right, span=span)
    return node


def _folded(operator: str, a: int, b: int) -> int | None:
    value: int | None = None
    if operator in ("+", "-", "*"):
        value = {"+": a + b, "-": a - b, "*": a * b}[operator]
    elif operator in ("/", "//", "%") and b:
        value = a % b if operator == "%" else a // b
    return value if value is not None and abs(value) < 2**31 else None
