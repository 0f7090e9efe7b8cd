"""print∘parse: what is printed parses to the tree it was printed from."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_nnef.diagnostics import NnefError, Source, Span
from tvm_nnef.syntax import nodes, parse, parse_expression, print_expression, print_module
from tvm_nnef.syntax.build_tree import MAXIMUM_DEPTH

HERE = Span(Source("<test>", ""), 0, 0)
S = st.SearchStrategy


def make(node: type[nodes.Node], *fields: S[object]) -> S[nodes.Node]:
    return st.builds(lambda *values: node(*values, span=HERE), *fields)


def some(items: S[object], minimum: int = 0) -> S[tuple[object, ...]]:
    return st.lists(items, min_size=minimum, max_size=3).map(tuple)


def joined(parts: list[object]) -> tuple[object, ...]:
    """Parts of a text as the parser gives them: no empty ones, no two plain ones in a row."""
    result: list[object] = []
    for part in parts:
        if isinstance(part, str) and result and isinstance(result[-1], str):
            result[-1] += part
        elif part != "":
            result.append(part)
    return tuple(result)


NAMES = st.sampled_from(["a", "b", "is", "x1", "__", "shape", "inside", "T"])
IDENTIFIERS = make(nodes.Identifier, NAMES)
PATHS = make(nodes.Path, st.lists(NAMES, min_size=1, max_size=2).map(tuple))
TYPES = make(nodes.TypeName, st.sampled_from(["int", "real", "T"]))
KEYWORDS = make(nodes.TypeName, st.sampled_from(["int", "real", "bool", "str", "num"]))
PLAIN = st.text(alphabet="ab '\"{}\\\n#;é", max_size=6)
LITERALS = st.one_of(
    make(nodes.Integer, st.integers(0, 10**20)),
    make(nodes.Real, st.floats(0, allow_nan=False, allow_infinity=False)),
    make(nodes.Boolean, st.booleans()),
    make(nodes.NamedConstant, st.sampled_from(["inf", "pi"])),
    make(nodes.Property, IDENTIFIERS, st.sampled_from(["shape", "rank"])),
    make(nodes.Unary, st.just("?"), IDENTIFIERS),
    IDENTIFIERS,
)
SIGNS = st.sampled_from(["+", "-", "!"])
BINARY = st.sampled_from(get_args(nodes.BinaryOperator))
FOLDS = st.sampled_from(get_args(nodes.FoldOperator))
CUMULATIVE = st.sampled_from(["+", "*", "min", "max", "&&", "||"])


def compound(part: S[nodes.Node]) -> S[nodes.Node]:
    """Expressions with the given parts."""
    maybe = st.none() | part
    expand = make(nodes.Expand, part, maybe)
    subscript = make(
        nodes.Subscript,
        part,
        some(part | expand | make(nodes.Range, maybe, maybe, maybe), 1),
        st.booleans(),
    ) | make(nodes.Subscript, part, st.just(()))
    attributes = some(make(nodes.AttributeAssignment, IDENTIFIERS, part))
    arguments = some(part | make(nodes.Omitted))
    return st.one_of(
        make(nodes.Unary, SIGNS, part),
        make(nodes.Unary, st.just("?"), part),
        make(nodes.Binary, BINARY, part, part),
        make(nodes.Fold, FOLDS, part),
        make(nodes.Fold, CUMULATIVE, part, st.just(True)),
        make(nodes.Select, part, part, maybe),
        make(nodes.Coalesce, part, part),
        make(nodes.Substitute, subscript, part),
        subscript,
        make(nodes.Guard, part),
        make(nodes.Guard, part, part, part),
        make(nodes.Cast, KEYWORDS, maybe),
        make(nodes.Builtin, IDENTIFIERS, part),
        make(nodes.Call, PATHS, some(TYPES), attributes, arguments),
        make(
            nodes.ListExpression,
            some(
                part
                | expand
                | make(nodes.Range, part, part, maybe)
                | make(nodes.Zip, st.tuples(part, part), maybe)
            ),
        ),
    )


PLAIN_TEXT = make(nodes.Text, PLAIN.map(lambda text: (text,) if text else ()))
INNER = st.recursive(LITERALS | PLAIN_TEXT, compound, max_leaves=5)
TEXT = make(nodes.Text, st.lists(PLAIN | INNER, max_size=3).map(joined))
EXPRESSIONS = st.recursive(LITERALS | TEXT, compound, max_leaves=12)


UNBRACED = str.maketrans({"{": "(", "}": ")"})


def for_tools(value: object, nested: bool = False) -> Any:
    """A tree in which all is replaced that the tools dialect has no words for."""
    match value:
        case tuple():
            return tuple(for_tools(item, nested) for item in value)
        case nodes.Identifier("is"):
            return nodes.Identifier("it", span=HERE)
        case nodes.Builtin(_, argument):
            function = nodes.Identifier("exp", span=HERE)
            return nodes.Builtin(function, for_tools(argument, nested), span=HERE)
        case nodes.Path(parts):
            return nodes.Path(tuple("it" if part == "is" else part for part in parts), span=HERE)
        case nodes.Import():
            return nodes.Import(nodes.Path(("a",), span=HERE), span=HERE)
        case nodes.Unary("?", operand) if not isinstance(operand, nodes.Identifier):
            return nodes.Unary("?", nodes.Identifier("a", span=HERE), span=HERE)
        case nodes.Loop(carried=(), scans=(), unroll=True):
            return for_tools(replace(value, unroll=False), nested)
        case nodes.Text(parts):
            return nodes.Text(tuple(part_for_tools(part, nested) for part in parts), span=HERE)
        case nodes.Node():
            names: tuple[str, ...] = value.__match_args__
            fields = {name: for_tools(getattr(value, name), nested) for name in names}
            return replace(value, **fields)
    return value


def part_for_tools(part: object, nested: bool) -> object:
    """A part of a string: no braces, no backslash at the end, and no quotes inside of braces."""
    if not isinstance(part, str):
        return for_tools(part, nested=True)
    part = part.translate(UNBRACED) + ("." if part.endswith("\\") else "")
    return re.sub("[\"']", "`", part) if nested else part


IN_DIALECTS = pytest.mark.parametrize("dialect", ["draft", "tools"])


def in_words_of(dialect: str, tree: Any) -> Any:
    return for_tools(tree) if dialect == "tools" else tree


@pytest.mark.sampled(2)
@IN_DIALECTS
@settings(max_examples=300, deadline=None)
@given(expression=EXPRESSIONS)
def test_a_printed_expression_parses_to_itself(dialect: str, expression: nodes.Expression) -> None:
    expression = in_words_of(dialect, expression)
    assert parse_expression(print_expression(expression, dialect), dialect=dialect) == expression


MAYBE = st.none() | INNER
PACKS = st.none() | make(nodes.Pack, MAYBE)
EXTENTS = make(nodes.Extent, INNER | make(nodes.Omitted), MAYBE, PACKS, st.booleans())
SHAPES = st.none() | some(EXTENTS)
SPECS = make(nodes.TypeSpec, TYPES, st.booleans(), st.none() | IDENTIFIERS, SHAPES, PACKS)
BOUNDS = some(make(nodes.LoopBound, IDENTIFIERS, INNER))
PARAMETERS = make(nodes.Parameter, IDENTIFIERS, SPECS, MAYBE)
CONSTANTS = make(nodes.Parameter, IDENTIFIERS, SPECS, INNER, BOUNDS)
NAME_TARGETS = make(nodes.NameTarget, IDENTIFIERS, st.none(), st.none(), PACKS) | make(
    nodes.NameTarget, IDENTIFIERS, TYPES, SHAPES, PACKS
)
ZIP_TARGETS = make(
    nodes.ZipTarget,
    some(make(nodes.NameTarget, IDENTIFIERS), 1),
    PACKS,
)
TARGETS = st.one_of(
    NAME_TARGETS,
    ZIP_TARGETS,
    make(nodes.Omitted),
    make(nodes.ListTarget, some(NAME_TARGETS | ZIP_TARGETS | make(nodes.Omitted))),
)
DETAILS = make(nodes.Detail, st.none() | TEXT, INNER)
ASSERTIONS = make(nodes.Assertion, INNER) | make(nodes.Assertion, INNER, TEXT, some(DETAILS))
ITERATIONS = make(nodes.IterationCount, IDENTIFIERS, MAYBE) | make(
    nodes.IterationCount, st.none(), INNER
)
INDICES = some(INNER | make(nodes.Expand, INNER, MAYBE), 1)
LOWERINGS = make(
    nodes.Lowering,
    make(nodes.Subscript, make(nodes.Subscript, IDENTIFIERS, INDICES), INDICES, st.booleans()),
    st.sampled_from(get_args(nodes.LoweringOperator)),
    INNER,
    BOUNDS,
    MAYBE,
    some(make(nodes.LocalValue, IDENTIFIERS, INNER)),
    st.none() | ITERATIONS,
)
LABELLED = make(nodes.Call, PATHS, some(TYPES), st.just(()), some(INNER), st.none() | IDENTIFIERS)


def components(body: S[nodes.Node]) -> S[nodes.Node]:
    """Components whose bodies are given."""
    arms = some(make(nodes.BranchArm, body, body), 1)
    carried = some(
        make(nodes.Carried, IDENTIFIERS, INNER)
        | make(nodes.Carried, IDENTIFIERS, INNER, TYPES, SHAPES)
    )
    scans = some(make(nodes.Scan, IDENTIFIERS, INNER))
    pre, post, endless = (st.just(value) for value in (False, True, False))
    loops = [
        make(nodes.Loop, body, carried, scans, condition, test, st.booleans(), iteration)
        for condition, test in ((body, pre), (body, post), (st.none(), endless))
        for iteration in (st.none(), ITERATIONS)
    ]
    value = st.one_of(body, make(nodes.Branch, arms, body), *loops)
    return make(nodes.Component, some(TARGETS, 1), value)


def scopes(body: S[nodes.Node]) -> S[nodes.Node]:
    """Blocks whose components have the given bodies."""
    return make(nodes.Scope, some(components(body)), some(INNER, 1), st.none() | IDENTIFIERS)


BODIES = st.recursive(INNER | LABELLED, scopes, max_leaves=3)
QUANTIZATIONS = make(
    nodes.Quantization,
    PATHS,
    make(
        nodes.Call,
        PATHS,
        some(TYPES),
        some(make(nodes.AttributeAssignment, IDENTIFIERS, INNER)),
        st.none(),
    ),
)
STATEMENTS: dict[str, S[nodes.Node]] = {
    "dtype": make(nodes.DtypeDefinition, IDENTIFIERS, KEYWORDS, st.none() | TYPES),
    "input": PARAMETERS,
    "constant": CONSTANTS,
    "using": make(nodes.Using, TARGETS, INNER),
    "assert": ASSERTIONS,
    "lower": LOWERINGS,
    "compose": components(BODIES),
    "quantize": QUANTIZATIONS,
}
BLOCKS = st.one_of(
    *(make(nodes.Block, st.just(kind), some(items)) for kind, items in STATEMENTS.items())
)
MODULES = make(
    nodes.Module,
    some(make(nodes.Import, PATHS)),
    some(
        make(
            nodes.Definition,
            st.sampled_from(["operator", "graph"]),
            IDENTIFIERS,
            some(BLOCKS),
            st.booleans(),
        )
    ),
)


def with_modifiers(value: Any, source: random.Random) -> Any:
    """A tree with words and bounds that only the tools dialect has, here and there."""
    if isinstance(value, tuple):
        return tuple(with_modifiers(item, source) for item in value)
    if not isinstance(value, nodes.Node):
        return value
    names: tuple[str, ...] = value.__match_args__
    fields = {name: with_modifiers(getattr(value, name), source) for name in names}
    match value:
        case nodes.TypeSpec():
            fields["dynamic"] = source.random() < 0.5
        case nodes.Extent():
            fields["static"] = source.random() < 0.5
        case nodes.Pack(length) if length is not None:
            fields[source.choice(["static", "dynamic"])] = source.random() < 0.5
            fields["bound"] = source.choice([None, length])
    return replace(value, **fields)


@pytest.mark.sampled(2)
@IN_DIALECTS
@settings(max_examples=100, deadline=None)
@given(module=MODULES, source=st.randoms(use_true_random=False))
def test_a_printed_module_parses_to_itself_and_prints_the_same(
    dialect: str, module: nodes.Module, source: random.Random
) -> None:
    if dialect == "tools":
        module = with_modifiers(for_tools(module), source)
    printed = print_module(module, dialect)
    parsed = parse(printed, dialect=dialect)
    assert parsed == module
    assert print_module(parsed, dialect) == printed


STATIC_AND_DYNAMIC = """operator f {
    @attrib {
        a: optional dynamic int..(dynamic n);
    }
    @input {
        x: real[b, static c, static s..(static d)]..(static n);
    }
}
"""


def test_the_draft_has_no_words_for_static_and_dynamic() -> None:
    module = parse(STATIC_AND_DYNAMIC, dialect="tools")
    assert print_module(module, "tools") == STATIC_AND_DYNAMIC
    assert print_module(module) == re.sub("(static|dynamic) ", "", STATIC_AND_DYNAMIC)


@pytest.mark.parametrize(
    ("text", "draft"),
    [
        (r"'a\nb'", r'"a\\nb"'),
        (r"'say \"x\"'", r"""'say \\"x\\"'"""),
        (r"""'it' "'s" '"'""", r'''"it's\""'''),
    ],
)
def test_a_text_of_the_tools_means_the_same_in_the_draft(text: str, draft: str) -> None:
    node = parse_expression(text, dialect="tools")
    assert print_expression(node) == draft
    assert parse_expression(draft) == node
    assert parse_expression(print_expression(node, "tools"), dialect="tools") == node


INEXPRESSIBLE = {
    "import a.b;": ["import 'a.b'"],
    "operator is { @using { as = b + static; c = x.is; } }": ["'is'", "'as'", "'static'", "'is'"],
    "operator f { @using { a = `step`(x); } }": ["'step'"],
    "operator f { @using { a = ?b[0]; c = ?d; } }": ["test more than a name for null"],
    "operator f { @using { a = exp(x); } }": ["invoke 'exp'"],
    "operator exp { @compose { y = `exp`(x); } }": ["the built-in 'exp'"],
    "operator f { @compose { y = unroll..(n) g(); } }": ["begin a loop"],
    "operator f { @compose { y = unroll..(n) g() while c; } }": ["begin a loop"],
    r"operator f { @using { a = '\{'; } }": ["hold this {"],
    r"operator f { @using { a = 'b\\'; } }": ["hold this \\"],
    r"""operator f { @using { a = '{b + "c\'"}'; } }""": ["hold this '"],
}
"""Texts of the draft, and what in them the tools dialect has no words for."""


@pytest.mark.parametrize("text", INEXPRESSIBLE)
def test_what_the_tools_dialect_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(NnefError) as caught:
        print_module(parse(text), "tools")
    diagnostics = caught.value.diagnostics
    assert len(diagnostics) == len(INEXPRESSIBLE[text])
    for diagnostic, part in zip(diagnostics, INEXPRESSIBLE[text], strict=True):
        assert part in diagnostic.message
        assert diagnostic.span


@pytest.mark.parametrize(
    "text",
    [
        "operator exp { @compose { y = exp(x); z = l: exp(x); } }",
        "operator exp { @compose { y = if exp(x) then exp(y) else exp(z); } }",
        "operator f { @compose { y = g(`exp`(x)); z = `exp`(w); } }",
        "operator f { @compose { y = while c do g(x); z = for x : xs unroll g(x); } }",
    ],
)
def test_what_looks_alike_reads_back_as_what_it_was(text: str) -> None:
    module = parse(text)
    assert parse(print_module(module, "tools"), dialect="tools") == module


def test_the_draft_refuses_the_bound_of_a_length() -> None:
    module = parse("graph g { @input { x: real[2]..(n|4); } }", dialect="tools")
    with pytest.raises(NnefError, match="no bounds for the length of a pack"):
        print_module(module)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((a)+(b*c))", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("(a**b)**c", "a ** b ** c"),
        ("-(a**b)", "-a ** b"),
        ("a ? (b ? c) : d", "a ? (b ? c) : d"),
        ("a ? (b ? c : d) : (e ? f : g)", "a ? b ? c : d : e ? f : g"),
        ("(a < b) > (c == d)", "(a < b) > (c == d)"),
        ("[a < b, (c) > (d == e)]", "[a < b, (c) > (d == e)]"),
        ("[1 ..(n), x..]", "[1 ..(n), x..]"),
        ("x[(i),]", "x[i,]"),
        (r"'say \"{x}\"'", r'"say \"{x}\""'),
        ("a[ : :-1]", "a[::-1]"),
        ("| | i | |", "| |i| |"),
    ],
)
def test_parentheses_and_blanks_are_the_fewest(text: str, printed: str) -> None:
    assert print_expression(parse_expression(text)) == printed


def test_a_negative_number_of_a_converter_keeps_its_value() -> None:
    power = nodes.Binary("**", nodes.Integer(-2, span=HERE), nodes.Real(-0.5, span=HERE), span=HERE)
    assert print_expression(power) == "(-2) ** (-0.5)"


def test_long_statements_are_broken_at_their_outer_commas() -> None:
    bounds = ", ".join(f"index{number} < extent{number}" for number in range(8))
    indices = ",".join(f"index{number}" for number in range(8))
    lines = print_module(
        parse(f"operator f {{ @lower {{ y[{indices}] = x[{indices}], {bounds}; }} }}")
    ).splitlines()
    assert max(map(len, lines)) <= 100
    assert all(line.count("[") == line.count("]") for line in lines)
    assert [line.strip()[-1] for line in lines[2:-2]] == ["=", ",", ",", ";"]


DEEPEST = {
    "list": ("[", "x", "]", 1),
    "call": ("f(", "x", ")", 2),
    "sign": ("-", "x", "", 1),
    "select": ("a ? b : ", "x", "", 1),
    "index": ("x[", "i", "]", 1),
    "sum": ("", "x", " + x", 1),
    "guard": ("x[|", "i", "|,]", 2),
}


@pytest.mark.parametrize("name", DEEPEST)
def test_the_deepest_tree_can_be_printed_and_compared(name: str) -> None:
    opening, core, closing, levels = DEEPEST[name]
    count = (MAXIMUM_DEPTH - 3) // levels
    expression = parse_expression(opening * count + core + closing * count)
    again = parse_expression(print_expression(expression))
    assert again == expression
    assert hash(again) == hash(expression)


def test_a_text_that_looks_like_a_scope_stays_whole() -> None:
    extents = "[0, 1000000000000][0 + 1000000000000] <- 0, a < 0, a < 0"
    written = f'a: int = {extents}, a < [1000, 2000, 3000, 4000][0] ? "text \\{{\n"'
    module = parse(f"operator a {{ @constant {{ {written}; }} }}")
    assert parse(print_module(module)) == module
