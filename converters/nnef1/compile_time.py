"""The values of expressions without tensors, such as the shape of an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.calls import Tensor, Value
from tvm_nnef.converters.nnef1.evaluation import Evaluation, Evaluator, Frame
from tvm_nnef.converters.nnef1.fragments import standard
from tvm_nnef.converters.nnef1.labels import Labels
from tvm_nnef.diagnostics import error


class _Attributes(Evaluator):
    """The evaluation of expressions if there are no tensors."""

    def operation(
        self,
        node: nodes.Unary | nodes.Binary,
        name: str,
        operands: Sequence[Value],
        frame: Frame,
        wanted: Labels,
    ) -> Evaluation:
        raise AssertionError(name)

    def invocation(self, node: nodes.Invocation, frame: Frame, wanted: Labels) -> Evaluation:
        hint = "write numbers"
        raise error("an operation in a compile-time expression", node.span, hint=hint)

    def shape(self, tensor: Tensor) -> None:
        return None


def evaluated(node: nodes.Expression, names: Mapping[str, Value] = MappingProxyType({})) -> Value:
    """Return the value of an expression without tensors, whose types were checked."""
    attributes = _Attributes()
    return attributes.run(attributes.evaluate(node, Frame(dict(names), standard())))
