"""The order in which the assertions of a definition are checked (2.9).

Input: its helper symbols, assertions and outputs. Output: :class:`CheckOrder`, which depends on the
text, not on an invocation.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.semantics.assignment import target_names
from tvm_nnef.semantics.names import names_in
from tvm_nnef.semantics.program import CheckOrder
from tvm_nnef.syntax import nodes


def order_checks(
    usings: Sequence[nodes.Using],
    assertions: Sequence[nodes.Assertion],
    outputs: Sequence[nodes.Parameter],
) -> CheckOrder:
    """Order each assertion after the last ``@using`` whose names its condition or message reads."""
    completed = {
        name.name: number
        for number, using in enumerate(usings, 1)
        for name in target_names((using.target,))
    }
    declared = {parameter.name.name for parameter in outputs}
    after: list[list[nodes.Assertion]] = [[] for _ in range(len(usings) + 1)]
    of_outputs: list[nodes.Assertion] = []
    for assertion in assertions:
        if not declared.isdisjoint(names_in(assertion.condition)):
            of_outputs.append(assertion)
            continue
        read = names_in(assertion.condition) | names_in(assertion.message)
        after[max((completed.get(name, 0) for name in read), default=0)].append(assertion)
    return CheckOrder(tuple(map(tuple, after)), tuple(of_outputs))
