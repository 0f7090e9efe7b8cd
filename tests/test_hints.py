"""Hints of diagnostics for what users of other languages write, and for wrong options."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.syntax import parse
from tvm_nnef.syntax.errors import BLOCKS, EXAMPLES

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


@pytest.mark.parametrize("dialect", ["draft", "tools"])
def test_a_statement_that_cannot_be_read_comes_with_an_example(dialect: str) -> None:
    assert set(EXAMPLES) == set(BLOCKS)
    for block, statement in EXAMPLES.items():
        parse(f"graph G {{ {block} {{ {statement} }} }}", dialect=dialect)
        (found,) = errors(f"graph G {{ {block} {{ = ; }} }}", dialect=dialect)
        assert found.hint == f"'{block}' holds statements such as '{statement}'"


@pytest.mark.parametrize(("text", "hint"), [
    ("graph G { x }", "a definition consists of blocks such as '@input"),
    ("graph G { @input { x: real[1]; } x }", "a definition consists of blocks such as '@input"),
    ("import math;\n5", "a text consists of imports and definitions such as 'graph Net"),
    (PLAIN.replace("y = x", "y = q"), "a tensor is an '@input', a '@variable', or a result"),
    (PLAIN.replace("y = x", "y = relu6(x)"), "write 'module.operator'"),
    (PLAIN.replace("@output", "@using { m = k + 1; } @output"), "a number is an '@attrib'"),
    (PLAIN.replace("y = x", "if x then y = x else y = x"), "as in 'y = if c then a else b'"),
    (PLAIN.replace("y = x", "y = layout.transpose{perm=[1, 0]}(x)"), "'import layout;'"),
    ("import layout;" + PLAIN.replace("y = x", "y = layout.unsqueeze{axes=[0]}(x)"),
     "'~' stands for a dimension that is computed"),
])  # fmt: skip
def test_hints_for_common_mistakes(text: str, hint: str) -> None:
    assert hint in str(errors(text)[0].hint)


def test_a_wrong_rank_names_the_operators_that_change_ranks() -> None:
    operator = "operator row { @input { x: real[n, m]; } @output { y: real[n, m]; } "
    text = f"{operator} @compose {{ y = x; }} }}\n" + PLAIN.replace("y = x", "y = row(x)")
    assert any("layout.unsqueeze" in str(each.hint) for each in errors(text))


OPERATOR = """operator op {{ @attrib {{ a: int = 3; p: int..(2) = 1; }} @input {{ x: real[n, m]; }}
  @output {{ y: real[n, m]; }} {blocks} @compose {{ y = x; }} }}
graph G {{ @attrib {{ batch: int = 1; }} @input {{ x: real[batch, 4]; }}
  @output {{ y: real[batch, 4]; }} @compose {{ y = op{braces}(x); }} }}
