"""Which operator is invoked at an offset, and which of its parameters comes next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvm_nnef.language_server.modules import Modules
from tvm_nnef.language_server.signatures import signature_at

Cursor = Callable[[str], tuple[Modules, int]]

MODEL = """\
import nn;
# Adds.
operator sum {{
    @attrib {{ by: int = 2; count: int = 1; }}
    @input {{ a: real[n]; b: real[n]; }}
    @output {{ y: real[n]; }}
}}
graph G {{
    @input {{ x: real[3]; }}
    @output {{ y: real[3]; }}
    @compose {{ {body} }}
}}
"""
SUM = "sum{by: int = 2, count: int = 1}(a: real[n], b: real[n]) -> y: real[n]"

CASES = {
    "first operand": ("y = sum($", "a: real[n]"),
    "second operand": ("y = sum(x, $", "b: real[n]"),
    "second operand after attributes": ("y = sum{by=3}(x, $x);", "b: real[n]"),
    "operand too many": ("y = sum(x, x, $", None),
    "list in an operand": ("y = sum([x, x$]);", "a: real[n]"),
    "expression in brackets": ("y = sum(x, (x + $", "b: real[n]"),
    "first attribute": ("y = sum{$", "by: int = 2"),
    "attribute that is not given": ("y = sum{by=3, $}(x, x);", "count: int = 1"),
    "attribute by name": ("y = sum{count=$", "count: int = 1"),
    "value of an attribute": ("y = sum{by=3, count = (1 + $", "count: int = 1"),
    "inner invocation": ("y = sum(nn.relu(x), sum(x$", "a: real[n]"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_parameter_that_comes_next(case: str, at_cursor: Cursor) -> None:
    body, active = CASES[case]
    found = signature_at(*at_cursor(MODEL.format(body=body)))
    assert found is not None
    assert (found.label, found.comment) == (SUM, "Adds.")
    assert all(each in found.label for each in found.parameters)
    assert (None if found.active is None else found.parameters[found.active]) == active


@pytest.mark.parametrize(
    "body",
    ["$y = sum(x, x);", "y = sum(x, x)$;", "y = none($", "y = # sum($\n", "y = sum(x, x); $"],
)
def test_there_is_none_outside_of_invocations(body: str, at_cursor: Cursor) -> None:
    assert signature_at(*at_cursor(MODEL.format(body=body))) is None


def test_an_operator_of_the_standard_library(at_cursor: Cursor) -> None:
    found = signature_at(*at_cursor(MODEL.format(body="y = nn.conv(x, $")))
    assert found is not None and found.label.startswith("nn.conv")
    assert found.active is not None and found.parameters[found.active].startswith("filter:")
