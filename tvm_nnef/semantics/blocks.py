"""Sorting of a definition by block, with its binding order, and checks of its set of blocks.

Input: a syntax tree. Output: :class:`CheckedDefinition`. Nothing is typed or resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar, get_args

from tvm_nnef.diagnostics import Note
from tvm_nnef.semantics.binding import bind_inputs
from tvm_nnef.semantics.check_order import order_checks
from tvm_nnef.semantics.names import Report
from tvm_nnef.semantics.program import CheckedDefinition, PackRole
from tvm_nnef.syntax import nodes

_FACT = re.compile(r"^    # (dynamic|packs): (.+)$", re.MULTILINE)

_Statement = TypeVar("_Statement", bound=nodes.Node)


def sort_blocks(
    module: str, node: nodes.Definition, *, standard: bool = False
) -> CheckedDefinition:
    """Return the definition with its statements by block; those of a duplicate block are joined.

    ``standard`` is true for modules of the standard library, in which comments declare properties
    that the draft has no word for: ``# dynamic:`` names the attributes that accept values known
    only at run time, ``# packs:`` the effect of the operator on packs of dynamic length.
    """
    facts = dict(_FACT.findall(node.span.text)) if standard else {}
    role = facts.get("packs")
    attributes = _statements(node, "attrib", nodes.Parameter)
    inputs = _statements(node, "input", nodes.Parameter)
    binding = bind_inputs(attributes, inputs)
    outputs = _statements(node, "output", nodes.Parameter)
    usings = _statements(node, "using", nodes.Using)
    assertions = _statements(node, "assert", nodes.Assertion)
    return CheckedDefinition(
        module,
        node,
        dtypes=_statements(node, "dtype", nodes.DtypeDefinition),
        attributes=attributes,
        inputs=inputs,
        outputs=outputs,
        constants=_statements(node, "constant", nodes.Parameter),
        variables=_statements(node, "variable", nodes.Parameter),
        usings=usings,
        assertions=assertions,
        check_order=order_checks(usings, assertions, outputs),
        lowerings=_statements(node, "lower", nodes.Lowering),
        components=_statements(node, "compose", nodes.Component),
        updates=_statements(node, "update", nodes.Component),
        quantizations=_statements(node, "quantize", nodes.Quantization),
        dynamic=frozenset(re.findall(r"\w+", facts.get("dynamic", ""))).union(
            attribute.name.name for attribute in attributes if attribute.type.dynamic
        ),
        pack_role=role if role in get_args(PackRole) else None,
        binding_order=binding.order,
        deferred=binding.deferred,
    )


def _statements(
    node: nodes.Definition, kind: nodes.BlockKind, of: type[_Statement]
) -> tuple[_Statement, ...]:
    return tuple(_of_kind(node, kind, of))


def _of_kind(
    node: nodes.Definition, kind: nodes.BlockKind, of: type[_Statement]
) -> Iterator[_Statement]:
    for block in node.blocks:
        if block.kind == kind:
            yield from (statement for statement in block.statements if isinstance(statement, of))


def check_blocks(node: nodes.Definition, report: Report) -> None:
    """Report duplicate blocks, a body that is both lowered and composed, and a graph without
    one.
    """
    first: dict[str, nodes.Block] = {}
    for block in node.blocks:
        if block.kind in first:
            report.error(
                f"a second '@{block.kind}' block",
                block.span,
                "join the two blocks",
                (Note("the first one is here", first[block.kind].span),),
            )
        first.setdefault(block.kind, block)
    name = node.name.name
    if "lower" in first and node.kind == "graph":
        report.error(
            f"graph '{name}' has a '@lower' block",
            first["lower"].span,
            "a graph is composed; put the formulas into an operator and invoke it",
        )
    elif "lower" in first and "compose" in first:
        report.error(
            f"operator '{name}' is both lowered and composed",
            first["lower"].span,
            "keep either '@lower' or '@compose'",
        )
    elif node.kind == "graph" and "compose" not in first:
        report.error(
            f"graph '{name}' has no '@compose' block",
            node.name.span,
            "say in '@compose' how its outputs are computed",
        )
    if "output" not in first:
        report.error(
            f"{node.kind} '{name}' has no '@output' block",
            node.name.span,
            "declare at least one output",
        )
    elif not first["output"].statements:
        report.error(
            f"{node.kind} '{name}' declares no output",
            first["output"].span,
            "declare at least one output",
        )
    if "update" in first and "variable" not in first:
        report.error(
            "'@update' without '@variable'",
            first["update"].span,
            "declare the variable that it updates",
        )
