"""Conversion of the steps of a converted graph into the syntax tree of a module.

Input: named tensors and steps. Output: nodes; they have no source location.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tvm_nnef.converters.common.symbolic import Size, Symbol, Symbolic
from tvm_nnef.converters.common.tensors import (
    Argument,
    Attribute,
    Block,
    Branch,
    Call,
    Declared,
    Invocation,
    Loop,
    Number,
    Operator,
    Pack,
    Result,
    Step,
    Tensor,
)
from tvm_nnef.converters.common.types import kind
from tvm_nnef.diagnostics import Source, Span
from tvm_nnef.symbolic import trees
from tvm_nnef.syntax import nodes

UPDATE = "math.iden"
"""The operator that assigns the new value of a variable."""

NOWHERE = Span(Source("<converted>", ""), 0, 0)


def graph_definition(
    name: str,
    inputs: Sequence[Tensor],
    variables: Sequence[Tensor],
    outputs: Sequence[Tensor],
    steps: Sequence[Step],
    updates: Sequence[tuple[Tensor, Tensor]] = (),
    quantized: Sequence[tuple[str, Call]] = (),
) -> nodes.Definition:
    """Return a graph with its blocks; those that would be empty are omitted.

    ``quantized`` has the names of tensors; those inside operators have the labels as prefix.
    """
    kinds: tuple[tuple[nodes.BlockKind, tuple[nodes.Statement, ...]], ...] = (
        ("input", tuple(_inputs(inputs))),
        ("output", tuple(map(_output, outputs))),
        ("variable", tuple(map(_parameter, variables))),
        ("compose", tuple(map(_component, steps))),
        ("update", tuple(_update(*each) for each in updates)),
        ("quantize", tuple(_quantization(*each) for each in quantized)),
    )
    return _definition("graph", name, kinds)


def _update(variable: Tensor, new: Tensor) -> nodes.Component:
    return _component(Call(UPDATE, (), {}, (new,), (variable,)))


def _quantization(name: str, quantizer: Call) -> nodes.Quantization:
    operator = replace(_call(quantizer), arguments=None)
    return nodes.Quantization(_path(name), operator, span=NOWHERE)


def _definition(
    keyword: Literal["graph", "operator"],
    name: str | None,
    kinds: Iterable[tuple[nodes.BlockKind, tuple[nodes.Statement, ...]]],
    public: bool = False,
) -> nodes.Definition:
    assert name is not None
    blocks = tuple(nodes.Block(kind, found, span=NOWHERE) for kind, found in kinds if found)
    return nodes.Definition(keyword, _identifier(name), blocks, public, span=NOWHERE)


def operator_definition(operator: Operator) -> nodes.Definition:
    """Return a block of steps as an operator, whose tensors have names inside it."""
    attributes = (
        _declaration(each.name, "int", None) for each in operator.symbols if each.name is not None
    )
    inputs = map(_shaped, operator.inputs, operator.input_shapes)
    outputs = map(_shaped, operator.outputs, operator.output_shapes)
    components = map(_component, operator.steps)
    kinds: tuple[tuple[nodes.BlockKind, tuple[nodes.Statement, ...]], ...] = (
        ("attrib", tuple(attributes)),
        ("input", tuple(inputs)),
        ("output", tuple(outputs)),
        ("compose", tuple(components)),
    )
    return _definition("operator", operator.name, kinds, public=True)


def module(imports: Iterable[str], definitions: Sequence[nodes.Definition]) -> nodes.Module:
    """Return a module."""
    imported = tuple(nodes.Import(_path(name), span=NOWHERE) for name in imports)
    return nodes.Module(imported, tuple(definitions), span=NOWHERE)


def operators(steps: Iterable[Step]) -> set[str]:
    """Return the qualified names of all operators that steps invoke, also inside blocks.

    Operators that outlining made of the model's blocks are not included.
    """
    names: set[str] = set()
    for step in steps:
        match step:
            case Call():
                names.add(step.operator)
            case Branch(_, consequent, alternative):
                names |= operators(consequent.steps) | operators(alternative.steps)
            case Loop(body):
                names |= operators(body.steps)
            case Invocation(operator):
                names |= operators(operator.steps)
    return names


def is_literal(tensor: Tensor) -> bool:
    """Whether a tensor of known value is written as a number where it is read."""
    value = tensor.value
    if value is None or tensor.is_state:
        return False
    return not value.shape and _can_be_written(value)


def _can_be_written(value: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bool:
    """Whether a value has a literal: NaN has none, nor has an integer whose magnitude is beyond
    int64.
    """
    if kind(str(value.dtype)) == "real":
        return not bool(np.isnan(value))
    return abs(int(value)) <= np.iinfo(np.int64).max


def _inputs(inputs: Sequence[Tensor]) -> Iterator[nodes.Parameter]:
    """Yield the inputs of a graph.

    The first dimension that has a symbol is followed by its bound.
    """
    bounded: set[Symbol] = set()
    for tensor in inputs:
        shape = []
        for size in tensor.shape:
            new = [] if isinstance(size, int) else {*size.symbols.values()} - bounded
            bound = next((_integer(each.bound) for each in new), None)
            shape.append(nodes.Extent(_size(size), bound, span=NOWHERE))
            bounded.update(new)
        yield _declaration(tensor.name, tensor.kind, tuple(shape))


def _parameter(tensor: Tensor) -> nodes.Parameter:
    shape = (nodes.Extent(_size(size), span=NOWHERE) for size in tensor.shape)
    return _declaration(tensor.name, tensor.kind, tuple(shape))


def _shaped(tensor: Tensor, shape: Declared | None) -> nodes.Parameter:
    """Return an input or output of an operator."""
    if shape is None:
        return _declaration(tensor.name, tensor.kind, None)
    sizes = (_integer(each) if isinstance(each, int) else _origin(each) for each in shape)
    declared = tuple(nodes.Extent(each, span=NOWHERE) for each in sizes)
    return _declaration(tensor.name, tensor.kind, declared)


def _declaration(
    name: str | None, kind: str, shape: tuple[nodes.Extent, ...] | None
) -> nodes.Parameter:
    assert name is not None
    type_ = nodes.TypeSpec(nodes.TypeName(kind, span=NOWHERE), shape=shape, span=NOWHERE)
    return nodes.Parameter(_identifier(name), type_, span=NOWHERE)


def _output(tensor: Tensor) -> nodes.Parameter:
    """Return an output; its shape is omitted if it is known only at run time."""
    parameter = _parameter(tensor)
    if all(isinstance(size, int) for size in tensor.shape):
        return parameter
    return replace(parameter, type=replace(parameter.type, shape=None))


def _size(size: Size) -> nodes.Expression:
    if isinstance(size, int):
        return _integer(size)
    return _of_tree(trees.tree(size.dimension), size.symbols)


def _of_tree(tree: Any, symbols: Mapping[str, Symbol]) -> nodes.Expression:
    match tree:
        case str(name):
            return _origin(symbols[name])
        case ["not", operand]:
            return nodes.Unary("!", _of_tree(operand, symbols), span=NOWHERE)
        case ["select", condition, consequent, alternative]:
            chosen, other = _of_tree(consequent, symbols), _of_tree(alternative, symbols)
            return nodes.Select(_of_tree(condition, symbols), chosen, other, span=NOWHERE)
        case [function, left, right]:
            operands = _of_tree(left, symbols), _of_tree(right, symbols)
            return nodes.Binary(_SIGNS[function], *operands, span=NOWHERE)
    return _integer(int(tree))


_SIGNS: Mapping[str, nodes.BinaryOperator] = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "/", "floormod": "%", "min": "min",
    "max": "max", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and": "&&", "or": "||",
}  # fmt: skip


def _origin(symbol: Symbol) -> nodes.Expression:
    """Return the expression of a symbol: a name that an input declares, or a dimension of a
    tensor.
    """
    if symbol.tensor is None:
        assert symbol.name is not None
        return _identifier(symbol.name)
    assert isinstance(symbol.tensor, Tensor)
    shape = nodes.Property(_name(symbol.tensor), "shape", span=NOWHERE)
    return nodes.Subscript(shape, (_integer(symbol.axis),), span=NOWHERE)


def _component(step: Step) -> nodes.Component:
    match step:
        case Call(results=results):
            return _assign(results, _call(step))
        case Branch(condition, consequent, alternative, results):
            arm = nodes.BranchArm(_expression(condition), _scope(consequent), span=NOWHERE)
            return _assign(results, nodes.Branch((arm,), _scope(alternative), span=NOWHERE))
        case Loop(results=results):
            return _assign(results, _loop(step))
        case Invocation(results=results):
            return _assign(results, _invocation(step))


def _assign(
    results: Sequence[Result], value: nodes.Body | nodes.Branch | nodes.Loop
) -> nodes.Component:
    return nodes.Component(tuple(map(_target, results)), value, span=NOWHERE)


def _target(result: Result) -> nodes.Target:
    match result:
        case None:
            return nodes.Omitted(span=NOWHERE)
        case Tensor():
            return nodes.NameTarget(_name(result), span=NOWHERE)
        case Pack(length=length):
            pack_ = nodes.Pack(_size(length), span=NOWHERE)
            return nodes.NameTarget(_name(result), pack=pack_, span=NOWHERE)
        case items:
            targets = tuple(nodes.NameTarget(_name(item), span=NOWHERE) for item in items)
            return nodes.ListTarget(targets, span=NOWHERE)


def _call(call: Call) -> nodes.Call:
    attributes = (
        nodes.AttributeAssignment(_identifier(name), _attribute(value), span=NOWHERE)
        for name, value in call.attributes.items()
    )
    types = (nodes.TypeName(name, span=NOWHERE) for name in call.types)
    arguments = tuple(map(_argument, call.arguments))
    return nodes.Call(
        _path(call.operator), tuple(types), tuple(attributes), arguments, span=NOWHERE
    )


def _invocation(invocation: Invocation) -> nodes.Call:
    operator, label = invocation.operator, invocation.label
    assert operator.name is not None and label is not None
    attributes = (
        nodes.AttributeAssignment(_identifier(each.name), _origin(each), span=NOWHERE)
        for each in operator.symbols
        if each.name is not None
    )
    arguments = tuple(map(_expression, invocation.arguments))
    return nodes.Call(
        _path(operator.name), (), tuple(attributes), arguments, _identifier(label), span=NOWHERE
    )


def _loop(loop: Loop) -> nodes.Loop:
    carried = tuple(
        nodes.Carried(
            _name(inside), _expression(outside), nodes.TypeName(inside.kind, span=NOWHERE),
            tuple(nodes.Extent(_size(size), span=NOWHERE) for size in inside.shape),
            span=NOWHERE,
        )
        for inside, outside in loop.carried
    )  # fmt: skip
    scans = tuple(nodes.Scan(_name(item), _name(pack), span=NOWHERE) for item, pack in loop.scans)
    count = loop.count if loop.count is None else _count(loop.count)
    index = None if loop.index is None else _name(loop.index)
    iteration = None
    if count is not None or index is not None:
        iteration = nodes.IterationCount(index, count, span=NOWHERE)
    condition = None if loop.condition is None else _expression(loop.condition)
    return nodes.Loop(
        _scope(loop.body), carried, scans, condition, iteration=iteration, span=NOWHERE
    )


def _count(count: Tensor | Size) -> nodes.Expression:
    return _expression(count) if isinstance(count, Tensor) else _size(count)


def _scope(block: Block) -> nodes.Scope:
    yields = tuple(_expression(each) for each in block.yields)
    return nodes.Scope(tuple(map(_component, block.steps)), yields, span=NOWHERE)


def _argument(value: Argument) -> nodes.Expression | nodes.Omitted:
    match value:
        case None:
            return nodes.Omitted(span=NOWHERE)
        case Tensor() | bool() | int() | float():
            return _expression(value)
        case Pack():
            return _name(value)
        case items:
            return _list([_expression(item) for item in items])


def _expression(value: Tensor | Number) -> nodes.Expression:
    if not isinstance(value, Tensor):
        return _number(value)
    if value.value is not None and is_literal(value):
        return _number(_scalar(value))
    return _name(value)


def _scalar(tensor: Tensor) -> Number:
    assert tensor.value is not None
    item = tensor.value.item()
    assert isinstance(item, (bool, int, float))
    if tensor.dtype in ("float32", "float16") and math.isfinite(item):
        # The shortest decimal that is the same number in the tensor's own precision.
        return float(str(tensor.value.dtype.type(item)))
    return item


def _attribute(value: Attribute) -> nodes.Expression:
    match value:
        case str():
            return nodes.Text((value,) if value else (), span=NOWHERE)
        case bool() | int() | float() | Symbolic():
            return _number(value)
        case items:
            return _list([_number(item) for item in items])


def _number(value: Number | Symbolic) -> nodes.Expression:
    match value:
        case Symbolic():
            return _size(value)
        case bool():
            return nodes.Boolean(value, span=NOWHERE)
        case int():
            return _integer(value)
        case float():
            return _real(value)
    return _number(value.item())


def _integer(value: int) -> nodes.Expression:
    value = int(value)
    if value < 0:
        return nodes.Unary("-", nodes.Integer(-value, span=NOWHERE), span=NOWHERE)
    return nodes.Integer(value, span=NOWHERE)


def _real(value: float) -> nodes.Expression:
    if math.isnan(value):
        zero = nodes.Real(0.0, span=NOWHERE)
        return nodes.Binary("/", zero, zero, span=NOWHERE)
    if math.copysign(1.0, value) < 0:
        return nodes.Unary("-", _real(-value), span=NOWHERE)
    if math.isinf(value):
        return nodes.NamedConstant("inf", span=NOWHERE)
    return nodes.Real(float(value), span=NOWHERE)


def _list(items: list[nodes.Expression]) -> nodes.ListExpression:
    return nodes.ListExpression(tuple(items), span=NOWHERE)


def _name(tensor: Tensor | Pack) -> nodes.Identifier:
    assert tensor.name is not None, tensor
    return _identifier(tensor.name)


def _identifier(name: str) -> nodes.Identifier:
    return nodes.Identifier(name, span=NOWHERE)


def _path(name: str) -> nodes.Path:
    return nodes.Path(tuple(name.split(".")), span=NOWHERE)
