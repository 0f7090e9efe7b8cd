"""Assertions are checked as soon as their symbols are known (section 2.9)."""

from __future__ import annotations

from collections.abc import Callable

from tvm_nnef.semantics.program import Program
from tvm_nnef.syntax import nodes

TEXT = """
operator f {
    @attrib { n: int; }
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @using { a = n + 1; b = a + 1; }
    @assert {
        b > a;
        y.rank > 0;
        n > 0;
        a > 0;
        a > 1: "{b} is not enough";
    }
    @lower { y[i..] = x[i..], i < s; }
}
"""


def test_checks_follow_the_last_helper_that_they_read(
    expect_clean: Callable[..., Program],
) -> None:
    order = expect_clean(TEXT).modules["main"].definitions["f"].check_order
    after = [conditions(checks) for checks in order.after_usings]
    assert after == [["n > 0"], ["a > 0"], ["b > a", "a > 1"]]
    assert conditions(order.of_outputs) == ["y.rank > 0"]


def conditions(checks: tuple[nodes.Assertion, ...]) -> list[str]:
    return [check.condition.span.text for check in checks]
