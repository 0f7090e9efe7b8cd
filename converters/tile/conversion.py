"""Conversion of a traced function into a graph: an operator for each contraction, standard ones for
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_nnef.converters.common.bounds import Bounds
from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.collected_errors import Problems
from tvm_nnef.converters.common.names import Namer
from tvm_nnef.converters.common.steps import needed
from tvm_nnef.converters.common.tensors import Argument, ConvertedGraph
from tvm_nnef.converters.common.tensors import Tensor as GraphTensor
from tvm_nnef.converters.common.types import kind
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.tile.dimensions import Dim
from tvm_nnef.converters.tile.formulas import Operand, Written, write, write_mask
from tvm_nnef.converters.tile.indices import IndexExpression
from tvm_nnef.converters.tile.locations import Mistake
from tvm_nnef.converters.tile.ranges import Bounded, Nest, Problem, has_one_writer, nest, writes_all
from tvm_nnef.converters.tile.shapes import (
    Sizes,
    broadcast,
    check_output,
    complete_inputs,
    promoted,
)
from tvm_nnef.converters.tile.tracing import (
    Access,
    Contraction,
    Elementwise,
    Output,
    Tensor,
    Trace,
    in_order,
    reads,
)
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.syntax import nodes

MAX_TENSORS = 1 << 12
"""Upper limit of the tensors of a function."""

_REAL = {
    "sqrt": "math.sqrt", "exp": "math.exp", "log": "math.log", "sin": "math.sin",
    "cos": "math.cos", "tan": "math.tan", "tanh": "math.tanh", "sigmoid": "nn.sigmoid",
    "floor": "math.floor", "ceil": "math.ceil", "div": "math.div",
}  # fmt: skip
_NUMERIC = {
    "neg": "math.neg", "abs": "math.abs", "add": "math.add", "sub": "math.sub",
    "mul": "math.mul", "pow": "math.pow",
}  # fmt: skip
_COMPARISONS = {
    "eq": "math.eq", "ne": "math.ne", "lt": "math.lt", "le": "math.le", "gt": "math.gt",
    "ge": "math.ge",
}  # fmt: skip
FUNCTIONS = {**_REAL, **_NUMERIC, **_COMPARISONS}
"""The standard operators of element-wise functions, except ``select``."""


@dataclass
class Converted:
    """A tensor of the function in the graph, with its sizes."""

    tensor: GraphTensor
    sizes: tuple[Dim, ...]


@dataclass
class _Conversion:
    """The graph of a function during its construction."""

    trace: Trace
    sizes: Sizes
    names: Namer
    builder: Builder = field(default_factory=Builder)
    converted: dict[int, Converted] = field(default_factory=dict)
    operators: list[nodes.Definition] = field(default_factory=list)

    def contraction(self, output: Output) -> Converted:
        """Return the tensor that a contraction computes."""
        contraction = output.contraction
        if contraction is None:
            name = output.name or "without a name"
            hint = f"write it: {output.name or 'O'}[i] += I[i]"
            raise Mistake(f"output '{name}' is not written", hint, output.location)
        shape = tuple(map(self.sizes.resolved, output.sizes))
        check_output(output, shape, self.sizes)
        problem = self._problem(output, contraction, shape)
        loops = nest(problem)
        if contraction.operator == "=":
            _check_writers(problem, loops)
        tensors = [self.converted[id(each.tensor)] for each in contraction.operands]
        dtype = promoted([each.tensor.dtype for each in tensors])
        return Converted(self._invoked(output, contraction, loops, tensors, dtype, shape), shape)

    def _invoked(
        self,
        output: Output,
        found: Contraction,
        loops: Nest,
        tensors: Sequence[Converted],
        dtype: str,
        shape: tuple[Dim, ...],
    ) -> GraphTensor:
        """Return the invocation of an operator, with zeros for elements that it does not write."""
        namer = Namer()
        operands: dict[int, Operand] = {}
        arguments: list[GraphTensor] = []
        for access, own in zip(found.operands, tensors, strict=True):
            if id(access.tensor) not in operands:
                name = namer.name(access.tensor.name or "x")
                operands[id(access.tensor)] = Operand(name, kind(dtype), own.sizes)
                arguments.append(self.builder.cast(own.tensor, dtype))
        read = [operands[id(each.tensor)].name for each in found.operands]
        result = Operand(namer.name(output.name or "y"), kind(dtype), shape)
        every = list(operands.values())
        name = self._operator_name(output)
        written = write(name, loops, found.operator, every, read, found.combination, result)
        made = self._call(written, arguments, dtype, shape)
        if found.operator in ("+=", "=") or writes_all(loops):
            return made
        mask = Operand(result.name, "bool", shape)
        is_written = write_mask(self.names.name(f"{name}_written"), loops, every, mask)
        condition = self._call(is_written, [], "bool", shape)
        return self.builder.select(condition, made, _number(0, dtype))

    def _call(
        self, written: Written, arguments: Sequence[GraphTensor], dtype: str, shape: Sequence[Dim]
    ) -> GraphTensor:
        self.operators.append(written.definition)
        attributes = {name: self.sizes.value(each) for name, each in written.attributes.items()}
        return self.builder.call(
            written.definition.name.name,
            *arguments,
            as_type=dtype,
            as_shape=self.sizes.shape(shape),
            more=attributes,
        )

    def _operator_name(self, output: Output) -> str:
        """Return the function's name if it is one contraction, else with the name of the output."""
        is_all = len(self.trace.outputs) == 1 and self.trace.outputs[0] is output
        parts = [self.trace.name] if is_all else [self.trace.name, output.name]
        return self.names.name("_".join(filter(None, parts)))

    def _problem(self, output: Output, found: Contraction, shape: tuple[Dim, ...]) -> Problem:
        operands = tuple(
            self._bounded(each, self.converted[id(each.tensor)].sizes) for each in found.operands
        )
        constraints = []
        for each in output.constraints:
            try:
                expression = self._index(each.expression)
                constraints.append(Bounded(expression, self.sizes.resolved(each.bound)))
            except Mistake as mistake:
                raise mistake.at(each.location) from None
        left = Access(output, found.subscripts, found.location)
        written = self._bounded(left, shape)
        return Problem(written, operands, tuple(constraints), self.sizes.number)

    def _bounded(self, access: Access, shape: tuple[Dim, ...]) -> tuple[Bounded, ...]:
        if len(access.subscripts) != len(shape):
            name = access.tensor.name or "the tensor"
            raise Mistake(
                f"'{name}' has {len(shape)} dimensions, but {len(access.subscripts)} indices",
                f"give one index for each dimension{'' if shape else ': O[()]'}",
                access.location,
            )
        pairs = zip(map(self._index, access.subscripts), shape, strict=True)
        return tuple(Bounded(expression, size) for expression, size in pairs)

    def _index(self, expression: IndexExpression) -> IndexExpression:
        return IndexExpression(expression.terms, self.sizes.resolved(expression.constant))

    def elementwise(self, made: Elementwise) -> Converted:
        """Return the tensor that an element-wise operation computes."""
        operands = [
            self.converted[id(each)] if isinstance(each, Tensor) else each for each in made.operands
        ]
        tensors = [each for each in operands if isinstance(each, Converted)]
        shape = broadcast([each.sizes for each in tensors], self.sizes)
        if made.function == "select":
            return Converted(self._select(operands), shape)
        dtype = _dtype(made.function, operands)
        arguments = [self._argument(each, dtype) for each in operands]
        operator = FUNCTIONS[made.function]
        as_type = "bool" if made.function in _COMPARISONS else dtype
        if len(arguments) == 1:
            return Converted(self.builder.call(operator, *arguments, as_type=as_type), shape)
        left, right = arguments
        return Converted(self.builder.binary(operator, left, right, as_type), shape)

    def _select(self, operands: Sequence[Converted | Dim | float]) -> GraphTensor:
        condition, *branches = operands
        shapes = [self.sizes.shape(own.sizes) for own in branches if isinstance(own, Converted)]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            first, second = (f"[{', '.join(map(str, each))}]" for each in shapes)
            raise Mistake(
                f"the branches of 'select' have shapes {first} and {second}",
                "give tensors of the same shape",
            )
        chosen = self._condition(condition)
        dtype = _common(branches)
        then, otherwise = (self._argument(each, dtype) for each in branches)
        if not shapes:
            then = self.builder.constant(then, dtype)
        return self.builder.select(chosen, then, otherwise)

    def _condition(self, operand: Converted | Dim | float) -> GraphTensor:
        """Return whether elements are not 0, for a tensor or a single value."""
        if isinstance(operand, Converted) and operand.tensor.dtype == "bool":
            return operand.tensor
        if not isinstance(operand, (Converted, Dim)):
            return self.builder.constant(operand != 0, "bool")
        dtype = operand.tensor.dtype if isinstance(operand, Converted) else "int32"
        value = self._argument(operand, dtype)
        if not isinstance(value, GraphTensor):
            return self.builder.constant(value != 0, "bool")
        return self.builder.call("math.ne", value, _number(0, dtype), as_type="bool")

    def _argument(self, operand: Converted | Dim | float, dtype: str) -> Argument:
        match operand:
            case Converted(tensor=tensor):
                return self.builder.cast(tensor, dtype)
            case Dim():
                size = self.sizes.value(self.sizes.resolved(operand))
                if isinstance(size, int):
                    return _number(size, dtype)
                return self.builder.cast(self.builder.dimension(size), dtype)
        return _number(operand, dtype)


