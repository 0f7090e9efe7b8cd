"""Elements of what is computed from constants, as expressions over these.

Input: a Relax value that operators and kernels compute from constants. Output: the indices and the
expression of its element, which :mod:`~tvm_nnef.schedules.analysis.evaluation` computes with NumPy,
and whether such an expression varies along a dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm import relax, sym, tirx
from tvm.ir import Call, Range, TensorLoad

from tvm_nnef.schedules.analysis.kernel import at, inlined
from tvm_nnef.schedules.relax.rebuilding import kernel_at_call
from tvm_nnef.schedules.relax.rewriting import Operands, operator_name
from tvm_nnef.tir.expressions import (
    LONGEST_EXPRESSION,
    loads,
    mentions,
    size,
    substituted,
    with_simple_indices,
)
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    Array,
    Buffer,
    PrimExpression,
    PrimFunction,
    RelaxExpression,
    Var,
    constant_array,
    is_tensor,
)

Element: TypeAlias = "tuple[list[Var], PrimExpression]"
"""The indices of an element, and its value."""


def at_load(element: Element, load: TensorLoad) -> PrimExpression:
    """Return the value of an element at the indices of a load."""
    axes, value = element
    return substituted(value, dict(zip(axes, load.indices, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class ConstantReader:
    """Writes an element of a Relax value as an expression over constants, the ``arrays``."""

    operands: Operands
    functions: Mapping[str, PrimFunction]
    arrays: dict[Buffer, Array]
    _known: dict[RelaxExpression, Element | None] = field(default_factory=dict)

    def element(self, value: RelaxExpression) -> Element | None:
        """Return the indices of an element, and its value; None if it reads more than constants."""
        value = self.operands.definition(value)
        if value not in self._known:
            self._known[value] = self._element(value)
        return self._known[value]

    def _element(self, value: RelaxExpression) -> Element | None:
        array = constant_array(value)
        if array is not None:
            buffer = tirx.decl_buffer(array.shape, str(array.dtype), "constant")
            self.arrays[buffer] = array
            axes = [tirx.Var(f"i{number}", "int64") for number in range(array.ndim)]
            return axes, buffer[tuple(axes)]
        if not isinstance(value, Call) or not is_tensor(value):
            return None
        if operator_name(value) == "call_tir":
            if len(value.args) > 2:
                return None
            function = self.functions.get(str(value.args[0].name_hint))
            return None if function is None else self._of_kernel(function, value.args[1].fields)
        legalize = value.op.get_attr("FLegalize") if operator_name(value) else None
        tensors = [each for each in value.args if hasattr(each, "ty") and is_tensor(each)]
        if legalize is None or not tensors or self._depends_on_inputs(tensors):
            return None
        separate = relax.BlockBuilder()
        made = legalize(separate, value)
        if operator_name(made) != "call_tir" or len(made.args) > 2:
            return None
        return self._of_kernel(separate.get()[made.args[0]], made.args[1].fields)

    def _depends_on_inputs(self, tensors: Sequence[RelaxExpression]) -> bool:
        """Whether some operand is a parameter: then nothing is legalized for it."""
        return any(isinstance(self.operands.definition(each), relax.Var) for each in tensors)

    def _of_kernel(
        self, function: PrimFunction, arguments: Sequence[RelaxExpression]
    ) -> Element | None:
        kernel = kernel_at_call(function, arguments)
        if kernel is None or len(kernel.results) != 1 or any(s.reduced for s in kernel.stages):
            return None
        given: dict[Buffer, Element] = {}
        for buffer, argument in zip(kernel.inputs, arguments, strict=True):
            found = self.element(argument)
            if found is None:
                return None
            given[buffer] = found

        def read(load: TensorLoad) -> PrimExpression:
            return at_load(given[load.source], load)

        (result,) = kernel.results
        axes = [tirx.Var(str(axis.var.name), "int64") for axis in result.axes]
        value = at(result, axes)
        value = inlined(value, {s.buffer: s for s in kernel.stages if s is not result})
        value = traversal.mapped(value, (TensorLoad, read), order="post")
        analyzer = sym.Analyzer()
        for var, axis in zip(axes, result.axes, strict=True):
            analyzer.bind(var, Range(0, axis.extent))
        value = with_simple_indices(value, analyzer)
        return (axes, value) if size(value) <= LONGEST_EXPRESSION else None


def varies(value: PrimExpression, row: Var, rows: int, block: int) -> bool:
    """Whether a value is not the same for all rows of a block."""
    if not mentions(value, [row]):
        return False
    number, inner = (tirx.Var(name, "int64") for name in ("block", "inner"))
    analyzer = sym.Analyzer()
    analyzer.bind(number, Range(0, rows // block))
    analyzer.bind(inner, Range(0, block))
    moved = substituted(value, {row: number * tirx.const(block, "int64") + inner})
    indices = [index for load in loads(moved) for index in load.indices]
    simple = [analyzer.simplify(index) for index in indices if not loads(index)]
    outside = traversal.mapped(moved, (TensorLoad, _first_element))
    nested = any(loads(index) and mentions(index, [inner]) for index in indices)
    return nested or mentions(outside, [inner]) or any(mentions(i, [inner]) for i in simple)


def _first_element(load: TensorLoad) -> TensorLoad:
    return load.source[(0,) * len(load.indices)]
