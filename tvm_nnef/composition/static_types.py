"""Static types of values whose type is unknown at composition: an empty pack has no items.

Input: the attributes of an invocation as expressions and as values. Output: their types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tvm_nnef.composition.frame import Frame
from tvm_nnef.composition.values import Value
from tvm_nnef.graph.nodes import Operand
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.definition import check_definition
from tvm_nnef.semantics.infer import infer
from tvm_nnef.semantics.names import Report
from tvm_nnef.semantics.program import CheckedDefinition, Program
from tvm_nnef.semantics.types import CONCRETE
from tvm_nnef.syntax import nodes


class StaticTypes:
    """The types of attributes by their expressions, with a cache of the names of each
    definition.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._contexts: dict[str, Context] = {}

    def of(
        self,
        callee: CheckedDefinition,
        call: nodes.Call,
        attributes: Mapping[str, Value],
        operands: Sequence[Operand],
        frame: Frame,
    ) -> Iterator[tuple[str, str]]:
        """Return the types of generic attributes and inputs whose values do not determine them, by
        name.
        """
        generics = {dtype.name.name for dtype in callee.dtypes}
        parameters = (*callee.attributes, *callee.inputs)
        generic = {p.name.name for p in parameters if p.type.name.name in generics}
        arguments = [
            *((item.name.name, item.value, attributes[item.name.name]) for item in call.attributes),
            *(
                (parameter.name.name, argument, operand)
                for parameter, argument, operand in zip(
                    callee.inputs, call.arguments or (), operands, strict=False
                )
            ),
        ]
        for name, expression, value in arguments:
            if isinstance(expression, nodes.Omitted) or name not in generic:
                continue
            if _is_untyped(value, expression):
                base = self._base(expression, frame)
                base = frame.env.types.get(base, base)
                if base in CONCRETE:
                    yield name, base

    def _base(self, expression: nodes.Expression, frame: Frame) -> str:
        definition = frame.definition
        if definition is None:
            return ""
        if definition.qualified_name not in self._contexts:
            found = check_definition(self._program, definition.module, definition.node, Report())
            self._contexts[definition.qualified_name] = found
        return infer(expression, self._contexts[definition.qualified_name].at("compose")).base


def _is_untyped(value: Value, expression: nodes.Expression) -> bool:
    """Whether a value is an empty pack, or an integer that may be the sum or product of one."""
    return value == () or (type(value) is int and not isinstance(expression, nodes.Integer))
