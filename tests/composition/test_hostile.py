"""Models that are wrong on purpose: refused soon, with an NnefError, and never a crash."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvm_nnef.api.checking import check
from tvm_nnef.composition import budget
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.values import Environment
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.syntax import parse_expression

pytestmark = pytest.mark.sampled(3)

SECONDS = 10.0

OPERATOR = "operator op {{ {blocks} @input {{ x: real[n]; }} @output {{ y: real[n]; }} {body} }}"
GRAPH = "graph G { @input { x: real[4]; } @output { y: real[4]; } @compose { y = op(x); } }"
COPY = "@lower { y[i,] = x[i,], i < n; }"
DOUBLING = " ".join(f"s{i + 1} = [s{i}.., s{i}..];" for i in range(64))
SHOUTING = " ".join(f"t{i + 1} = '{{t{i}}}{{t{i}}}';" for i in range(64))
QUOTED = "'{{t{0}}}{{t{0}}}'"
SQUARING = " ".join(f"p{i + 1} = p{i} * p{i};" for i in range(64))


@pytest.mark.sampled(6)
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
    (f"@using {{ {' '.join(f'a{i} = [0:1000000];' for i in range(1500))} }}", COPY,
     "units were used for items of packs"),
    (f"@using {{ t0 = 'x'; {' '.join(f't{i + 1} = {QUOTED.format(i)};' for i in range(20))}"
     f" {' '.join(f'u{i} = {QUOTED.format(19)};' for i in range(2000))} }}", COPY,
     "units were used for characters"),
])  # fmt: skip
def test_refused_soon(blocks: str, body: str, words: str) -> None:
    start = time.process_time()
    text = f"{OPERATOR.format(blocks=blocks, body=body)}\n{GRAPH}"
    messages = [diagnostic.render() for diagnostic in check(text)]
    assert any(words in message for message in messages), messages
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("use", [
    "p + ..", "p + ...", "-1 in p", "p + 1", "-p", "[p.., 1]", "real(p)", "'{p}'", "p[p]",
    "(p[0] <- 1)", "p == p", "`abs`(p)", "[1 ..(1000)]", "[(p, p)..]",
])  # fmt: skip
def test_work_on_long_packs_is_counted(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LIMIT", 20_000)
    text = f"@using {{ p = [0:1000]; {' '.join(f'a{i} = {use};' for i in range(100))} }}"
    (found,) = check(f"{OPERATOR.format(blocks=text, body=COPY)}\n{GRAPH}")
    assert "units were used for" in found.message


def test_attributes_count_by_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LIMIT", 20_000)
    operator = OPERATOR.format(blocks="@attrib { a: int..; }", body=COPY)
    steps = " ".join(f"x{i} = op{{a=p}}(x);" for i in range(100))
    using = "@using { p = [0:1000]; } @compose {"
    (found, *_) = check(
        operator + GRAPH.replace("@compose {", f"{using} {steps}").replace("op(x)", "x")
    )
    assert "units were used for" in found.message


def test_a_pack_of_many_inputs_is_refused_soon() -> None:
    text = "graph G { @input { x: real[4]..(1000000); } @output { y: real[4]; }"
    (found,) = check(text + " @compose { y = x[0]; } }")
    assert "units were used for tensors" in found.message
    assert found.line == 1


def test_what_used_the_most_work_is_pointed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LIMIT", 1000)
    text = f"@using {{ p = [0:900]; {' '.join(f'a{i} = {i};' for i in range(200))} }}"
    (found,) = check(f"{OPERATOR.format(blocks=text, body=COPY)}\n{GRAPH}")
    used = [note for note in found.notes if "were used here" in note.message]
    assert [note.span.text for note in used if note.span] == ["[0:900]"]


def test_the_work_of_one_call_is_not_counted_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LIMIT", 1000)
    text = f"{OPERATOR.format(blocks='@using { p = [0:700]; }', body=COPY)}\n{GRAPH}"
    assert check(text) == check(text) == []


@pytest.mark.parametrize("step", [
    "S * S", "S * 2 + S % 7", "(S + 1) / 2 + (S + 3) / 5", "S >> (S * 3 - 5)",
    pytest.param("int(S > 1 ^ S < 5) + S * S", marks=pytest.mark.slow),
])  # fmt: skip
def test_expressions_of_dynamic_dimensions_do_not_grow_without_end(step: str) -> None:
    helpers = " ".join(f"s{i + 1} = {step.replace('S', f's{i}')};" for i in range(64))
    text = f"{OPERATOR.format(blocks=f'@using {{ s0 = n; {helpers} }}', body=COPY)}\n{GRAPH}"
    found = check(text.replace("real[4]", "real[~|4]"))
    assert any("of dynamic dimensions with" in each.message for each in found)


CHAIN = "if c then op(x) {0} else op(x)"


@pytest.mark.parametrize(("count", "words"), [(100, None), (250, "levels deep"), (2000, "levels")])
def test_chains_of_elif(count: int, words: str | None) -> None:
    chain = CHAIN.format("elif c then op(x) " * count)
    graph = GRAPH.replace("real[4]; }", "real[4]; c: bool[]; }", 1).replace("op(x)", chain)
    found = check(f"{OPERATOR.format(blocks='', body=COPY)}\n{graph}")
    assert [words in each.message for each in found] == ([True] if words else [])


@pytest.mark.slow
def test_nesting_beyond_the_stack_is_a_diagnostic() -> None:
    chain = CHAIN.format("elif c then f{0}(x, c) " * 90)
    levels = "\n".join(
        f"operator f{i} {{ @input {{ x: real[n]; c: bool[]; }} @output {{ y: real[n]; }}"
        f" @compose {{ y = {chain.format(i + 1)}; }} }}"
        for i in range(6)
    )
    last = "operator f6 { @input { x: real[n]; c: bool[]; } @output { y: real[n]; } " + COPY + " }"
    graph = GRAPH.replace("real[4]; }", "real[4]; c: bool[]; }", 1).replace("op(x)", "f0(x, c)")
    text = f"{OPERATOR.format(blocks='', body=COPY)}\n{levels}\n{last}\n{graph}"
    (found,) = check(text)
    assert found.severity == "error"


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    ({"input_shapes": {"b": (5,)}}, "dimension 5 is beyond the bound '4'"),
    ({"input_shapes": {"b": (2, 2)}}, "expected rank 1, found rank 2"),
    ({"input_shapes": {"b": (2,), "x": (4, 3, 4)}}, "expected dimension"),
    ({"input_shapes": {"b": (2,), "p": 3}}, "must be a list of shapes"),
    ({"input_shapes": {"b": (2,), "p": [(5,)]}}, "the length of 'p' must be '2' = 2, found 1"),
    ({"graph": "H"}, "has no graph 'H'"),
])  # fmt: skip
def test_what_a_caller_gives_is_checked(options: dict[str, Any], words: str) -> None:
    found = check(MODEL, **options)
    assert any(words in diagnostic.message for diagnostic in found), found


@pytest.mark.parametrize(("options", "words", "hint"), [
    ({}, "generic type 'T' has no value", "types={'T': 'real'}"),
    ({"types": {"T": "bool"}}, "'T' must be one of int, real, found bool", "'T: type;'"),
    ({"types": {"T": "float"}}, "a tensor cannot be of type float", "real, int or bool"),
])  # fmt: skip
def test_a_generic_graph_needs_a_type(
    options: dict[str, Any], words: str, hint: str, refused: Callable[..., NnefError]
) -> None:
    text = """graph G { @dtype { T: num; } @input { x: T[2]; } @output { y: T[2]; }
        @compose { y = x; } }"""
    (found,) = refused(text, **options).diagnostics
    assert words in found.message
    assert hint in str(found.hint)
