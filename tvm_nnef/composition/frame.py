"""A block of components that is being worked through: its names, and what it has made so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm_nnef.composition.values import Environment, Value
from tvm_nnef.diagnostics import Span
from tvm_nnef.graph.nodes import Graph, Node, Operand, Port, Tensor
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.syntax import nodes


@dataclass(slots=True)
class Frame:
    """A ``@compose`` block that is being worked through.

    ``transparent``: the block is the only component of an operator without own tensors, so its
    invocation adds nothing to the scope (section 2.10, labelling). ``around`` is the scope around a
    branch or a loop, where it differs: an explicit label of a body replaces the branch's.
    ``definition`` is the one that the block is part of.
    """

    module: str
    env: Environment
    scope: str
    trace: tuple[Span, ...]
    transparent: bool = False
    operations: list[Node] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)
    variables: list[Tensor] = field(default_factory=list)
    public: bool = True
    around: str | None = None
    definition: CheckedDefinition | None = None

    def labelled(self, label: str) -> str:
        """The scope that an explicit label gives."""
        return f"{self.around or self.scope}.{label}"

    def declare(self, names: Mapping[str, Value]) -> None:
        """Makes names visible in this block."""
        self.env.names.update(names)

    def inner(self, scope: str) -> Frame:
        """A block inside this one: it sees all names, and its own are not seen outside."""
        return Frame(
            self.module, self.env.extended({}), scope, self.trace, False,
            self.operations, self.constants, self.variables, self.public,
            definition=self.definition,
        )  # fmt: skip

    def separate(self, scope: str) -> Frame:
        """A block that becomes its own graph; invocations in it add nothing to the scope."""
        env = replace(self.env.extended({}), symbols=self.env.symbols.separate())
        around = self.around or self.scope
        return Frame(
            self.module, env, scope, self.trace, True,
            public=self.public, around=around, definition=self.definition,
        )  # fmt: skip

    def graph(
        self,
        definition: CheckedDefinition,
        operands: Sequence[Operand],
        results: Sequence[Operand],
    ) -> Graph:
        """The graph of a definition from what this block has made."""
        names = [parameter.name.name for parameter in definition.attributes]
        inputs = _ports(definition.inputs, operands, names)
        return Graph(
            self.scope, inputs, _ports(definition.outputs, results),
            tuple(self.operations), tuple(self.constants), tuple(self.variables),
            attributes={name: self.env.names[name] for name in names},
        )  # fmt: skip


def _ports(
    parameters: Sequence[nodes.Parameter],
    operands: Sequence[Operand],
    attributes: Sequence[str] = (),
) -> tuple[Port, ...]:
    return tuple(
        Port(
            parameter.name.name,
            operand,
            parameter.type.pack is not None and isinstance(operand, Tensor),
            _named_sizes(parameter, attributes),
        )
        for parameter, operand in zip(parameters, operands, strict=True)
    )


def _named_sizes(parameter: nodes.Parameter, attributes: Sequence[str]) -> tuple[str | None, ...]:
    """For each dimension the attribute that is its size, or None; nothing if there is none."""
    shape = parameter.type.shape or ()
    if parameter.type.pack is not None or any(extent.pack is not None for extent in shape):
        return ()
    found = tuple(
        extent.value.name
        if isinstance(extent.value, nodes.Identifier) and extent.value.name in attributes
        else None
        for extent in shape
    )
    return found if any(found) else ()
