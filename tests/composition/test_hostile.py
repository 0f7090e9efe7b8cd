"""Models that are wrong on purpose: refused soon, with an NnefError, and never a crash."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvm_nnef.composition import budget
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.values import Environment
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.model import check
from tvm_nnef.syntax import parse_expression

SECONDS = 10.0

OPERATOR = "operator op {{ {blocks} @input {{ x: real[n]; }} @output {{ y: real[n]; }} {body} }}"
GRAPH = "graph G { @input { x: real[4]; } @output { y: real[4]; } @compose { y = op(x); } }"
COPY = "@lower { y[i,] = x[i,], i < n; }"
DOUBLING = " ".join(f"s{i + 1} = [s{i}.., s{i}..];" for i in range(64))
SHOUTING = " ".join(f"t{i + 1} = '{{t{i}}}{{t{i}}}';" for i in range(64))
SQUARING = " ".join(f"p{i + 1} = p{i} * p{i};" for i in range(64))


@pytest.mark.parametrize(("blocks", "body", "words"), [
    ("@using { a = [0:1000000000000]; }", COPY, "longer than the limit"),
    ("@using { a = [1 ..(1000000000000)]; }", COPY, "longer than the limit"),
    (f"@using {{ s0 = [1]; {DOUBLING} }}", COPY, "longer than the limit"),
    (f"@using {{ t0 = 'x'; {SHOUTING} }}", COPY, "a text of more than"),
    (f"@using {{ p0 = 3; {SQUARING} }}", COPY, "does not fit into 64 bits"),
    ("@using { a = 2 ** 10000000000; }", COPY, "does not fit into 64 bits"),
    ("@using { a = 7 ** 7 ** 7 ** 7 ** 7; }", COPY, "does not fit into 64 bits"),
    ("@attrib { z: int = 0; } @using { a = 1 / z; }", COPY, "division by zero"),
    ("@attrib { z: int = 0; } @using { a = 1 % z; }", COPY, "division by zero"),
    ("@constant { c: int[1000000,1000000] = i, i < 1000000, j < 1000000; }", COPY, "more than"),
    ("", "@compose { y = op(x); }", "without end"),
    ("", "@compose { a = op(x); y = op(a); }", "without end"),
    ("", "@compose { y = with a = x unroll..(1000000) { yield a; }; }", "operations"),
    ("", "@compose { y = with a = x unroll..(1000000000000) { yield a; }; }", "longer than"),
    ("", "@compose { y = with a = x unroll..(9000) { b = with c = a unroll..(9000) { yield c; };"
     " yield b; }; }", "operations"),
    ("", "@lower { unroll..(j -> 1000000) y[i,] += x[i,], i < n; }", "unrolls to more than"),
])  # fmt: skip
def test_refused_soon(blocks: str, body: str, words: str) -> None:
    start = time.perf_counter()
    text = f"{OPERATOR.format(blocks=blocks, body=body)}\n{GRAPH}"
    messages = [diagnostic.render() for diagnostic in check(text)]
    assert any(words in message for message in messages), messages
    assert time.perf_counter() - start < SECONDS


def test_exponential_invocations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LIMIT", 1 << 17)
    levels = "\n".join(
        f"operator f{i} {{ @input {{ x: real[n]; }} @output {{ y: real[n]; }}"
        f" @compose {{ a = f{i + 1}(x); y = f{i + 1}(a); }} }}"
        for i in range(40)
    )
    last = "operator f40 { @input { x: real[n]; } @output { y: real[n]; } " + COPY + " }"
    found = check(f"{levels}\n{last}\n{GRAPH.replace('op(x)', 'f0(x)')}")
    assert any("operations" in diagnostic.message for diagnostic in found)


MODEL = """
operator part {
    @dtype { T: num = real; }
    @attrib { k: int = 2; axes: int.. = [0:k]; o: optional int; f: bool = true; s: str = 'ab'; }
    @input { x: T[n, s0..(d), 2 * m]; z: optional T[n]; }
    @using { c = n / k; e..(d) = s0 - 1; [h, t..] = [k, axes..]; u = axes + ..; }
    @assert { k > 0: "bad {k}", k, 'twice': k * 2; o > 0; n % k == 0: "no"; s[0] == 'a'; }
    @output { y: T[n, (f ? 1), m]; }
    @lower { y[i,0,j] += x[|i - k <> 0 : n - 1|, l.., 2 * j] * T(k), i < n, l < s0, j < m
             | i % 2 == 0; }
}
operator many {
    @input { xs: real[q]..(p); }
    @output { ys: real[q]..(p); }
    @lower { v = 2.0, ys[i,] = xs[i,] + v, i < q; }
}
graph G {
    @attrib { r: int = 2; w: real.. = [1.0, 2.5]; }
    @input { x: real[4,3,2]; p: real[5]..(2); b: real[~|4]; }
    @output { y: real; z: real[~]; qs: real[5]..(2); }
    @constant { c: real[5] = real(i) * w[0], i < 5; }
    @variable { g: real[5]; }
    @compose {
        y = part{k=r, o=1}(x);
        qs..(2) = many(p);
        a = if r > 1 then { m..(2) = many([c, g]); yield m[0]; } else c;
        l..(2) = for i : qs unroll..(n -> 2) { e..(1) = many([i]); yield e[0]; };
        [z, ~] = l;
    }
}
"""
WORDS = [
    *sorted(set(re.findall(r"\w+|[^\w\s]+", MODEL))),
    "null", "-1", "0", "[]", "inf", "pi", "'{k}'", "..", "...", "1e400", "[1,2,3]", "!", "is", "in",
    "int(inf)", "`sqrt`(2.0)", "x.shape", "x.rank", "xs.size", "s0", "-", "9999999999999999999",
]  # fmt: skip
TOKENS = [match.span() for match in re.finditer(r"\w+|[^\w\s]+", MODEL)]


def mutated(edits: list[tuple[int, str, str]]) -> str:
    """The model with words replaced, removed or inserted, from its end to its beginning."""
    text = MODEL
    for index, kind, word in sorted(edits, reverse=True):
        start, end = TOKENS[index]
        middle = {"replace": word, "remove": "", "insert": f"{text[start:end]} {word}"}[kind]
        text = text[:start] + middle + text[end:]
    return text


EDITS = st.tuples(
    st.integers(0, len(TOKENS) - 1),
    st.sampled_from(["replace", "replace", "remove", "insert"]),
    st.sampled_from(WORDS),
)


def test_the_model_itself_is_right() -> None:
    found = check(MODEL, input_shapes={"b": (3,)})
    assert [each for each in found if each.severity == "error"] == []


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    st.lists(EDITS, min_size=1, max_size=3, unique_by=lambda edit: edit[0]),
    st.dictionaries(
        st.sampled_from(["r", "w", "k"]),
        st.one_of(st.integers(-2, 4), st.just("x"), st.just(True), st.just([1, 2]), st.none()),
        max_size=2,
    ),
    st.sampled_from([(3,), (9,), (), (1, 2), 7, "ab", None]),
)
def test_no_text_crashes(
    edits: list[tuple[int, str, str]], attributes: dict[str, Any], shape: Any
) -> None:
    text = mutated(edits)
    shapes = {} if shape is None else {"b": shape}
    for diagnostic in check(text, attributes=attributes, input_shapes=shapes):
        assert diagnostic.render()


KINDS = [
    [str(number) for number in range(6)] + ["(-1)", "(-3)", "9223372036854775807"],
    ["+", "-", "*", "/", "\\", "%", "<<", ">>", "**"],
    ["==", "!=", "<=", ">=", ">"],
    ["true", "false"],
    ["&&", "||", "^"],
]
ALIKE = [
    (index, kind)
    for index, (start, end) in enumerate(TOKENS)
    for kind in KINDS
    if MODEL[start:end] in kind
]
GENTLE = st.sampled_from(ALIKE).flatmap(
    lambda place: st.tuples(st.just(place[0]), st.just("replace"), st.sampled_from(place[1]))
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(GENTLE, min_size=1, max_size=3, unique_by=lambda edit: edit[0]))
def test_no_well_typed_text_crashes(edits: list[tuple[int, str, str]]) -> None:
    for diagnostic in check(mutated(edits), input_shapes={"b": (3,)}):
        assert diagnostic.render()


ATOMS = st.sampled_from([
    "0", "1", "-2", "2.5", "true", "'ab'", "n", "a", "e", "none", "r", "m", "inf", "[1,2]", "x",
])  # fmt: skip
OPERATORS = st.sampled_from([
    "+", "-", "*", "/", "\\", "%", "**", "<<", ">>", "<", "<=", ">", ">=", "==", "!=",
    "&&", "||", "^", "=>", "is", "in", "??", "?",
])  # fmt: skip
FOLDS = st.sampled_from(["+", "*", "<<", ">>", "&&", "||", "<", "==", "!=", ":="])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, OPERATORS, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, FOLDS).map(lambda t: f"({t[0]} {t[1]} ..)"),
        st.tuples(inner, inner).map(lambda t: f"{t[0]}[{t[1]}]"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} ? {t[1]} : {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"[{t[0]} .., {t[1]}]"),
        st.tuples(inner, inner).map(lambda t: f"[{t[0]} ..({t[1]})]"),
        st.tuples(inner, inner).map(lambda t: f"[{t[0]}:{t[1]}]"),
        st.tuples(inner, inner, inner).map(lambda t: f"(a[{t[0]}] <- {t[1]})"),
        st.tuples(st.sampled_from(["-", "!", "int", "real", "bool", "`abs`", "`sqrt`", "`round`"]),
                  inner).map(lambda t: f"{t[0]}({t[1]})"),
        inner.map(lambda text: f"'{{{text}}}'" if "'" not in text else text),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=600, deadline=None, derandomize=True)
@given(EXPRESSIONS)
def test_no_expression_crashes(text: str) -> None:
    names: dict[str, Any] = {
        "n": 3, "a": (1, 2, 3), "e": (), "none": None, "r": (0.5, 2.0), "m": (True, False),
        "x": "str",
    }  # fmt: skip
    try:
        parsed = parse_expression(text)
    except NnefError:
        return
    try:
        known(parsed, Environment(names, {}))
    except NnefError as problem:
        assert problem.diagnostics[0].span is not None


@pytest.mark.parametrize("text", [
    "1" + " + 1" * 5000, "(" * 5000 + "1" + ")" * 5000, "-" * 5000 + "1", "[" * 5000 + "]" * 5000,
    "9" * 5000, "true ? " * 3000 + "1",
], ids=["sum", "parentheses", "minus", "lists", "digits", "selects"])  # fmt: skip
def test_deep_expressions_do_not_crash(text: str) -> None:
    model = f"{OPERATOR.format(blocks=f'@using {{ a = {text}; }}', body=COPY)}\n{GRAPH}"
    for diagnostic in check(model):
        assert diagnostic.message


@pytest.mark.parametrize(("options", "words"), [
    ({"attributes": {"q": 1}}, "has no attribute 'q'"),
    ({"attributes": {"r": "x"}, "input_shapes": {"b": (2,)}}, "must be of type int"),
    ({"attributes": {"r": object()}}, "must be a number, a truth value, a string or a list"),
    ({"attributes": {"w": [[1.0]]}}, "must be a number, a truth value, a string or a list"),
    ({"types": {"T": "int"}}, "has no generic type 'T'"),
    ({"input_shapes": {"q": (1,)}}, "has no input 'q'"),
    ({"input_shapes": {"b": 3}}, "must be a list of non-negative integers"),
    ({"input_shapes": {"b": (-1,)}}, "must be a list of non-negative integers"),
    ({"input_shapes": {"b": (1.5,)}}, "must be a list of non-negative integers"),
    ({"input_shapes": {"b": (5,)}}, "extent 5 is beyond the bound '4'"),
    ({"input_shapes": {"b": (2, 2)}}, "expected rank 1, found rank 2"),
    ({"input_shapes": {"b": (2,), "x": (4, 3, 4)}}, "expected extent"),
    ({"input_shapes": {"b": (2,), "p": 3}}, "must be a list of shapes"),
    ({"input_shapes": {"b": (2,), "p": [(5,)]}}, "the length of 'p' must be '2' = 2, found 1"),
    ({"graph": "H"}, "has no graph 'H'"),
])  # fmt: skip
def test_what_a_caller_gives_is_checked(options: dict[str, Any], words: str) -> None:
    found = check(MODEL, **options)
    assert any(words in diagnostic.message for diagnostic in found), found


def test_generic_graph_needs_a_type(refused: Callable[..., Any]) -> None:
    text = """graph G { @dtype { T: num; } @input { x: T[2]; } @output { y: T[2]; }
        @compose { y = x; } }"""
    refused(text, "generic type 'T' has no value", "types={'T': 'real'}")
    refused(text, "must be one of int, real", types={"T": "bool"})
    refused(text, "cannot be of type", types={"T": "float"})
