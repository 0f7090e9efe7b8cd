"""Formulas that write a data-dependent number of elements: ``y[k] = x[i], i < n | x[i] > 0``
(2.12).

``k`` is a data-dependent dimension of the output (``y: real[k|n]``). Each step that writes appends
its value, and at the end ``k`` is the number of values. Such an operator becomes a graph: a formula
that fills a buffer of the size of the bound and counts, and for each output an operation that cuts
its buffer to the front part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tvm_nnef.composition import declarations
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.formula import expand
from tvm_nnef.composition.frame import Frame
from tvm_nnef.composition.results import declared_result
from tvm_nnef.composition.shapes import Shape
from tvm_nnef.composition.values import Value
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.formula import Binary, Constant, Formula, Load, Statement, Store, loads
from tvm_nnef.graph.nodes import Operand, Operation, Tensor, flatten
from tvm_nnef.semantics.names import used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.symbolic import dimensions
from tvm_nnef.syntax import nodes

PREFIX = "front"
"""The operator that cuts a buffer. Inputs: buffer and count. Output: the first items along an
axis.
"""


def counter(definition: CheckedDefinition, names: Mapping[str, Value]) -> nodes.Extent | None:
    """Return the declared dimension that the formula of an operator counts; None if there is none.

    ``names`` are those known before the outputs.
    """
    for parameter in definition.outputs:
        for extent in parameter.type.shape or ():
            if extent.bound is None or not isinstance(extent.value, nodes.Identifier):
                continue
            name = extent.value.name
            targets = (lowering.target for lowering in definition.lowerings)
            if name not in names and any(name == used.name for used in used_names(tuple(targets))):
                return extent
    return None


def check_counted(
    definition: CheckedDefinition, symbols: int, counted: nodes.Extent | None
) -> None:
    """Raise NnefError if a formula does not determine all dimensions of its outputs.

    ``symbols`` is the number of data-dependent dimensions of the outputs.
    """
    if definition.is_lowered and symbols > (counted is not None):
        span = definition.outputs[0].span
        hint = "write after what is written so far, as in 'y[k,] = …', where 'y: real[k|bound]'"
        raise error("a data-dependent dimension that the formula does not count", span, hint=hint)


def lowered_part(
    definition: CheckedDefinition, frame: Frame, results: tuple[Operand, ...], formula: Formula
) -> Operation:
    """Return the formula of an operator as a separate operation."""
    read = dict.fromkeys(
        load.tensor for statement in formula.statements for load in loads(statement)
    )
    operands = tuple(
        tensor
        for tensor in read
        if tensor not in flatten(results) and tensor.role in ("input", "result")
    )
    return Operation(
        f"{definition.qualified_name}:formula",
        {}, {}, operands, results,
        tuple(tensor.type for tensor in operands),
        tuple(tensor.type for tensor in flatten(results)),
        formula, "", frame.trace,
    )  # fmt: skip


def counted_body(
    definition: CheckedDefinition, counted: nodes.Extent, frame: Frame, unique: Callable[[str], str]
) -> tuple[Operand, ...]:
    """Compose the body of an operator whose formula counts a dimension; return its results.

    Raises NnefError if a dimension of an output is an expression of the counted one instead of the
    counted one itself.
    """
    assert isinstance(counted.value, nodes.Identifier) and counted.bound is not None
    symbol, outputs = counted.value.name, definition.outputs
    before = dict(frame.env.names)
    shapes = [declarations.item_shapes(parameter, frame.env) for parameter in outputs]
    buffer_ = replace(frame.env, names={**before, symbol: known(counted.bound, frame.env)})
    buffers = tuple(
        declared_result(
            unique, parameter, declarations.item_shapes(parameter, buffer_), buffer_, frame, None
        )
        for parameter in outputs
    )
    count = Tensor(unique(f"{frame.scope}.{symbol}"), "int", (), "result", None, counted.span)
    written = dict(zip((p.name.name for p in outputs), buffers, strict=True))
    env = buffer_.extended({**written, symbol: Load(count, ())})
    length = frame.env.names[symbol]
    for buffer, shape in zip(buffers, shapes, strict=True):
        _check_shape(buffer, shape, length, frame)
    formula = _counting(expand(definition.lowerings, (*buffers, count), env), count)
    made = (*buffers, count)
    frame.operations.append(lowered_part(definition, frame, made, formula))
    return tuple(
        _front(buffer, shape, length, count, frame, unique)
        for buffer, shape in zip(buffers, shapes, strict=True)
    )


def _counting(formula: Formula, count: Tensor) -> Formula:
    """Return the formula with an increment of the counter in each statement that appends."""
    here = Load(count, ())

    def stepped(statement: Statement) -> Statement:
        indices = [s.index for store in statement.stores for s in store.subscripts]
        if here not in indices:
            return statement
        step = Store(count, (), "=", Binary("add", here, Constant("int", 1)))
        return replace(statement, stores=(*statement.stores, step))

    return replace(formula, statements=tuple(map(stepped, formula.statements)))


def _check_shape(buffer: Operand, shape: list[Shape] | Shape, length: Value, frame: Frame) -> None:
    """Raises NnefError unless the data-dependent dimension is the counted one."""
    if not isinstance(buffer, Tensor) or isinstance(shape, list):
        hint = "declare the result without '..'"
        message = "a dimension that is counted belongs to single tensors"
        raise error(message, frame.trace[-1], hint=hint)
    for size, buffer_ in zip(shape, buffer.shape, strict=True):
        if size is not length and not dimensions.equal(size, buffer_):
            hint = "give the outputs one data-dependent dimension, under the same name"
            message = "a data-dependent dimension is not the one that is counted"
            raise error(message, buffer.span, hint=hint)


def _front(
    buffer: Operand,
    shape: list[Shape] | Shape,
    length: Value,
    count: Tensor,
    frame: Frame,
    unique: Callable[[str], str],
) -> Operand:
    """Return the front part of a buffer; the buffer itself if nothing needs cutting."""
    axes = tuple(axis for axis, size in enumerate(shape) if size is length)
    assert isinstance(buffer, Tensor) and not isinstance(shape, list)
    if not axes:
        return buffer
    result = replace(buffer, name=unique(f"{frame.scope}..T1"), shape=shape)
    frame.operations.append(
        Operation(
            PREFIX, {"axes": axes}, {}, (buffer, count), (result,), (buffer.type, "int"),
            (buffer.type,), None, "", frame.trace,
        )
    )  # fmt: skip
    return result