"""


@pytest.mark.parametrize(("blocks", "braces", "hint"), [
    ("@using { k = [5, 6, 7][a]; }", "", "use an index from 0 to 2, or from -3 to -1"),
    ("@using { k = 1 / (a - 3); }", "", "'d == 0 ? 0 : n / d'"),
    ("@using { k = [1, 2] + [0:a]; }", "", "equally long"),
    ("@using { [u, v] = [0:a]; }", "", "it takes 2 items: add a name with '..'"),
    ("@using { k..(2) = [0:a]; }", "", "write '..(3)', or '..' alone"),
    ("@assert { n < a: 'n is too large'; }", "{a=0}", "it needs 'n < a', where n = 1, a = 0"),
    ("@assert { n < a: 'n is too large', n, a; }", "{a=0}", "it needs 'n < a'"),
    ("@assert { x.rank == a; }", "", "change one of x.shape = [1, 4], a = 3"),
    ("@assert { n < a: 'large', k; } @using { k = 2 * a; }", "{a=0}", "it needs 'n < a'"),
    ("", "{p=[0:3]}", "give a list of 2, or a single value for all"),
    ("@constant { c: real[a, 2] = [1.0, 2.0]; }", "", "write 6 values, or a single one"),
    ("@constant { c: real[2097152] = 0.0; d: int[2097152] = i, i < 2097152; }", "", "'@variable'"),
])  # fmt: skip
def test_hints_that_are_computed(blocks: str, braces: str, hint: str) -> None:
    found = errors(OPERATOR.format(blocks=blocks, braces=braces))
    assert hint in str(found[0].hint)


def test_a_batch_that_an_attribute_sets() -> None:
    text = OPERATOR.format(blocks="", braces="")
    (found,) = errors(text, input_shapes={"x": (2, 4)})
    assert found.hint == "set the attribute: --attr batch=2, or attributes={'batch': 2}"
    assert errors(text, attributes={"batch": 2}) == []


@pytest.mark.parametrize(("shape", "hint"), [
    ((1, 2, 3), "remove its first dimension: x[0]"), ((5,), "bring it to 2 dimensions"),
    ((3, 2), "order its dimensions otherwise: x.transpose(1, 0)"),
    ((6,), "it has as many elements: x.reshape(2, 3)"), ((2, 5), "--shape x=2,5"),
])  # fmt: skip
def test_arrays_of_a_wrong_shape(shape: tuple[int, ...], hint: str) -> None:
    graph = tvm_nnef.compose(PLAIN.replace("4", "2, 3"))
    with pytest.raises(tvm_nnef.NnefError) as caught:
        tvm_nnef.evaluate(graph, np.zeros(shape, "float32"))
    assert hint in str(caught.value.diagnostics[0].hint)


def test_an_array_without_a_batch() -> None:
    graph = tvm_nnef.compose(PLAIN.replace("4", "1, 3"))
    with pytest.raises(tvm_nnef.NnefError, match=r"add a first dimension: x\[None\]"):
        tvm_nnef.evaluate(graph, np.zeros(3, "float32"))


@pytest.mark.parametrize(("size", "hint"), [(12, "'s|12' in the model"), (3, "both have the")])
def test_dynamic_dimensions_that_do_not_fit(size: int, hint: str) -> None:
    text = "graph G { @input { a: real[s|8]; b: real[s]; } @output { y: real[~]; } "
    graph = tvm_nnef.compose("import math; " + text + "@compose { y = math.add(a, b); } }")
    with pytest.raises(tvm_nnef.NnefError) as caught:
        tvm_nnef.evaluate(graph, np.zeros(size, "float32"), np.zeros(4, "float32"))
    assert hint in str(caught.value.diagnostics[0].hint)


def test_a_check_at_run_time_has_the_hint_of_the_assertion() -> None:
    operator = "operator op { @input { x: real[n]; } @output { y: real[n]; } "
    operator += "@assert { n > 2: 'too few'; } @compose { y = x; } }\n"
    text = operator + PLAIN.replace("real[4]", "real[n|9]", 1).replace("4", "~").replace(
        "y = x;", "y = op(x);"
    )
    hint = "it needs 'n > 2'"
    for run in (
        partial(tvm_nnef.evaluate, tvm_nnef.compose(text)), tvm_nnef.build(text, progress=False),
    ):  # fmt: skip
        with pytest.raises(tvm_nnef.NnefError) as caught:
            run(np.zeros(2, "float32"))
        assert [each.hint for each in caught.value.diagnostics] == [hint]


def _damaged(text: str, seed: int) -> str:
    """A text with one word left out, repeated, or moved."""
    chance = random.Random(seed)
    words = re.findall(r"\w+|\s+|[^\w\s]", text)
    at = chance.randrange(len(words))
    words[at : at + 1] = chance.choice([[], [words[at]] * 2, [chance.choice(words)]])
    return "".join(words)


@pytest.mark.slow
def test_all_errors_of_damaged_texts_have_a_hint() -> None:
    examples = sorted((Path(__file__).parents[1] / "docs" / "examples").rglob("*.sknd"))
    texts = [path.read_text("utf-8") for path in examples]
    texts = [text for text in texts if len(text) < 3000] or texts
    found = [
        each for seed in range(60) for each in errors(_damaged(texts[seed % len(texts)], seed))
    ]
    assert len(found) > 30
    assert [each.message for each in found if not each.hint] == []


# Which argument is the hint, counted from 0. Other functions that make errors, such as the
# reports of the semantic checks, cannot be called without one.
HINT_ARGUMENT = {"error": 2, "Diagnostic": 2, "Unconvertible": 1}
MARK = re.compile(r"# no hint: \w+")
MOST_MARKED = 1


def _hints(node: ast.Call) -> list[ast.expr]:
    """The hints that a call gives; a location after a star counts as one."""
    position = HINT_ARGUMENT[_name(node)]
    given = [each.value for each in node.keywords if each.arg in (None, "hint")]
    starred = [each for each in node.args if isinstance(each, ast.Starred)]
    return given + starred + node.args[position : position + 1]


def _name(node: ast.Call) -> str:
    return str(getattr(node.func, "id", getattr(node.func, "attr", "")))


def _may_be_missing(hint: ast.expr) -> bool:
    """Whether a hint is None or empty, or a near name that there may not be."""
    match hint:
        case ast.Constant(value=value):
            return not value
        case ast.IfExp(body=body, orelse=other):
            return _may_be_missing(body) or _may_be_missing(other)
        case ast.BoolOp(op=ast.Or(), values=values):
            return _may_be_missing(values[-1])
        case ast.Call():
            return _name(hint) == "did_you_mean"
    return False


def _without_hint(text: str) -> Iterator[tuple[int, bool]]:
    """The lines that make an error without a hint, and whether a comment there says why."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or _name(node) not in HINT_ARGUMENT:
            continue
        if any(ast.unparse(each) == "severity='note'" for each in node.keywords):
            continue
        hints = _hints(node)
        if not hints or any(map(_may_be_missing, hints)):
            written = lines[node.lineno - 1 : node.end_lineno]
            yield node.lineno, any(MARK.search(line) for line in written)


@pytest.mark.parametrize(("text", "missing"), [
    ("error('m', span)", True), ("error('m', hint='')", True), ("error('m', hint=None)", True),
    ("error('m', hint=did_you_mean(a, b))", True), ("error('m', hint=a if b else None)", True),
    ("error('m', hint=did_you_mean(a, b) or 'c')", False), ("error('m', hint='c')", False),
    ("report.error('m', span)", True), ("report.error('m', span, 'c')", False),
    ("Diagnostic('m', severity='note')", False), ("Unconvertible(*reasons)", False),
])  # fmt: skip
def test_errors_without_a_hint_are_found(text: str, missing: bool) -> None:
    assert list(_without_hint(text)) == [(1, False)] * missing
    assert list(_without_hint(f"{text}  # no hint: reason")) == [(1, True)] * missing


def test_every_error_has_a_hint_or_a_reason_for_none() -> None:
    root = Path(__file__).parents[1]
    found = [
        (f"{path.relative_to(root)}:{line}", marked)
        for name in ("tvm_nnef", "converters", "schedules")
        for path in sorted((root / name).rglob("*.py"))
        for line, marked in _without_hint(path.read_text("utf-8"))
    ]
    assert [position for position, marked in found if not marked] == []
    assert len(found) <= MOST_MARKED
