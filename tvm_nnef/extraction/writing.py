"""A part of a Graph as the text of a module: what it invokes is copied from the model's modules.

Each operation becomes one component, so that the part, composed, has the same operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

from tvm_nnef.converters.common.emission import NOWHERE
from tvm_nnef.converters.common.names import Namer
from tvm_nnef.diagnostics import error
from tvm_nnef.extraction.cutting import Part
from tvm_nnef.graph.formula_text import atom
from tvm_nnef.graph.nodes import (
    Attribute,
    Graph,
    If,
    Loop,
    Node,
    Operand,
    Operation,
    Tensor,
    flatten,
)
from tvm_nnef.semantics.program import MAIN, CheckedDefinition, Program
from tvm_nnef.symbolic import trees
from tvm_nnef.symbolic.dimensions import UNLIMITED, Dimension, is_symbolic
from tvm_nnef.syntax import format_text, nodes
from tvm_nnef.syntax.printer import print_expression
from tvm_nnef.syntax.walk import nodes_of

_NUMBERS = {"real": float, "int": int, "bool": bool}


class Written(NamedTuple):
    """The text of a module, what it imports, and the tensors of its variables by their names."""

    text: str
    imports: Sequence[str]
    variables: Mapping[str, Tensor]


def written(part: Part, program: Program) -> Written:
    """Return a main module whose only graph is the part."""
    return _Writer(part, program).write()


class _Writer:
    """Gives each tensor and each symbol a name when it is first written."""

    def __init__(self, part: Part, program: Program) -> None:
        self._part = part
        self._program = program
        self._main = program.modules[MAIN]
        self._called = {
            f"{MAIN}.{name}" for name, each in self._main.definitions.items() if not each.is_graph
        }
        self._graph = part.graph.name.removeprefix(f"{MAIN}.")
        modules = [name.partition(".")[0] for name in program.modules]
        own = [each.partition(".")[2] for each in self._called]
        self._namer = Namer([*modules, *own, self._graph])
        self._names: dict[Tensor, str] = {}
        self._symbols: dict[str, str] = {}
        self._used: list[Tensor] = []
        self._operators: dict[str, None] = {}
        self._outer = {inner: outer for outer, inner in part.opened.items()}

    def write(self) -> Written:
        """Return the module, and the tensors that became its variables, by name."""
        inputs = [self._declared(each, is_bound=True) for each in self._part.inputs]
        outputs = [self._declared(each) for each in self._part.outputs]
        written = [line for node in self._part.nodes for line in self._component(node)]
        updates = [
            f"{self._name(variable)} = {self._operand(new)};"
            for variable, new in self._part.updates
        ]
        variables = [self._declared(each) for each in dict.fromkeys(self._used)]
        blocks = {
            "input": inputs,
            "output": outputs,
            "variable": variables,
            "compose": written,
            "update": updates,
        }
        bodies = [_braced(f"@{name}", each) for name, each in blocks.items() if each]
        graph = _braced(f"graph {self._graph}", bodies) + "\n"
        definitions, imports = self._definitions()
        lines = [f"import {each};" for each in imports]
        text = "\n".join([*lines, "", *definitions, graph])
        stored = {self._names[each]: each for each in dict.fromkeys(self._used)}
        return Written(format_text(text, dialect=self._program.dialect), imports, stored)

    def _definitions(self) -> tuple[list[str], list[str]]:
        """Return the texts of the main module's operators that are invoked, and the imports."""
        own = {name: each for name, each in self._main.definitions.items() if not each.is_graph}
        needed: dict[str, CheckedDefinition] = {}
        imports: set[str] = set()
        pending = [*self._operators]
        while pending:
            module, _, name = pending.pop().rpartition(".")
            if module not in ("", MAIN):
                imports.add(module)
            elif name in own and name not in needed:
                needed[name] = own[name]
                calls = nodes_of(nodes.Call, own[name].node)
                pending += (str(each.callee) for each in calls)
        kept = [each for name, each in own.items() if name in needed]
        return [f"{each.node.span.text}\n" for each in kept], sorted(imports)

    # ------------------------------------------------------------------ names

    def _name(self, tensor: Tensor) -> str:
        tensor = self._part.computed(tensor)
        if tensor not in self._names:
            shown = tensor
            while shown in self._outer:
                shown = self._outer[shown]
            short = shown.name.removeprefix(f"{self._part.graph.name}.")
            self._names[tensor] = self._namer.name(short.replace("..", "."))
            if tensor.role in ("variable", "constant"):
                self._used.append(tensor)
        return self._names[tensor]

    def _declared(self, tensor: Tensor, *, is_bound: bool = False) -> str:
        """Return the declaration of a tensor; with ``is_bound`` it gives symbols their values."""
        if not is_bound and any(map(is_symbolic, tensor.shape)):
            return f"{self._name(tensor)}: {tensor.type};"
        sizes = ", ".join(map(self._bound if is_bound else str, tensor.shape))
        return f"{self._name(tensor)}: {tensor.type}[{sizes}];"

    def _bound(self, size: Dimension) -> str:
        """Return a dimension of an input, with a bound if it is the first to have its symbol."""
        if not is_symbolic(size):
            return str(size)
        tree = trees.tree(size)
        known = trees.names(tree) <= self._symbols.keys()
        if known and not isinstance(tree, str):
            return self._size(size)
        key = trees.text(size)
        if key in self._symbols:
            return self._symbols[key]
        self._symbols[key] = self._namer.name(tree if isinstance(tree, str) else "size")
        most = self._part.graph.bounds.get(key, UNLIMITED)
        return f"{self._symbols[key]}|{most}"

    def _size(self, size: Dimension) -> str:
        """Return a dimension as a formula of the symbols of inputs."""
        if trees.text(size) in self._symbols:
            return self._symbols[trees.text(size)]
        tree = trees.tree(size)
        if not trees.names(tree) <= self._symbols.keys():
            hint = "give the shapes of inputs, so that it is a number (--shape)"
            message = f"the inputs of the part do not have the dimension '{trees.text(size)}'"
            raise error(message, hint=hint)
        return trees.text(_renamed(tree, self._symbols))

    # ------------------------------------------------------------------ components

    def _component(self, node: Node) -> Iterator[str]:
        match node:
            case Operation():
                value = self._call(node)
            case If():
                scopes = map(self._scope, (node.consequent, node.alternative))
                value = "if {} then {} else {}".format(self._operand(node.condition), *scopes)
            case Loop():
                value = self._loop(node)
        yield f"{', '.join(map(self._target, node.results))} = {value};"

    def _call(self, operation: Operation) -> str:
        self._operators[operation.operator] = None
        given = [*operation.operands]
        while given and given[-1] is None:
            given.pop()
        attributes = ", ".join(
            f"{name}={self._attribute(value)}"
            for name, value in operation.attributes.items()
            if value is not None
        )
        typed = zip(operation.operands, operation.operand_types, strict=True)
        shown = {name for operand, name in typed if flatten((operand,))}
        types = ", ".join(operation.types.values()) if operation.types.keys() - shown else ""
        label = ""
        if isinstance(operation.body, Graph):  # Tensors in it have names that begin with the label.
            label = self._part.labels.get(id(operation), operation.label)
        first = next((self._name(each) for each in flatten(operation.results)), "")
        return "".join(
            [
                f"{label}: " if label and label != first else "",
                operation.operator.removeprefix(f"{MAIN}."),
                f"<{types}>" if types else "",
                f"{{{attributes}}}" if attributes else "",
                f"({', '.join(map(self._operand, given))})",
            ]
        )

    def _scope(self, graph: Graph) -> str:
        lines = [line for node in graph.operations for line in self._component(node)]
        yields = ", ".join(self._operand(port.operand) for port in graph.outputs)
        return _braced("", [*lines, f"yield {yields};"])

    def _loop(self, loop: Loop) -> str:
        parts = []
        if loop.carried:
            pairs = zip(loop.carried, loop.initial, strict=True)
            parts.append(
                "with " + ", ".join(f"{self._typed(a)} = {self._operand(b)}" for a, b in pairs)
            )
        if loop.scans:
            scans = (
                f"{self._name(each.item)} : {self._operand(each.items)}" for each in loop.scans
            )
            parts.append("for " + ", ".join(scans))
        condition = [] if loop.condition is None else [f"while {self._scope(loop.condition)}"]
        count = loop.count if not isinstance(loop.count, Tensor) else self._operand(loop.count)
        index = "" if loop.index is None else f"{self._name(loop.index)} -> "
        limits = (
            f"..({index}{'' if count is None else count})" if index or count is not None else ""
        )
        body = f"do{limits} {self._scope(loop.body)}"
        ordered = [body, *condition] if loop.post_test else [*condition, body]
        return " ".join([*parts, *ordered])

    def _typed(self, tensor: Tensor) -> str:
        return f"{self._name(tensor)}: {tensor.type}[{', '.join(map(self._size, tensor.shape))}]"

    def _target(self, result: Operand) -> str:
        match result:
            case None:
                return "~"
            case Tensor():
                return "~" if result in self._part.inputs else self._name(result)
        return f"[{', '.join(map(self._target, result))}]"

    def _operand(self, operand: Operand) -> str:
        match operand:
            case None:
                return "~"
            case Tensor(role="constant", value=value):
                return self._constant(operand, value)
            case Tensor():
                return self._name(operand)
        return f"[{', '.join(map(self._operand, operand))}]"

    def _constant(self, tensor: Tensor, value: Any) -> str:
        """Return a number as it is; any other constant is a variable of the part."""
        if tensor.rank or isinstance(value, tuple) or value != value:
            return self._name(tensor)
        return self._attribute(_NUMBERS[tensor.type](value))

    def _attribute(self, value: Attribute) -> str:
        match value:
            case tuple():
                return f"[{', '.join(map(self._attribute, value))}]"
            case str():
                text = nodes.Text((value,) if value else (), span=NOWHERE)
                return print_expression(text, self._program.dialect)
            case float() if isnan(value):
                return "0.0 / 0.0"
            case None | bool() | int() | float():
                return atom(value)
        return self._size(value)


def _renamed(tree: trees.Tree, names: Mapping[str, str]) -> trees.Tree:
    match tree:
        case str():
            return names[tree]
        case [function, *operands]:
            return [function, *(_renamed(each, names) for each in operands)]
    return tree


def _braced(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title} {{", *lines, "}"])
