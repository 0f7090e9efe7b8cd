"""What is wrong with a text is reported with its line and column, the cause, and a hint."""

from __future__ import annotations

import pytest

import tvm_nnef
from tvm_nnef import NnefError
from tvm_nnef.converters.antares import einstein_v2

INPUTS = {
    "x": {"dtype": "float32", "shape": (4, 8)},
    "v": {"dtype": "float32", "shape": (8,)},
    "i": {"dtype": "int32", "shape": (4,)},
}

MISTAKES = [
    ("y[N, C] = x[N, C] +", "unexpected end", ""),
    ("y[N, C] = x[N, C] ** 2", "unexpected '*'", "*"),
    ("y[N, C] = x[N, C] && x[N, C]", "unexpected '&'", "&"),
    ("y[N, C] = x[N, C] < 1 < 2", "unexpected '<'", "<"),
    ("y[N, C] = x[N, C] $ 2", "unexpected '$'", "$"),
    ("y[N, C] = x[N, C].frob()", "unexpected 'frob'", "frob"),
    ("y[N, C] = z[N, C]", "there is no tensor 'z'", "z[N, C]"),
    ("y[N] = v[N].cast(z[N].dtype())", "there is no tensor 'z'", "z[N]"),
    ("y[N] = x[N]", "'x' has 2 dimensions, and 1 indices", "x[N]"),
    ("y[N, C] = x[N, C] * B", "axis 'B' is not on the left side", "B"),
    ("y[N, C, B] = x[N, C]", "the length of axis 'B' is not known", "B"),
    ("y[N] = x[N, C]", "axis 'C' is not on the left side", "C"),
    ("y[N] = x[N, N]", "axis 'N' has the length 8 here, and 4 elsewhere", "N"),
    ("y[N, N] = x[N, N] where N in 4", "axis 'N' occurs twice", "N"),
    ("y[N + 1] = v[N]", "an index on the left side must be an axis", "N + 1"),
    ("x[N, C] = x[N, C] * 2", "'x' is an input and cannot be assigned", "x[N, C]"),
    ("y[N] = v[N]; y[N] = v[N]", "'y' is computed before", "y[N]"),
    ("y[N] =. v[N]", "'y' has no elements that '=.' could replace", "y[N]"),
    ("y[N] = v[N + 1] where N in 8", "the index runs from 1 to 8", "N + 1"),
    ("y[N] = v[N] where N in 9", "the index runs from 0 to 8", "N"),
    ("y[N] = v[N] where N in 0", "an axis cannot have the length 0", "0"),
    ("y[N] = v[N] where N in M", "must be a static integer", "M"),
    ("y[N] = v[N] where N in 4, N in 5", "the length of 'N' is given twice", "N in 5"),
    ("y[N] = v[N] where M in 4", "axis 'M' is not used in this statement", "M in 4"),
    ("y[N] = v[x[0, N]]", "an index cannot be a float32", "x[0, N]"),
    ("y[N] = v[N] // 2.0", "'//' needs integers", "v[N] // 2.0"),
    ("y[N] = i[N] % 0", "this divides by zero", "i[N] % 0"),
    ("y[N] = v[N].call(`epx`)", "unknown function 'epx'", "v[N].call(`epx`)"),
    ("y[N] = v[N].call(`max`)", "'max' takes 2 arguments", "v[N].call(`max`)"),
    ("y[N] = v[N].cast(`float31`)", "unknown dtype 'float31'", "`float31`"),
    ("y[N] = v[N].when([N < 3], 0.0, merge_op=`some`)", "unknown merge_op 'some'", "`some`"),
    ("y[N] = v[N].val()", "only an axis has '.val()'", "v[N].val()"),
    ("y[N] = const(v[N])", r"const(…) takes a number", "const(v[N])"),
    ("y[N] = v[N] * 1e999", "the number 1e999 is too large", "1e999"),
    ("", "there is no statement", ""),
    ("y[A, B, C, D] = 1.0 where A in 2000, B in 2000, C in 2000, D in 2000", "2^40 elements", None),
    ("y[] +=! 1.0 where A in 2147483647, B in 2147483647", "2^50 steps", None),
    ("y[N] = v[N] where N in 99999999999", "an axis cannot have the length", "99999999999"),
    ("y[N] = v[N] + 99999999999999999999999", "the number needs more than 64 bits", None),
    ("y[N] = " + "(" * 5000 + "v[N]" + ")" * 5000, None, None),
    ("y[N] = " + "-" * 5000 + "v[N]", "nested more than", None),
    ("y[N] = " + "v[N] + " * 5000 + "v[N]", "nested more than", None),
    ("y[N] = v" + "[i" * 500 + "[N]" + "]" * 500, "nested more than", None),
    ("y[N] = v[N]" + ".cast(`int8`)" * 5000, "nested more than", None),
    (
        "y[N] = v[N].when([" + "N < 3, " * 110 + "N < 3], 0)",
        "cannot be converted: this is nested",
        None,
    ),
    ("y[N] = v[N];" * 2000, "2000 statements", None),
    ("y[N] = v[N] #" + "x" * 300_000, "the limit is", None),
]


