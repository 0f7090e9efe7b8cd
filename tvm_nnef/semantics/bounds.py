"""Checks of upper bounds, and of the ranks of the inputs of graphs (2.6).

Input: the definitions of a module. Output: diagnostics. Computed bounds are compared when a graph
is composed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.diagnostics import Note
from tvm_nnef.semantics.affine import literal
from tvm_nnef.semantics.names import Report
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import nodes_of


def check_bounds(definitions: Sequence[nodes.Definition], report: Report) -> None:
    """Report bounds that contradict each other, and dimensions of the main graph without one.

    The main graph is the first one, unless the control flow of another invokes it: a graph that is
    invoked has the shapes of its operands.
    """
    for definition in definitions:
        for kind in ("input", "output"):
            _check_agreement(_parameters(definition, kind), report)
    graphs = [definition for definition in definitions if definition.kind == "graph"]
    invoked = invoked_names(definitions)
    for graph in graphs:
        inputs = _parameters(graph, "input")
        _check_ranks(inputs, report)
        if graph is graphs[0] and graph.name.name not in invoked:
            _check_given(inputs, report)


def invoked_names(definitions: Sequence[nodes.Definition]) -> frozenset[str]:
    """Return the names of the module's own operators and graphs that its definitions invoke."""
    callees = (call.callee for call in nodes_of(nodes.Call, tuple(definitions)))
    return frozenset(callee.parts[0] for callee in callees if len(callee.parts) == 1)


def _parameters(definition: nodes.Definition, kind: nodes.BlockKind) -> list[nodes.Parameter]:
    blocks = (block for block in definition.blocks if block.kind == kind)
    return [s for block in blocks for s in block.statements if isinstance(s, nodes.Parameter)]


def _check_ranks(inputs: Sequence[nodes.Parameter], report: Report) -> None:
    for parameter in inputs:
        if parameter.type.rank is not None:
            report.error(
                f"the rank of '{parameter.name.name}', an input of a graph, is captured as "
                f"'{parameter.type.rank.name}'",
                parameter.type.rank.span,
                "the rank of a graph's input is fixed; only operators take tensors of any rank",
            )


def _check_agreement(inputs: Sequence[nodes.Parameter], report: Report) -> None:
    first: dict[str, nodes.Extent] = {}
    for extent in (extent for parameter in inputs for extent in parameter.type.shape or ()):
        if extent.bound is None or not isinstance(extent.value, nodes.Identifier):
            continue
        name = extent.value.name
        given, before = literal(extent.bound), literal(first.setdefault(name, extent).bound)
        if None not in (given, before) and given != before:
            report.error(
                f"'{name}' has the bound {given} here and {before} before",
                extent.span,
                f"a bound that is given again is the same; '{name}' alone is enough",
                (Note("the first bound", first[name].span),),
            )


def _check_given(inputs: Sequence[nodes.Parameter], report: Report) -> None:
    for parameter in inputs:
        name = parameter.name.name
        if parameter.type.shape is None:
            report.error(
                f"input '{name}' of the main graph has no shape",
                parameter.type.span,
                f"write '{parameter.type.name.name}[]' for rank 0, '[~|10]' if it is dynamic; "
                "only a graph that is invoked may leave out the shapes of its inputs",
            )
        for extent in parameter.type.shape or ():
            if isinstance(extent.value, nodes.Omitted) and extent.bound is None:
                report.error(
                    f"a dynamic dimension of '{name}' has no upper bound",
                    extent.span,
                    "write the most that it can be after it, as in '~|10'",
                )