def convert_trace(
    trace: Trace,
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
    path: str,
) -> tuple[ConvertedGraph, list[nodes.Definition]]:
    """Return the graph of a traced function, and the operators that it invokes.

    Raises NnefError at the positions of all errors that do not follow from others.
    """
    problems = Problems(trace.problems)
    try:
        tensors = in_order(trace)
        if len(tensors) > MAX_TENSORS:
            raise Mistake(f"the function makes more than {MAX_TENSORS} tensors", "split it")
        inputs, dims, sizes = complete_inputs(trace, tensors, shapes, dtypes, bounds, path)
    except (Mistake, NnefError) as problem:
        problems.check()  # of which this may be a consequence
        raise problem.at(trace.location) if isinstance(problem, Mistake) else problem from None
    work = _Conversion(trace, sizes, Namer([each.name for each in trace.inputs]))
    for tensor, made, own in zip(trace.inputs, inputs, dims, strict=True):
        work.converted[id(tensor)] = Converted(made, own)
    for wrong in sizes.wrong.values():
        problems.add(wrong)
    broken = {*sizes.wrong, *map(id, trace.broken)}
    for tensor in tensors[len(trace.inputs) :]:
        if broken.isdisjoint(map(id, (tensor, *reads(tensor)))):
            with problems.collected():
                _convert(work, tensor)
                continue
        broken.add(id(tensor))
    problems.check()
    names = _output_names(trace)
    found = [work.converted[id(each)].tensor for each in trace.outputs]
    outputs = work.builder.outputs(found, names)
    steps = tuple(needed(work.builder.steps, outputs))
    return ConvertedGraph(tuple(inputs), tuple(outputs), steps), work.operators


