"""What a text means: precedence, the traps of the grammar, and the nodes of every statement."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.syntax import nodes, parse, parse_expression

EXPRESSIONS = {
    # literals
    "007": "7",
    "3.": "3.0",
    "1e5": "100000.0",
    "1.5E+3": "1500.0",
    "true": "true",
    "inf": "inf",
    "pi": "pi",
    "'a' \"b\"\n'c'": "(text 'abc')",
    "''": "(text)",
    r"'it\'s \{x\} \n \\'": r"""(text "it's {x} \\n \\")""",
    "'line\nbreak'": r"(text 'line\nbreak')",
    '"a = {a + 2}."': "(text 'a = ' (+ a 2) '.')",
    "\"{x ? '{' : 'b'}\"": None,  # an unclosed brace in a nested string
    r'"{x ? "': None,
    "\"{f{a='}'}(x)}\"": None,
    # names: reserved words are whole words, and `is` is one only after an expression
    "inside": "inside",
    "integer": "integer",
    "is": "is",
    "is is is": "(is is is)",
    "is - is": "(- is is)",
    "[is..]": "(listexpression [(expand is -)])",
    "x in y": "(in x y)",
    # precedence, from the tightest
    "2 ** 3 ** 2": "(** (** 2 3) 2)",
    "-2 ** 2": "(- (** 2 2))",
    "2 ** -1": "(** 2 (- 1))",
    "2 ** -a ** b": "(** (** 2 (- a)) b)",
    "-a * b": "(* (- a) b)",
    "!-+a": "(! (- (+ a)))",
    "a - b - c": "(- (- a b) c)",
    "a + b * c \\ d": "(+ a (\\ (* b c) d))",
    "a << b + c": "(min a (+ b c))",
    "a >> b << c": "(min (max a b) c)",
    "a < b >> c": "(< a (max b c))",
    "a == b && c": "(&& (== a b) c)",
    "true || true && false": "(&& (|| true true) false)",
    "a ^ b || c": "(|| (^ a b) c)",
    "a => b => c": "(=> (=> a b) c)",
    "a => b || c": "(=> a (|| b c))",
    "a ? b : c ? d : e": "(select a b (select c d e))",
    "a ? b ? c : d : e": "(select a (select b c d) e)",
    "a ? b ? c : d": "(select a (select b c d) -)",
    "a ? b": "(select a b -)",
    "p ?? c ? a : b": "(coalesce p (select c a b))",
    "x << m ?? x": "(coalesce (min x m) x)",
    "a ?? b ?? c": "(coalesce a (coalesce b c))",
    "?x && c ? x : 0": "(select (&& (? x) c) x 0)",
    "a ? ?b": "(select a (? b) -)",
    "?(a + 1) && ?b[0]": "(&& (? (+ a 1)) (? (subscript b [0] False)))",
    "?a ** 2 == b": "(== (? (** a 2)) b)",
    # the `<` of type arguments against the comparison
    "op<real>(x)": "(call op [real] [] [x] -)",
    "m.op<T, int>{a=1,}(x)": "(call m.op [T int] [(attributeassignment a 1)] [x] -)",
    "a < b": "(< a b)",
    "a < b > c": "(> (< a b) c)",
    "a[i] < b > (c)": "(> (< (subscript a [i] False) b) c)",
    # calls, casts and built-ins
    "op()": "(call op [] [] [] -)",
    "op{}(x, ~, [y])": "(call op [] [] [x ~ (listexpression [y])] -)",
    "real(x)": "(cast real x)",
    "str()": "(cast str -)",
    "T(x)": "(call T [] [] [x] -)",
    "`exp`(-x)": "(builtin exp (- x))",
    "x.shape[0]": "(subscript (property x 'shape') [0] False)",
    # folds
    "x + .. + 42": "(+ (+.. x) 42)",
    "abs(x) * .. * y": "(* (*.. (call abs [] [] [x] -)) y)",
    "1.0 - x * ..": "(- 1.0 (*.. x))",
    "2 * a + ..": "(+.. (* 2 a))",
    "a - b + ...": "(+... (- a b))",
    "x << .. >> ...": "(max... (min.. x))",
    "x && a || ..": "(||.. (&& x a))",
    "a = b == ..": None,
    "a == b <= ..": "(<=.. (== a b))",
    "value := ..": "(:=.. value)",
    "u := .. ?? v": "(coalesce (:=.. u) v)",
    "a < ...": None,
    "a - ..": None,
    "a + .. * b": None,
    # lists
    "[]": "(listexpression [])",
    "[1, b.., c]": "(listexpression [1 (expand b -) c])",
    "[1 ..(n), x..(!flag)]": "(listexpression [(expand 1 n) (expand x (! flag))])",
    "[a + b..]": "(listexpression [(expand (+ a b) -)])",
    "[x + .. ..]": "(listexpression [(expand (+.. x) -)])",
    "[d-1:-1:-1]": "(listexpression [(range (- d 1) (- 1) (- 1))])",
    "[0:n]": "(listexpression [(range 0 n -)])",
    "[a ? b : c : d]": "(listexpression [(range (select a b c) d -)])",
    "[a : b ? c : d]": "(listexpression [(range a (select b c d) -)])",
    "[(a, b)..]": "(listexpression [(zip [a b] -)])",
    "[(a)..]": "(listexpression [(expand a -)])",
    "[(a, b)]": None,
    "[a:]": None,
    "[a,]": None,
    "1..(n)": None,
    "[1..(n)]": None,
    # subscripts
    "x[]": "(subscript x [] False)",
    "x[i,]": "(subscript x [i] True)",
    "x[i, j..]": "(subscript x [i (expand j -)] False)",
    "a[::-1]": "(subscript a [(range - - (- 1))] False)",
    "a[0::2]": "(subscript a [(range 0 - 2)] False)",
    "t[rank:]": "(subscript t [(range rank - -)] False)",
    "t[:a ? b : c]": "(subscript t [(range - (select a b c) -)] False)",
    "a[i:j:k]": "(subscript a [(range i j k)] False)",
    "x[|i|..]": "(subscript x [(expand (guard i - -) -)] False)",
    "x[|i - n <> 0 : s - 1|,]": "(subscript x [(guard (- i n) 0 (- s 1))] True)",
    "x[m ? |i - c <> 0 : s| : i..]": (
        "(subscript x [(expand (select m (guard (- i c) 0 s) i) -)] False)"
    ),
    # substitution
    "a[i] <- b ? c : d": "(substitute (subscript a [i] False) (select b c d))",
    "x ?? a[i] <- b": "(coalesce x (substitute (subscript a [i] False) b))",
    "[s[axes] <- s[axes] * r..]": (
        "(listexpression [(expand (substitute (subscript s [axes] False)"
        " (* (subscript s [axes] False) r)) -)])"
    ),
    "1 + a[i] <- b": None,
    "1 + (a[i] <- b)": "(+ 1 (substitute (subscript a [i] False) b))",
    "a <- b": None,
    "a <? b": None,
}
"""Expressions with their trees; None if they are none."""


@pytest.mark.parametrize("text", [text for text, tree in EXPRESSIONS.items() if tree])
def test_an_expression_means(text: str, sketch: Callable[[object], str]) -> None:
    assert sketch(parse_expression(text)) == EXPRESSIONS[text]


@pytest.mark.parametrize("text", [text for text, tree in EXPRESSIONS.items() if tree is None])
def test_is_not_an_expression(text: str) -> None:
    with pytest.raises(NnefError):
        parse_expression(text)


STATEMENTS = {
    ("dtype", "T: num = real;"): "(dtypedefinition T num real)",
    ("attrib", "a: optional int..(2 * k);"): (
        "(parameter a (typespec int True - - (pack (* 2 k))) - [])"
    ),
    ("input", "x: T^(r)[b, s..(d), ..z, ~|10 ..(3)]..(k) = 0.0;"): (
        "(parameter x (typespec T False r [(extent b - - False) (extent s - (pack d) False)"
        " (extent z - - True) (extent ~ 10 (pack 3) False)] (pack k)) 0.0 [])"
    ),
    ("output", "y: real;"): "(parameter y (typespec real False - - -) - [])",
    ("output", "y: real[];"): "(parameter y (typespec real False - [] -) - [])",
    ("output", "y: real[s|k, m ?? 1|n..];"): (
        "(parameter y (typespec real False - [(extent s k - False)"
        " (extent (coalesce m 1) n (pack -) False)] -) - [])"
    ),
    ("constant", "I: real[n,n] = i == j ? 1.0 : 0.0, i < n, j < n;"): (
        "(parameter I (typespec real False - [(extent n - - False) (extent n - - False)] -)"
        " (select (== i j) 1.0 0.0) [(loopbound i n) (loopbound j n)])"
    ),
    ("using", "c..(n) = e;"): "(using (nametarget c - - (pack n)) e)",
    ("using", "[a, b.., ~] = c;"): (
        "(using (listtarget [(nametarget a - - -) (nametarget b - - (pack -)) ~]) c)"
    ),
    ("using", "[(e, f)..] = c;"): (
        "(using (listtarget [(ziptarget [(nametarget e - - -) (nametarget f - - -)] (pack -))]) c)"
    ),
    ("assert", "a > 0;"): "(assertion (> a 0) - [])",
    ("assert", "a ? b : c : 'm {a}', a, 'l': b, n: [1], x.shape;"): (
        "(assertion (select a b c) (text 'm ' a) [(detail - a) (detail (text 'l') b)"
        " (detail (text 'n') (listexpression [1])) (detail - (property x 'shape'))])"
    ),
    ("assert", "axes != ..: 'distinct', 'text';"): (
        "(assertion (!=.. axes) (text 'distinct') [(detail - (text 'text'))])"
    ),
    ("lower", "i[] = 0;"): "(lowering (subscript i [] False) '=' 0 [] - [] -)",
    ("lower", "z = x[i,], w = z, y[i,] <= w, i < a ? b : c, j < n | z < w;"): (
        "(lowering (subscript y [i] True) 'min=' w"
        " [(loopbound i (select a b c)) (loopbound j n)] (< z w)"
        " [(localvalue z (subscript x [i] True)) (localvalue w z)] -)"
    ),
    ("lower", "unroll..(k -> n) ys[k][i,] |= x[i,], i < s;"): (
        "(lowering (subscript (subscript ys [k] False) [i] True) '|=' (subscript x [i] True)"
        " [(loopbound i s)] - [] (iterationcount k n))"
    ),
    ("compose", "a, [b, c..(k)], ~ = l: op(x);"): (
        "(component [(nametarget a - - -) (listtarget [(nametarget b - - -)"
        " (nametarget c - - (pack k))]) ~] (call op [] [] [x] l))"
    ),
    ("compose", "xs: real[s]..(b) = x ?? y;"): (
        "(component [(nametarget xs real [(extent s - - False)] (pack b))] (coalesce x y))"
    ),
    ("compose", "y = l: { a = x; yield a, b; };"): (
        "(component [(nametarget y - - -)] (scope [(component [(nametarget a - - -)] x)] [a b] l))"
    ),
    ("compose", "y = if ?a then b elif { yield c; } then l: d() else e;"): (
        "(component [(nametarget y - - -)] (branch [(brancharm (? a) b)"
        " (brancharm (scope [] [c] -) (call d [] [] [] l))] e))"
    ),
    ("compose", "y = with s: real[n] = 0.0, t = u for x : xs, z : zs do add(s, x);"): (
        "(component [(nametarget y - - -)] (loop (call add [] [] [s x] -)"
        " [(carried s 0.0 real [(extent n - - False)]) (carried t u - -)]"
        " [(scan x xs) (scan z zs)] - False False -))"
    ),
    ("update", "y = while c(y) do..(i -> n) op(i);"): (
        "(component [(nametarget y - - -)] (loop (call op [] [] [i] -) [] []"
        " (call c [] [] [y] -) False False (iterationcount i n)))"
    ),
    ("compose", "y = unroll..(i ->) { yield i; } while a && b;"): (
        "(component [(nametarget y - - -)] (loop (scope [] [i] -) [] []"
        " (&& a b) True True (iterationcount i -)))"
    ),
    ("compose", "y = do..(n) (x);"): (
        "(component [(nametarget y - - -)] (loop x [] [] - False False (iterationcount - n)))"
    ),
    ("quantize", "l.x: quant.op<real>{scale=0.1};"): (
        "(quantization l.x (call quant.op [real] [(attributeassignment scale 0.1)] - -))"
    ),
    ("quantize", "x: q<T>;"): "(quantization x (call q [T] [] - -))",
}
"""Statements of a block with their trees."""


@pytest.mark.parametrize(("kind", "text"), STATEMENTS)
def test_a_statement_means(kind: str, text: str, sketch: Callable[[object], str]) -> None:
    (definition,) = parse(f"operator f {{ @{kind} {{ {text} }} }}").definitions
    assert [(block.kind, len(block.statements)) for block in definition.blocks] == [(kind, 1)]
    assert sketch(definition.blocks[0].statements[0]) == STATEMENTS[kind, text]


def test_a_module_has_imports_and_definitions_in_order() -> None:
    module = parse(
        "import a, b.c; # first\nimport d;\npublic operator f { }\ngraph g { @lower { } }"
    )
    assert [str(item.path) for item in module.imports] == ["a", "b.c", "d"]
    assert [(item.kind, item.name.name, item.public) for item in module.definitions] == [
        ("operator", "f", True),
        ("graph", "g", False),
    ]
    assert [block.kind for block in module.definitions[1].blocks] == ["lower"]


@pytest.mark.parametrize("text", ["", "  \r\n# nothing", "#"])
def test_an_empty_text_is_an_empty_module(text: str) -> None:
    assert parse(text) == nodes.Module((), (), span=parse("").span)


def test_every_span_covers_the_words_of_its_node() -> None:
    text = "(a + b) * c[|i|..,] ? 'x = {  y + 1 }' : `exp`( z )"
    select = parse_expression(text)
    assert isinstance(select, nodes.Select)
    assert select.span.text == text
    assert select.condition.span.text == "(a + b) * c[|i|..,]"
    assert isinstance(select.consequent, nodes.Text)
    part = select.consequent.parts[1]
    assert isinstance(part, nodes.Binary)
    assert (part.span.text, part.left.span.start) == ("y + 1", text.index("y + 1"))
    assert isinstance(select.alternative, nodes.Builtin)
    assert select.alternative.function.span.text == "exp"


def test_spans_take_no_part_in_comparisons() -> None:
    assert parse_expression(" ( a+b )") == parse_expression("a + b")
    assert parse_expression("a + b") != parse_expression("a - b")
