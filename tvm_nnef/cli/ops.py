"""``tvm-nnef ops [NAME]``: the standard operators, their signatures, and how each is lowered."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.standard_library import standard_operators
from tvm_nnef.syntax import nodes


def run(options: argparse.Namespace) -> int:
    """Prints all operators, those of a module, or the text of one operator."""
    operators = [each for each in standard_operators() if not each.is_private]
    if options.name is None:
        return _list(operators)
    chosen = [each for each in operators if options.name in (each.qualified_name, each.module)]
    if not chosen:
        chosen = [each for each in operators if each.name == options.name]
    if not chosen:
        known = [name for each in operators for name in (each.qualified_name, each.name)]
        hint = did_you_mean(options.name, known) or "'tvm-nnef ops' lists them"
        raise error(f"there is no standard operator '{options.name}'", hint=hint)
    if len(chosen) > 1:
        return _list(chosen)
    print(f"# {chosen[0].qualified_name}: {lowering(chosen[0])}")
    print(chosen[0].node.span.text)
    return 0


def _list(operators: Sequence[CheckedDefinition]) -> int:
    width = max(len(each.qualified_name) for each in operators)
    for each in operators:
        print(f"{each.qualified_name:<{width}}  {lowering(each):<16}  {signature(each)}")
    return 0


def lowering(definition: CheckedDefinition) -> str:
    """How an operator is executed: by a Relax operator where there is one, else by its body."""
    from tvm_nnef.lower.ops import MAPPINGS

    body = "formula" if definition.is_lowered else "composition"
    if not definition.has_body:
        body = "intrinsic"
    return f"mapped, {body}" if definition.qualified_name in MAPPINGS else body


def signature(definition: CheckedDefinition) -> str:
    """An operator in a line: ``<T>{attributes}(inputs) -> outputs``."""
    generics = ", ".join(dtype.name.name for dtype in definition.dtypes)
    attributes = ", ".join(_parameter(parameter) for parameter in definition.attributes)
    inputs = ", ".join(_parameter(parameter) for parameter in definition.inputs)
    outputs = ", ".join(_parameter(parameter) for parameter in definition.outputs)
    head = f"<{generics}>" if generics else ""
    braces = f"{{{attributes}}}" if attributes else ""
    return f"{head}{braces}({inputs}) -> {outputs}"


def _parameter(parameter: nodes.Parameter) -> str:
    text = parameter.type.span.text
    default = "" if parameter.default is None else f" = {parameter.default.span.text}"
    return " ".join(f"{parameter.name.name}: {text}{default}".split())
