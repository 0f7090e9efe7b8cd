"""Attributes of operations as text: a checked program in, what its author would write out."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tvm_nnef.diagnostics import Span
from tvm_nnef.graph.formula_text import atom
from tvm_nnef.graph.nodes import Attribute, Operation
from tvm_nnef.semantics.program import Program
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import nodes_of

_NO_LITERAL = object()


def attribute_table(operation: Operation) -> dict[str, str]:
    """The text of each attribute of an operation by its name."""
    return {name: _written(value) for name, value in operation.attributes.items()}


def every_attribute(operation: Operation) -> str:
    """All attributes of an operation: ``{stride=[2, 2], groups=1}``."""
    return _braced(attribute_table(operation))


class AttributeTexts:
    """Attributes as an invocation states them, without those that have their default.

    One value that stands for a pack is written once: ``{stride=2}``.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    def of(self, operation: Operation) -> str:
        """The attributes of an operation, ``{stride=2, padding=1}``."""
        defaults = self._defaults(operation.operator)
        stated = self._stated.get(_place(operation.span), {})
        shown: dict[str, str] = {}
        for name, value in operation.attributes.items():
            default = defaults.get(name, _NO_LITERAL)
            if value is None or name not in stated or _is_default(value, default):
                continue
            is_list = isinstance(stated[name], nodes.ListExpression)
            shown[name] = _written(value if is_list else _short(value))
        return _braced(shown)

    @cached_property
    def _stated(self) -> dict[object, dict[str, nodes.Expression]]:
        """The attributes in each invocation of the model's own modules."""
        return {
            _place(call.span): {each.name.name: each.value for each in call.attributes}
            for module in self._program.modules.values()
            if not module.is_standard
            for call in nodes_of(nodes.Call, module.node)
        }

    def _defaults(self, operator: str) -> dict[str, object]:
        """The defaults of an operator's attributes that are literals."""
        module, _, name = operator.rpartition(".")
        if module not in self._program.modules:
            return {}
        definition = self._program.modules[module].definitions.get(name)
        declared = () if definition is None else definition.attributes
        return {each.name.name: _literal(each.default) for each in declared}


def _place(span: Span | None) -> object:
    return None if span is None else (span.source.path, span.start, span.end)


def _braced(pairs: dict[str, str]) -> str:
    return f"{{{', '.join(f'{name}={text}' for name, text in pairs.items())}}}" if pairs else ""


def _written(value: Attribute) -> str:
    return f"[{', '.join(map(atom, value))}]" if isinstance(value, tuple) else atom(value)


def _short(value: Attribute) -> Attribute:
    if isinstance(value, tuple) and len(value) > 1 and all(each == value[0] for each in value):
        return value[0]
    return value


def _is_default(value: Attribute, default: object) -> bool:
    """Whether a value is the default, or a pack of items that are."""
    return _short(value) == default and type(_short(value)) is type(default)


def _literal(expression: nodes.Expression | None) -> Any:
    match expression:
        case nodes.Integer(value=value) | nodes.Real(value=value) | nodes.Boolean(value=value):
            return value
        case nodes.Text(parts=()):
            return ""
        case nodes.Text(parts=(str(text),)):
            return text
        case nodes.Unary(operator="-", operand=operand):
            value = _literal(operand)
            return -value if isinstance(value, int | float) else _NO_LITERAL
        case nodes.ListExpression(items=()):
            return ()
        case _:
            return _NO_LITERAL
