"""The tools dialect: what it spells in its own way, what it refuses, and the same nodes.

The expectations follow ``shared/facts/tools-dialect.md``; what the dialects share is tested with
the draft.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_nnef.diagnostics import Diagnostic, NnefError
from tvm_nnef.support import user_cache
from tvm_nnef.syntax import nodes, parse, parse_cached, parse_expression, print_expression
from tvm_nnef.syntax.spelling import BUILTIN_FUNCTIONS

EXPRESSIONS = {
    # section 3: precedence
    "a <? b + c": "(min a (+ b c))",
    "a >? b <? c": "(min (max a b) c)",
    "a < b >? c": "(< a (max b c))",
    "x <? m ?? x": "(coalesce (min x m) x)",
    "2 ** 3 ** 2": "(** (** 2 3) 2)",
    "true || true && false": "(&& (|| true true) false)",
    "x is y": "(is x y)",
    "a ?? ?b": "(coalesce a (? b))",
    # built-ins are plain calls
    "exp(-x)": "(builtin exp (- x))",
    "1 + abs(sign(x))": "(+ 1 (builtin abs (builtin sign x)))",
    "'{sqrt(x)}'": "(text (builtin sqrt x))",
    "math.exp(x)": "(call math.exp [] [] [x] -)",
    "exp{}(x)": "(call exp [] [] [x] -)",
    "exp<real>(x)": "(call exp [real] [] [x] -)",
    "exp(x, y)": "(call exp [] [] [x y] -)",
    "exp(~)": "(call exp [] [] [~] -)",
    "exp()": "(call exp [] [] [] -)",
    "T(x)": "(call T [] [] [x] -)",
    "int(x)": "(cast int x)",
    "exp": "exp",
    # section 2: literals, strings, greedy operators
    "007": "7",
    "1.5E+3": "1500.0",
    r"'\n'": r"(text '\\n')",
    r"'\{x\}'": r"(text '\\{x\\}')",
    r"'it\'s {x}'": r"""(text "it\\'s " x)""",
    "'a}'": "(text 'a}')",
    "'a' \"b'\"": """(text "ab'")""",
    "op{a=1,}(x)": "(call op [] [(attributeassignment a 1)] [x] -)",
    # tensor accesses
    "x[i,:]": "(subscript x [i (range - - -)] False)",
    "index[:,k]": "(subscript index [(range - - -) k] False)",
    # folds
    "2 * a + ..": "(+.. (* 2 a))",
    "1.0 - abs(x) * ..": "(- 1.0 (*.. (builtin abs x)))",
    "w * .. * y": "(* (*.. w) y)",
    "a + .. + b - c": "(- (+ (+.. a) b) c)",
    "a - b * .. * c": "(- a (* (*.. b) c))",
    "a + ... + ..": "(+.. (+... a))",
    "(a + ..) == 3": "(== (+.. a) 3)",
    "(a + .. # )\n) == 3": "(== (+.. a) 3)",
    "((a - (b * ..))) - c": "(- (- a (*.. b)) c)",
    "a - (b * ..) - c": "(- (- a (*.. b)) c)",
    "x := .. ?? y": "(coalesce (:=.. x) y)",
    "[x + .. .., s[a] <- s[a] * r..]": (
        "(listexpression [(expand (+.. x) -) (expand (substitute (subscript s [a] False)"
        " (* (subscript s [a] False) r)) -)])"
    ),
}
"""Expressions with their trees."""


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_means(text: str, sketch: Callable[[object], str]) -> None:
    assert sketch(parse_expression(text, dialect="tools")) == EXPRESSIONS[text]


STATEMENTS = {
    ("attrib", "a: dynamic int..(dynamic n) = [0];"): (
        "(parameter a (typespec int False - - (pack n dynamic) dynamic) (listexpression [0]) [])"
    ),
    ("attrib", "a: optional dynamic int;"): "(parameter a (typespec int True - - - dynamic) - [])",
    ("attrib", "a: dynamic optional int;"): "(parameter a (typespec int True - - - dynamic) - [])",
    ("input", "x: real[b,static c,static ..z,~|4]..(static n|3);"): (
        "(parameter x (typespec real False - [(extent b - - False) (extent c - - False static)"
        " (extent z - - True static) (extent ~ 4 - False)] (pack n 3 static)) - [])"
    ),
    ("output", "y: int[d,k|(s * ..)];"): (
        "(parameter y (typespec int False - [(extent d - - False)"
        " (extent k (*.. s) - False)] -) - [])"
    ),
    ("lower", "index[:,k] = i, i < s | c;"): (
        "(lowering (subscript index [(range - - -) k] False) '=' i [(loopbound i s)] c [] -)"
    ),
    ("lower", "unroll..(k -> n) with a = e, b = c ? a : e: y[i..] <?= b, i < n;"): (
        "(lowering (subscript y [(expand i -)] False) 'min=' b [(loopbound i n)] -"
        " [(localvalue a e) (localvalue b (select c a e))] (iterationcount k n))"
    ),
    ("lower", "y[] >?= exp(x[]);"): (
        "(lowering (subscript y [] False) 'max=' (builtin exp (subscript x [] False)) [] - [] -)"
    ),
    ("compose", "y = exp(x);"): "(component [(nametarget y - - -)] (builtin exp x))",
    ("compose", "y = l: exp(x);"): "(component [(nametarget y - - -)] (call exp [] [] [x] l))",
    ("compose", "y = with s = 0 unroll..(i ->) f(s);"): (
        "(component [(nametarget y - - -)] (loop (call f [] [] [s] -) [(carried s 0 - -)] []"
        " - False True (iterationcount i -)))"
    ),
}
"""Statements of a block with their trees."""


@pytest.mark.parametrize(("kind", "text"), STATEMENTS)
def test_a_statement_means(kind: str, text: str, sketch: Callable[[object], str]) -> None:
    (definition,) = parse(f"operator f {{ @{kind} {{ {text} }} }}", dialect="tools").definitions
    assert sketch(definition.blocks[0].statements[0]) == STATEMENTS[kind, text]


OWN_OPERATOR = """operator exp {{ }}
operator f {{
    @using {{ a = exp(b); }}
    @compose {{ {} }}
}}
"""
INVOCATIONS = {
    "y = exp(x);": 1,
    "y = log(x);": 0,
    "y = (exp(x));": 1,
    "y = exp(x) + 1.0;": 0,
    "y = f(exp(x));": 0,
    "y = if exp(x) then exp(x) elif a then exp(x) else exp(x);": 4,
    "y = while exp(x) do exp(x);": 2,
    "y = do..(exp(n)) { z = exp(x); yield exp(z); };": 1,
    "y = with a = exp(x) for b : exp(x) do exp(x);": 1,
}


@pytest.mark.parametrize("text", INVOCATIONS)
def test_an_operator_of_the_module_is_invoked_if_invocations_are_allowed(text: str) -> None:
    module = parse(OWN_OPERATOR.format(text), dialect="tools")
    assert repr(module).count("callee=Path(parts=('exp',))") == INVOCATIONS[text]
    using = module.definitions[1].blocks[0].statements[0]
    assert isinstance(using, nodes.Using)
    assert isinstance(using.value, nodes.Builtin)


def test_the_dialects_give_the_same_nodes() -> None:
    draft = """operator f { @lower { a = x[i,], y[i,] <= `exp`(a) << 1.0, i < n; } }"""
    tools = """operator f { @lower { with a = x[i,]: y[i,] <?= exp(a) <? 1.0, i < n; } }"""
    assert parse(draft) == parse(tools, dialect="tools")


@pytest.mark.parametrize("name", sorted(BUILTIN_FUNCTIONS))
def test_every_built_in_is_a_plain_call(name: str) -> None:
    built_in = parse_expression(f"`{name}`(x)")
    assert parse_expression(f"{name}(x)", dialect="tools") == built_in
    assert print_expression(built_in, "tools") == f"{name}(x)"


@pytest.mark.parametrize("name", ["static", "dynamic", "as"])
def test_the_words_that_only_the_tools_reserve_are_names_of_the_draft(name: str) -> None:
    assert parse_expression(name) == nodes.Identifier(name, span=parse_expression(name).span)


def found(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(NnefError) as caught:
        parse(text, "a.sknd", "tools")
    return caught.value.diagnostics


EXPRESSION_ERRORS = [
    # text, column, a part of the message, a part of the hint
    ("a << b", 3, "unexpected '<'", "'<?' and '>?'"),
    ("a >> b", 3, "unexpected '>'", "'<?' and '>?'"),
    ("`exp`(x)", 1, "unexpected '`'; expected an expression", "'exp(x)'"),
    ("f(a b)", 5, "unexpected word 'b'; expected ')', ',' or an operator", None),
    ("is", 1, "unexpected word 'is'", "reserved word"),
    ("static + 1", 1, "unexpected word 'static'", "reserved word"),
    ("as", 1, "unexpected word 'as'", "reserved word"),
    ("a === b", 5, "unexpected '='", None),
    ("a !== b", 5, "unexpected '='", None),
    ("1..(n)", 3, "unexpected '.'", "1 ..(n)"),
    ("[a,]", 4, "unexpected ']'", None),
    ("f(a,)", 5, "unexpected ')'", None),
    (".5", 1, "unexpected '.'", None),
    ("a + .. == 3", 8, "'==' cannot follow a fold of another operator", "(a + ..) == b"),
    ("a + .. - b", 8, "'-' cannot follow a fold", None),
    ("a - b * .. - c", 12, "'-' cannot follow a fold", None),
    ("a * .. + ..", 8, "'+' cannot follow a fold", None),
    ("a * .. + ...", 8, "'+' cannot follow a fold", None),
    ("a && .. => b", 9, "'=>' cannot follow a fold", None),
    ("a + .. # )\n == 3", 2, "'==' cannot follow a fold", None),
    ("x == .. ? f(a <? .. <? b >? ..) : c", None, None, None),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), EXPRESSION_ERRORS)
def test_an_expression_error_says(
    text: str, column: int | None, message: str | None, hint: str | None
) -> None:
    if message is None:
        assert parse_expression(text, dialect="tools")
        return
    with pytest.raises(NnefError) as caught:
        parse_expression(text, dialect="tools")
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.column == column
    assert (hint or "") in (diagnostic.hint or "")


MODULE_ERRORS = [
    ("import a, b.c;", 11, "'b.c' cannot be imported", "by its own name"),
    ("operator f { @lower { y[] <= x; } }", 27, "unexpected '<='", "'<?=' and '>?='"),
    ("operator f { @lower { a = x, y[] = a; } }", 25, "unexpected '='", "after 'with'"),
    ("operator f { @lower { with a = x, y[] = a; } }", 36, "unexpected '['", None),
    ("operator f { @lower { y[] -= x; } }", 27, "unexpected '-'", None),
    ("operator f { @compose { y = unroll..(n) g(); } }", 29, "begins with 'unroll'", "'do'"),
    ("operator f { @compose { is = g(); } }", 25, "unexpected word 'is'", "reserved word"),
    ("operator f { @input { x: static real; } }", 26, "unexpected word 'static'", None),
    ("operator f { @input { x: real[dynamic n]; } }", 31, "unexpected word 'dynamic'", None),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), MODULE_ERRORS)
def test_a_module_error_says(text: str, column: int, message: str, hint: str | None) -> None:
    (diagnostic,) = found(text)
    assert message in diagnostic.message
    assert diagnostic.column == column
    assert (hint or "") in (diagnostic.hint or "")


def test_what_is_wrong_in_several_locations_is_reported_together() -> None:
    text = "import a.b, c;\noperator f { @using { a = b + .. == 1; c = d * .. + 1; } }"
    assert [diagnostic.column for diagnostic in found(text)] == [8, 34, 51]


@pytest.mark.parametrize("count", [1, 40])
def test_spans_point_into_the_text(count: int) -> None:
    text = "exp(" * count + "x" + ")" * count
    node = parse_expression(text, dialect="tools")
    assert isinstance(node, nodes.Builtin)
    assert (node.span.text, node.function.span.text) == (text, "exp")


def test_the_dialects_do_not_share_cached_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_cache, "folder", lambda: tmp_path)
    text = "operator f { @using { a = exp(b); } @attrib { c: int..(n); } }"
    for _ in range(2):
        assert parse_cached(text, dialect="tools") == parse(text, dialect="tools")
        assert parse_cached(text) == parse(text)
    assert parse(text) != parse(text, dialect="tools")
