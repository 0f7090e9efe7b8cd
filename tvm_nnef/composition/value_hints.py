"""Hints of errors that depend on a value.

Input: the value that is wrong. Output: a suggestion, as text.
"""

from __future__ import annotations

from tvm_nnef.composition.values import Value, is_scalar, is_tensors, type_of
from tvm_nnef.graph import formula
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.semantics import hints
from tvm_nnef.symbolic import dimensions

BEYOND = "write a larger bound, or make the data smaller"
EQUAL = "change the shape that is given, or the declaration, so that both agree"
FOR_NULL = "give a value for the case of null, as in 'a ?? 0'"
_BARS = "write the bars around a whole index, as in 'x[|i + 1|,]'"
_STATIC = "fix the dimension, with --shape or input_shapes"


def access(tensor: Tensor) -> str:
    """Return a hint how to read an element of a tensor."""
    name, rank = tensor.short_name, tensor.rank
    if rank > len("ijklmn"):
        return f"write an index for each of the {rank} dimensions of '{name}'"
    indices = ", ".join("ijklmn"[:rank]) + ("," if rank == 1 else "")
    return f"read an element by '{name}[{indices}]'"


def element(value: Value) -> str:
    """Return a hint for a value that is not one number or truth value."""
    match value:
        case None:
            return FOR_NULL
        case Tensor():
            return access(value)
        case tuple():
            return "take an item of the pack, as in 'a[0]', or fold it, as in 'a + ..'"
        case formula.Subscript():
            return _BARS
        case str():
            return "write a number, true or false"
    return "write a number, true or false, or read an element of a tensor"


def index(value: Value) -> str:
    """Return a hint for a value that is not an index."""
    if type_of(value) == "real" and not isinstance(value, Tensor):
        return "round it, as in 'int(r)'"
    if type_of(value) == "bool":
        return "convert it, as in 'int(b)'"
    return element(value)


def condition(value: Value) -> str:
    """Return a hint for a value that is not a condition."""
    if value is None:
        return "test it for null, as in '?a'"
    if isinstance(value, tuple):
        return "fold the pack, as in 'c && ..'"
    return access(value) if isinstance(value, Tensor) and value.type == "bool" else hints.CONDITION


def pack(value: Value) -> str:
    """Return a hint for a value that is not a pack."""
    if isinstance(value, Tensor):
        return "write it as a list, as in '[x]', or divide it by layout.unstack"
    return FOR_NULL if value is None else "write it as a list, as in '[a]'"


def tensor(value: Value) -> str:
    """Return a hint for a value that is not a tensor."""
    match value:
        case None:
            return "give a tensor for the case of null, as in 'x ?? 0.0'"
        case str():
            return "a string can only be an attribute"
        case tuple():
            return "lists are not nested: expand the inner one with '..'"
    return element(value)


def integer(value: Value) -> str:
    """Return a hint for a value that is not an integer known when the model is composed."""
    if isinstance(value, float):
        return f"write {int(value)}" if value.is_integer() else "round it, as in 'int(r)'"
    if dimensions.is_symbolic(value):
        return _STATIC
    if is_scalar(value) or is_tensors(value):
        return "use an attribute, or a dimension such as 'x.shape[0]'"
    return FOR_NULL if value is None else "write a number such as 1"


def of_type(value: Value, wanted: str) -> str:
    """Return a hint for a value whose type differs from that of an attribute."""
    if isinstance(value, Tensor):
        return "an attribute is a number, a truth value or a string: give the tensor as an input"
    if wanted == "int" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    examples = {"int": "2", "real": "2.0", "bool": "true", "str": "'text'"}
    return f"write {'' if wanted == 'bool' else 'a value such as '}{examples.get(wanted, '2')}" + (
        " or false" if wanted == "bool" else ""
    )


def same_kind(one: Operand, other: Operand) -> str:
    """Return a hint how to give two tensors the same type and shape."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return "let both be single tensors, or packs of as many tensors"
    if one.type != other.type:
        return f"convert one of them, as by layout.cast<{one.type}>"
    return "bring both to one shape, as by layout.reshape, layout.pad or layout.slice"


def sized(shape: tuple[dimensions.Dimension, ...]) -> str:
    """Return a hint how to fix the dimensions of a shape that are known only at run time."""
    names = sorted({name for size in shape for name in dimensions.symbols(size)})
    return f"fix {', '.join(names)}, with --shape or input_shapes" if names else _STATIC


def fitting(found: int, factor: int, offset: int) -> str:
    """Return the two lengths ``factor * n + offset`` that are nearest to an impossible one."""
    if factor == 0:
        return f"{offset} fits"
    step = max(0, (found - offset) // factor)
    near = sorted({each for each in (factor * step + offset, factor * (step + 1) + offset)
                   if each >= 0})  # fmt: skip
    return f"{' and '.join(map(str, near))} would fit" if near else "change the declaration"
