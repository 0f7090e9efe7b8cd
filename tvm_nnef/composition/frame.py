"""The state of composing a block of components: its names, and the constants and operations so
far.
"""

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
    """The state of composing a ``@compose`` block.

    ``transparent``: the block is the only component of an operator without own tensors, so its
    invocation adds nothing to the scope (section 2.10, labelling). ``around`` is the scope around a
    branch or a loop, if it differs: an explicit label of a body replaces the branch's.
    ``definition`` is the one that contains the block.
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
        """Return the scope for an explicit label."""
        return f"{self.around or self.scope}.{label}"

    def declare(self, names: Mapping[str, Value]) -> None:
        """Add names to this block."""
        self.env.names.update(names)

    def inner(self, scope: str) -> Frame:
        """Return a frame for a block inside this one: it reads all names, and declares names of its
        own scope.
        """
        return Frame(
            self.module, self.env.extended({}), scope, self.trace, False,
            self.operations, self.constants, self.variables, self.public,
            definition=self.definition,
        )  # fmt: skip

    def separate(self, scope: str) -> Frame:
        """Return a frame for a block that becomes a separate graph.

        Its invocations add nothing to the scope.
        """
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
        """Return the graph of a definition with the tensors and operations of this block."""
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
    """Return for each dimension the attribute that is its size, or None; an empty tuple if all are
    None.
    """
    shape = parameter.type.shape or ()
    if parameter.type.pack is not None or any(extent.pack is not None for extent in shape):
        return ()
    names = tuple(
        extent.value.name
        if isinstance(extent.value, nodes.Identifier) and extent.value.name in attributes
        else None
        for extent in shape
    )
    return names if any(names) else ()
