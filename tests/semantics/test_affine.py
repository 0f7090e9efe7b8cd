"""Affine forms agree with arithmetic: the form's value is the expression's value, everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_nnef.diagnostics import Source, Span
from tvm_nnef.semantics.affine import affine, declared_symbol
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.parser import parse

_SPAN = Span(Source("t", ""), 0, 0)
_OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "\\": lambda a, b: -(-a // b),
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
}


def _expressions() -> st.SearchStrategy[nodes.Expression]:
    leaves = st.one_of(
        st.integers(0, 9).map(lambda value: nodes.Integer(value, span=_SPAN)),
        st.just(nodes.Identifier("x", span=_SPAN)),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda e: nodes.Unary("-", e, span=_SPAN), inner),
            st.builds(
                lambda o, a, b: nodes.Binary(o, a, b, span=_SPAN),
                st.sampled_from(sorted(_OPERATORS)),
                inner,
                inner,
            ),
        ),
        max_leaves=8,
    )


def _value(expression: nodes.Expression, x: int) -> int:
    match expression:
        case nodes.Integer(value=value):
            return value
        case nodes.Identifier():
            return x
        case nodes.Unary(operand=operand):
            return -_value(operand, x)
        case nodes.Binary(operator=operator, left=left, right=right):
            return _OPERATORS[operator](_value(left, x), _value(right, x))
    raise AssertionError(expression)


@given(_expressions(), st.integers(-20, 20))
def test_the_form_has_the_value_of_the_expression(expression: nodes.Expression, x: int) -> None:
    form = affine(expression)
    if form is not None:
        assert form.factor * x + form.offset == _value(expression, x)


def _extent(text: str) -> nodes.Expression:
    module = parse(f"operator o {{ @input {{ x: real[{text}]; }} }}", "t", "draft")
    parameter = module.definitions[0].blocks[0].statements[0]
    assert isinstance(parameter, nodes.Parameter) and parameter.type.shape
    value = parameter.type.shape[0].value
    assert not isinstance(value, nodes.Omitted)
    return value


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("n", "n"),
        ("k + 1", "k"),
        ("2 * d", "d"),
        ("-(3 - n * 2) + 1", "n"),
        ("n + n", "n"),
        ("4 / 2 * n", "n"),
        ("n / 2", None),
        ("n \\ 2", None),
        ("n - n", None),
        ("n * n", None),
        ("n + m", None),
        ("r + n", None),
        ("0 * n", None),
        ("7", None),
        ("r + 1", None),
    ],
)
def test_only_affine_expressions_of_one_unknown_declare_it(text: str, symbol: str | None) -> None:
    assert declared_symbol(_extent(text), {"r"}) == symbol
