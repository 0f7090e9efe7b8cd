"""Hints of diagnostics for what users of other languages write, and for wrong options."""

from __future__ import annotations

from typing import Any

import pytest

import tvm_nnef

PLAIN = "graph G { @input { x: real[4]; } @output { y: real[4]; } @compose { y = x; } }\n"


def errors(text: str, **options: Any) -> list[tvm_nnef.Diagnostic]:
    return [each for each in tvm_nnef.check(text, **options) if each.severity == "error"]


@pytest.mark.parametrize(("name", "own"), [
    ("float32", "real"), ("float16", "real"), ("double", "real"), ("bfloat16", "real"),
    ("int64", "int"), ("uint8", "int"), ("integer", "int"), ("boolean", "bool"), ("string", "str"),
])  # fmt: skip
def test_types_of_other_languages(name: str, own: str) -> None:
    (found,) = errors(PLAIN.replace("x: real", f"x: {name}"))
    assert f"unknown type '{name}'" in found.message
    assert f"SkriptND has real, int, bool and str: write '{own}'" in str(found.hint)
    assert ("model.json" in str(found.hint)) == (own in ("real", "int"))
    assert (found.line, found.column) == (1, PLAIN.index("real") + 1)


def test_a_type_of_another_language_as_a_generic_one() -> None:
    (found,) = errors("import layout;\n" + PLAIN.replace("y = x", "y = layout.cast<float32>(x)"))
    assert "write 'real'" in str(found.hint)


@pytest.mark.parametrize(("call", "hint"), [
    ("swish(x, beta=1.5)", "'swish{beta=1.5}(x)'"),
    ("swish(beta=1.5, x)", "'swish{beta=1.5}(x)'"),
    ("nn.matmul(a, b, t = true)", "'nn.matmul{t = true}(a, b)'"),
    ("swish{a=1}(x, beta=1.5)", "'swish{a=1, beta=1.5}(x)'"),
    ("swish(x=x)", "'swish{x=x}()'"),
    ("pad(x, mode='a, b')", "as in 'pad{mode=...}'"),
    ("pad(x, size=[1, 2])", "as in 'pad{size=...}'"),
    ("pad(x, size=f(1))", "as in 'pad{size=...}'"),
])  # fmt: skip
@pytest.mark.parametrize("dialect", ["draft", "tools"])
def test_attributes_between_parentheses(call: str, hint: str, dialect: str) -> None:
    text = PLAIN.replace("y = x", f"y = {call}")
    (found,) = errors(text, dialect=dialect)
    assert "unexpected '='" in found.message
    assert "attributes go in braces" in str(found.hint)
    assert hint in str(found.hint)


ATTRIBUTES = (
    "graph G { @attrib { batch: int = 1; s: real = 1.0; v: int..(2) = 3; } "
    "@input { x: real[batch,4]; } @output { y: real[batch,4]; } @compose { y = x; } }\n"
)


@pytest.mark.parametrize(("given", "words"), [
    ({"batch": "two"}, "attribute 'batch' must be of type int, found 'two' of type str"),
    ({"batch": 2.0}, "attribute 'batch' must be of type int, found 2.0 of type real"),
    ({"batch": True}, "attribute 'batch' must be of type int, found true of type bool"),
    ({"batch": (1, 2)}, "attribute 'batch' takes a single value, found the pack [1, 2]"),
    ({"s": "x"}, "attribute 's' must be of type real"),
    ({"v": (1, 2.5)}, "attribute 'v' must be of type int, found 2.5"),
    ({"v": (1, 2, 3)}, "attribute 'v' must have 2 items, found 3"),
    ({"batch": 2, "s": 3, "v": (4, 5)}, None),
])  # fmt: skip
def test_attributes_of_a_wrong_type(given: dict[str, Any], words: str | None) -> None:
    found = errors(ATTRIBUTES, attributes=given)
    assert [words in each.message for each in found if words] == ([True] if words else [])
    assert all(each.notes and each.notes[0].span is not None for each in found)


@pytest.mark.parametrize(("options", "hint"), [
    ({"types": {"T": "int"}}, "it has no generic types"),
    ({"attributes": {"a": 1}}, "it has no attributes"),
    ({"input_shapes": {"q": (1,)}}, "its inputs are: x"),
])  # fmt: skip
def test_unknown_names(options: dict[str, Any], hint: str) -> None:
    (found,) = errors(PLAIN, **options)
    assert found.hint == hint


@pytest.mark.parametrize(("value", "signs"), [
    ("f / 2.0", ""), ("f / real(n)", ""), ("(f / 2.0) / f * 2.0", ""), ("[1.0, 2.0] / f", ""),
    ("f # a / b\n / 2.0", ""), ("n / 2", "/"), ("f / real(n % 2)", "%"), ("real(n / 2) / f", "/"),
])  # fmt: skip
def test_divisions_of_reals_are_the_same_in_both_dialects(value: str, signs: str) -> None:
    text = PLAIN.replace(
        "@compose", f"@attrib {{ f: real = 2.0; n: int = 3; }} @using {{ h = {value}; }} @compose"
    )
    found = tvm_nnef.check(text)
    assert "".join(each.message[1] for each in found) == signs
    assert all(each.severity == "warning" for each in found)


BODILESS = "operator own { @input { x: real[n]; } @output { y: real[n]; } }\n"
THROUGH = (
    "operator op { @input { x: real[n]; } @output { y: real[n]; } @compose { y = own(x); } }\n"
)


@pytest.mark.parametrize(("operators", "call", "severity"), [
    (BODILESS, "own(x)", "error"),
    (BODILESS + THROUGH, "op(x)", "error"),
    (BODILESS + THROUGH, "x", "warning"),
    (BODILESS, "if c then own(x) else x", "error"),
])  # fmt: skip
def test_operators_without_a_body(operators: str, call: str, severity: str) -> None:
    text = operators + PLAIN.replace("y = x", f"y = {call}").replace(
        "@input { x", "@input { c: bool[]; x"
    )
    (found,) = tvm_nnef.check(text)
    assert found.message == "operator 'own' has no body"
    assert (found.severity, found.line, found.column) == (severity, 1, 10)
    assert "@lower" in str(found.hint)


def test_a_standard_operator_without_a_body_is_fine() -> None:
    text = "import layout; graph G { @input { x: real[4]; } @output { i: int; } "
    assert tvm_nnef.check(text + "@compose { i = layout.nonzero(x); } }\n") == []