@pytest.mark.parametrize(("text", "message", "position"), MISTAKES, ids=lambda each: str(each)[:40])
def test_a_mistake_is_reported_where_it_is(
    text: str, message: str | None, position: str | None
) -> None:
    if message is None:
        # Parentheses alone nest nothing.
        assert tvm_nnef.check(einstein_v2(text, INPUTS)) == []
        return
    with pytest.raises(NnefError) as caught:
        einstein_v2(text, INPUTS)
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert found.hint
    assert found.line == 1
    if position is not None:
        assert found.span is not None and found.span.text == position


def test_independent_statements_are_reported_at_once() -> None:
    text = """a[N, C] = z[N, C];
# a comment; with a semicolon
b[N] = a[N, 0] + 1.0;
c[N] = v[N] *;
d[N] = c[N];
e[N] = v[N + 1] where N in 8; f[N] = v[N].call(`epx`);
g[N] = x[N, 0]; h[N] = v[N].when([N < 3, 0.0)"""
    with pytest.raises(NnefError) as caught:
        einstein_v2(text, INPUTS, extra_outputs=["a", "q"])
    found = caught.value.diagnostics
    assert [(each.line, each.column) for each in found] == [
        (None, None), (1, 11), (4, 14), (6, 10), (6, 38), (7, 45),
    ]  # fmt: skip
    assert found[0].message == "no statement computes 'q'"
    assert all(each.hint for each in found)


SHAPES = '{"input0": {"dtype": "float32", "shape": [4, 8]}}'
CALLS = [
    (f'einstein_v2("y[N, C] = inptu0[N, C]", {SHAPES})', 1, 24, "there is no tensor 'inptu0'"),
    (f'A = 3\nB = 4\neinstein_v2(f"y[N] = z[N]\\n", {SHAPES})', 3, 22, "there is no tensor 'z'"),
    (f'einstein_v2(f"y[N] = {{A}}", {SHAPES})', 1, 23, "'A' has no value"),
    (f'A = 5\neinstein_v2(f"y[N] = {{A}} + q[N]", {SHAPES})', 2, 28, "there is no tensor 'q'"),
    ('einstein_v2("y[N] = x[N]", {"x": {"shape": [4]}})', 1, 29, "input 'x' has no dtype"),
    ('einstein_v2("y[N] = x[N]", {"x": {"dtype": "float32"}})', 1, 29, "input 'x' has no shape"),
    ('einstein_v2("y[N] = x[N]", {"x": {"dtype": "f", "shape": [4]}})', 1, 44, "unknown dtype"),
    ('einstein_v2("y", {"x": {"dtype": "int8", "shape": [0]}})', 1, 51, "a dimension of 0"),
    ('einstein_v2("y", {"x": {"dtype": "int8", "shape": [2.5]}})', 1, 51, "a dimension of 2.5"),
    ('einstein_v2("y", {"x": {"dtype": "int8", "shape": [1 // 0]}})', 1, 52, "cannot be computed"),
    ('einstein_v2("y", {"x": {"dtype": "int8", "shape": [9 ** 999]}})', 1, 57, "exponent"),
    ('einstein_v2("y", {"x": {"dtype": "int8", "shape": [9 ** 64]}})', 1, 52, "too large"),
    ('einstein_v2("y", {"x": {"dtype": "int8", "shape": __import__("os")}})', 1, 61, "unexpected"),
    ('einstein_v2(open("secret").read(), {})', 1, 17, "unexpected '('"),
    ('einstein_v2("y[] = 1.0", {}, frob=3)', 1, 35, "no argument 'frob'"),
    ('einstein_v2("y[] = 1.0", {}, extra_outputs=["z"])', 1, 45, "no statement computes 'z'"),
    ('A, B = 1\neinstein_v2("y[] = 1.0", {})', 1, 8, "1 values for 2 names"),
    ('einstein_v2("y[] = 1.0", {"x": 3})', 1, 32, "must be a dictionary"),
    ('einstein_v2("y[N] = }", {})', 1, 21, "unexpected '}'"),
    ('einstein_v2(f"y[N] = }", {})', 1, 22, "a single brace"),
    ('einstein_v2({}, "y[] = 1.0")', 1, 13, "must be a string"),
    ("einstein_v2(" + "[" * 3000 + "]" * 3000 + ")\n", 1, None, "nested more than"),
    (
        "a = 'y'\n" + 'a = f"{a}{a}{a}{a}{a}{a}{a}{a}"\n' * 30 + "einstein_v2(a)",
        8,
        None,
        "a string has",
    ),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), CALLS, ids=lambda v: str(v)[:30])
def test_a_mistake_in_a_call_is_reported_where_it_is(
    text: str, line: int, column: int | None, message: str
) -> None:
    (found, *_) = tvm_nnef.check(text, format="antares")
    assert message in found.message
    assert found.hint
    assert found.line == line
    assert column is None or found.column == column


def test_all_inputs_that_are_wrong_are_reported() -> None:
    text = 'einstein_v2("y[] = 1.0", {"x": {"shape": [0]}, "y": 3, "z": {"dtype": "int8"}})'
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(text + "\n", format="antares")
    assert [each.column for each in caught.value.diagnostics] == [42, 53]
