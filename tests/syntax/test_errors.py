"""What a user reads when a text is wrong, and that no text makes anything else happen."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_nnef.diagnostics import Diagnostic, NnefError, Source
from tvm_nnef.syntax import detect, parse, parse_expression, parser
from tvm_nnef.syntax.build_tree import MAXIMUM_DEPTH


def found(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(NnefError) as caught:
        parse(text, "a.sknd")
    return caught.value.diagnostics


def place(diagnostic: Diagnostic) -> tuple[int | None, int | None]:
    return diagnostic.line, diagnostic.column


EXPRESSION_ERRORS = [
    # text, column, a part of the message, a part of the hint
    ("a +", 4, "the text ends too early; expected '..', '...' or an expression", None),
    ("f(a b)", 5, "unexpected word 'b'; expected ')', ',' or an operator", None),
    ("[1..(n)]", 4, "unexpected '.'", "1 ..(n)"),
    ("1..(n)", 3, "unexpected '.'", "1 ..(n)"),
    ("[x...]", 5, "unexpected '.'", "two dots"),
    ("x...", 2, "unexpected '..'", "two dots"),
    ("'abc", 1, "the string that begins here is never closed", "close it with '"),
    ("if", 1, "unexpected word 'if'; expected an expression", "'if' is a reserved word"),
    ("op{a: 1}(x)", 5, "unexpected ':'; expected '='", "assigned with '='"),
    ("a <- b", 3, "unexpected '<-'", "'a < -b'"),
    ("a <? b", 3, "unexpected '<'", "'<<' and '>>'"),
    ("a + b[i] <- c", 10, "unexpected '<-'", "'(a[i] <- b)'"),
    ("é + 1", 1, "unexpected word 'é'", "letters a to z"),
    ("a\0", 2, "unexpected character '\\x00'", None),
    ("a.b.c", 1, "'a.b.c' is not a value", "'.shape'"),
    ("1 + 1e999", 5, "too large for a real", "'inf'"),
    ("9" * 5000, 1, "more than 1000 digits", None),
    ("'a {b'", 4, "a '{' without its '}'", r"'\{'"),
    ("'a } b'", 4, "a '}' without its '{'", r"'\}'"),
    ("'x' 'a {b + } c'", 12, "the expression ends too early", None),
    ("'{}'", 3, "the expression ends too early; expected an expression", None),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), EXPRESSION_ERRORS)
def test_an_expression_error_says(text: str, column: int, message: str, hint: str | None) -> None:
    with pytest.raises(NnefError) as caught:
        parse_expression(text)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert place(diagnostic) == (1, column)
    assert (hint or "") in (diagnostic.hint or "")


MODULE_ERRORS = [
    ("graph g { @inputs { } }", (1, 11), "unexpected '@inputs'", "did you mean '@input'?"),
    ("operator f { }\nimport m;", (2, 1), "unexpected word 'import'", "at the beginning"),
    ("operator f { @using { a = 1\nb = 2; } }", (2, 1), "expected ';'", "is a ';' missing"),
    ("operator f { @input { a int; } }", (1, 25), "unexpected word 'int'; expected ':'", None),
    ("operator f { @attrib { _: int; } }", (1, 24), "unexpected word '_'", "reserved word"),
    ("operator if { }", (1, 10), "unexpected word 'if'; expected a name", "reserved word"),
    ("operator f { @lower { y[] = x, i <= n; } }", (1, 34), "unexpected '<='", "'i < n'"),
    (
        "operator f { @compose { y = while a do b() while c; } }",
        (1, 50),
        "one condition",
        "not at both places",
    ),
    ("operator f { @input { x: real = 1, i < n; } }", (1, 34), "unexpected ','", None),
]


@pytest.mark.parametrize(("text", "where", "message", "hint"), MODULE_ERRORS)
def test_a_module_error_says(
    text: str, where: tuple[int, int], message: str, hint: str | None
) -> None:
    (diagnostic,) = found(text)
    assert message in diagnostic.message
    assert place(diagnostic) == where
    assert (hint or "") in (diagnostic.hint or "")
    assert diagnostic.path == "a.sknd"


def test_a_lost_brace_is_shown_where_it_was_opened() -> None:
    text = "operator f {\n  @input {\n    x: real;\n  @output {\n  }\n}\n"
    (diagnostic,) = found(text)
    assert place(diagnostic) == (4, 3)
    assert diagnostic.hint == "is a '}' missing before it?"
    (note,) = diagnostic.notes
    assert note.span is not None
    assert note.span.start == text.index("{\n    x")


def test_errors_of_several_definitions_are_reported_together() -> None:
    text = """operator a { @attrib { x: int = ; } }
operator b { @attrib { x: int; } }
  public operator c { @attrib { x int; } }