def _convert(work: _Conversion, tensor: Tensor) -> None:
    """Convert one tensor, and bind the sizes that are read from it."""
    position = tensor.location
    try:
        if isinstance(tensor, Output):
            position = tensor.contraction.location if tensor.contraction else position
            converted = work.contraction(tensor)
        elif tensor.made is not None:
            converted = work.elementwise(tensor.made)
        else:
            raise Mistake("a tensor is not an input of the function", "use its parameters")
        converted.tensor.hint = converted.tensor.hint or tensor.name
        work.converted[id(tensor)] = converted
        work.sizes.bind(tensor, converted.sizes)
    except Mistake as mistake:
        raise mistake.at(position) from None
    except Unconvertible as problem:
        raise Mistake(problem.reason, problem.hint).at(position) from None


def _output_names(trace: Trace) -> list[str]:
    namer = Namer(each.name for each in trace.inputs)
    return [namer.name(each.name or "output") for each in trace.outputs]


def _check_writers(problem: Problem, loops: Nest) -> None:
    """Raise Mistake if an element may be assigned twice."""
    subscripts = [each.expression for each in problem.output]
    if not has_one_writer(subscripts, len(loops.extents)):
        raise Mistake(
            "'=' may assign an element of the output more than once",
            "say how values are merged: '+=', '*=', '>=' or '<='",
        )


def _dtype(function: str, operands: Sequence[Converted | Dim | float]) -> str:
    """Return the dtype in which a function computes."""
    return _common(operands, real=function in _REAL)


def _common(operands: Sequence[Converted | Dim | float], *, real: bool = False) -> str:
    dtypes = [each.tensor.dtype for each in operands if isinstance(each, Converted)]
    reals = [each for each in operands if isinstance(each, float)]
    is_integer = all(kind(each) != "real" for each in dtypes)
    return promoted(dtypes, real=real or bool(reals and is_integer))


def _number(value: float, dtype: str) -> float | int:
    return float(value) if kind(dtype) == "real" else int(value)