# operator comment {
operator d { @assert { true: "
operator in_a_string
"; } @lower { } }
graph e { @compose { y = f(; } }
"""
    assert [place(diagnostic) for diagnostic in found(text)] == [(1, 33), (3, 35), (8, 28)]


STATEMENTS = """operator a {
    @attrib { x: int = ;  #!
        y: int
        z: real;  #!
        if: int;  #!
        ok: int = "; ) (";
    }
    @inputs { q: real[; { } }  #!
    @using {
        c = (a + 1;  #!
        d = [1..(3)];  #!
        e = 1e999;  #!
    }
    @compose {
        y = op{perm: [1,0], a=3}(x);  #!
        z = if c then { t = math.neg(x);
        } else { yield x; };  #!
        u = if c then { t = ; yield t; }  #!
            else { yield x
        ; };
        v = f(a b), g;  #!
        w = f(a
    }  #!
    @lower { y[] = 1.0 }  #!
}
operator b { @lower { y[i,] = x[i,], i <= n; }  #!
    @output { y: int;; } @assert { a;  #!
    b < ; }  #!
}
"""


def test_errors_of_several_statements_are_reported_together() -> None:
    lines = [n for n, line in enumerate(STATEMENTS.split("\n"), 1) if line.endswith("#!")]
    found_lines = [place(diagnostic)[0] for diagnostic in found(STATEMENTS)]
    assert found_lines == lines


LOST_BRACES = [
    "operator a { @attrib { x: int;\n@input { y: = ; }\n}\noperator b { @lower { } }\n",
    "operator a { @attrib { x: int; } } }\n@input { y: = ; }\n",
    "graph a {\ngraph b { @lower { } }\n}\n",
    "operator a { @output @output { x: int = ; } @lower { x = ; } }\n",
]


@pytest.mark.parametrize("text", LOST_BRACES)
def test_a_lost_brace_is_one_error(text: str) -> None:
    assert len(found(text)) == 1


def test_a_definition_that_swallows_the_next_is_one_error() -> None:
    text = "operator a { @attrib { x: int;\noperator b { }\noperator c { @lower { } }\n"
    assert [place(diagnostic) for diagnostic in found(text)] == [(2, 1)]


def test_the_number_of_errors_is_bounded() -> None:
    assert len(found("operator f { ? }\n" * 1000)) == parser.MAXIMUM_ERRORS


def test_several_problems_of_valid_syntax_are_reported_together() -> None:
    text = "operator f { @using { a = 1e999; b = x.y.z; c = '{2e999}'; } }"
    assert [diagnostic.column for diagnostic in found(text)] == [27, 38, 51]


def test_a_text_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(NnefError, match=r"huge\.sknd: error: the text has 4194305 characters"):
        parse(" " * (parser.MAXIMUM_SIZE + 1), "huge.sknd")


NESTINGS = [
    "(",
    "[",
    "-",
    "!",
    "a[",
    "f(",
    "f{a=",
    "a ? ",
    "a ?? ",
    "a ** -",
    "a + ",
    "|",
    "x[0] <- ",
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("opening", NESTINGS)
@pytest.mark.parametrize("core", ["", "x"])
def test_bottomless_nesting_is_an_error(opening: str, core: str) -> None:
    closing = {"(": ")", "[": "]", "f(": ")", "a[": "]", "|": "|", "f{a=": "}()"}.get(opening, "")
    with pytest.raises(NnefError):
        parse_expression(opening * 3000 + core + closing * 2999)


def test_too_deep_a_tree_is_an_error_at_the_location_where_it_is_too_deep() -> None:
    with pytest.raises(NnefError) as caught:
        parse_expression("-" * 500 + "x")
    (diagnostic,) = caught.value.diagnostics
    assert f"more than {MAXIMUM_DEPTH} levels" in diagnostic.message
    assert diagnostic.column is not None
    assert 500 - MAXIMUM_DEPTH < diagnostic.column < 500


def test_parentheses_alone_make_no_tree_deep() -> None:
    assert parse_expression("(" * 3000 + "x" + ")" * 3000) == parse_expression("x")


VALID = """import math;
operator f {
    @dtype { T: num = real; }
    @attrib { axes: int..(k) = [0:d]; name: str = "a {k + 1} 'b'"; }
    @input { x: optional T^(r)[b, s..(d), ..z, ~|10 ..(3)]..(n); }
    @using { [a, (b, c)..] = p[::-1]; os = s[axes] <- s[axes] * 2 ?? (z + ..); }
    @assert { a > 0 && b != ..: 'message {a}', a, 'b': 1.5e-3; }
    @lower {
        unroll..(i -> n) z = x[|j + 1|,] , y[i][j,] >= m ? z : `exp`(z), j < s | z < 1;
    }
    @compose {
        a, ~, [b..(k)] = if ?x then l: math.f<T>{a=[1 ..(n)],}(x, ~) else { y = x; yield y; };
        c = with s: real[n] = 0.0 for v : xs do..(i -> n) add(s, v) while c(s);
    }
    @quantize { a.b: q.linear{bits=8}; }
}
"""
TOKENS = (
    VALID.split()
    + list("()[]{}<>|?:;,.=~`'\"\\@#\n\0é")
    + ["..", "...", "<-", "is", "in", "<?", "static"]
)


def survives(text: str) -> None:
    """Parse a text that may be anything; only an NnefError that can be shown may come of it."""
    detect([Source("a.sknd", text)])
    for parse_it, dialect in itertools.product((parse, parse_expression), ("draft", "tools")):
        try:
            parse_it(text, dialect=dialect)
        except NnefError as failure:
            assert failure.diagnostics
            assert str(failure)


def test_the_text_that_is_mutated_below_is_valid() -> None:
    assert parse(VALID).definitions


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_no_text_crashes_the_parser(text: str) -> None:
    survives(text)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=30).map(" ".join))
def test_no_row_of_words_crashes_the_parser(text: str) -> None:
    survives(text)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_no_damage_to_a_valid_text_crashes_the_parser(source: random.Random, edits: int) -> None:
    text = VALID
    for _ in range(edits):
        start = source.randrange(len(text))
        end = min(len(text), start + source.randrange(12))
        text = text[:start] + source.choice(["", source.choice(TOKENS)]) + text[end:]
    survives(text)
