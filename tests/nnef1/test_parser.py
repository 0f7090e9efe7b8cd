"""Reading NNEF 1 text: the grammar of appendix A, precedence, and errors with their locations."""

from __future__ import annotations

import pytest

from tvm_nnef.converters.nnef1 import nodes, parser
from tvm_nnef.diagnostics import Diagnostic, NnefError, Source

GRAPH = "graph g(x) -> (y) {{ y = {}; }}"


def tree(expression: str) -> str:
    document = parser.parse(Source("graph.nnef", f"version 1.0; {GRAPH.format(expression)}"))
    return written(document.graph.body[0].value)


def written(node: nodes.Expression) -> str:
    """An expression with all parentheses."""
    match node:
        case nodes.Literal(value=value):
            return repr(value)
        case nodes.Name(name=name):
            return name
        case nodes.Unary(operator=sign, operand=operand):
            return f"({sign}{written(operand)})"
        case nodes.Binary(operator=sign, left=left, right=right):
            return f"({written(left)} {sign} {written(right)})"
        case nodes.Select():
            parts = (node.consequent, node.condition, node.alternative)
            return "({} if {} else {})".format(*map(written, parts))
        case nodes.Subscript(value=value, index=index):
            return f"{written(value)}[{written(index)}]"
        case nodes.Invocation(name=name, generic=generic, arguments=arguments):
            inner = ", ".join(written(each.value) for each in arguments)
            return f"{name.name}{f'<{generic}>' if generic else ''}({inner})"
        case nodes.Builtin(name=name, operand=operand):
            return f"{name}({written(operand)})"
    return type(node).__name__


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c ^ d", "(a + (b * (c ^ d)))"),
        ("a - b - c", "((a - b) - c)"),
        ("a && b < c + d", "(a && (b < (c + d)))"),
        ("a || b && c", "((a || b) && c)"),
        ("a in b && c", "(a in (b && c))"),
        ("-a ^ b", "((-a) ^ b)"),
        ("!a && b", "((!a) && b)"),
        ("a if b else c if d else e", "(a if b else (c if d else e))"),
        ("a == b in c", "((a == b) in c)"),
        ("-a[1]", "(-a[1])"),
        ("copy<integer>(a) < integer(b)", "(copy<integer>(a) < integer(b))"),
        ("a < integer(b)", "(a < integer(b))"),
        ("a < scalar (b)", "(a < scalar(b))"),
        (r"'it\'s \\ \"'", repr("it's \\ \"")),
        ("1.5e-3 + 2E2", "(0.0015 + 200.0)"),
        ("fort + inner", "(fort + inner)"),
    ],
)
def test_precedence_and_literals(text: str, expected: str) -> None:
    assert tree(text) == expected


def test_if_after_in_belongs_to_the_comprehension() -> None:
    document = parser.parse(
        Source("x", f"version 1.0; {GRAPH.format('[for i in a if c yield i if d else e]')}")
    )
    found = document.graph.body[0].value
    assert isinstance(found, nodes.Comprehension)
    assert written(found.condition or found.item) == "c"
    assert written(found.item) == "(i if d else e)"


def test_comments_and_white_space() -> None:
    text = "# first\n version\t1.0 ; \f\v graph # g\r\n g(x) -> (y) { y = relu(x); # last\n}"
    document = parser.parse(Source("graph.nnef", text))
    assert document.version is not None
    assert document.version.text == "1.0"


def faults(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(NnefError) as caught:
        parser.parse(Source("graph.nnef", text))
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("version 1.0; graph g(x) -> (y) { y = relu(x }", 45, "')'"),
        ("version 1.0; graph g(x) -> (y) { y = for; }", 38, "reserved word"),
        ("version 1.0; graph g(x) -> (y) { y = a and b; }", 40, "'&&'"),
        ("version 1.0; graph g(x) -> (y) { y = 'abc; }", 38, "close it"),
        ("version 1.0;", 13, "needs a graph"),
        ("version 1.0; graph g(x) -> (y) { y = 1.; }", 39, ""),
        ("version 1.0; graph g(x) -> (y) { y = 2x; }", 38, "cannot begin with a digit"),
        ("version 1.0; graph g(x) -> (y) { y = 9223372036854775808; }", 38, "1.0e20"),
        ("version 1.0; graph g(x) -> (y) { y = 1.0e999; }", 38, "smaller"),
        ("version 1.0; graph g(x) -> (y) { y = 'é'; }", 38, "remove"),
        ("version 1.0; graph g(x) -> (y) { é = 1; }", 34, "ASCII"),
        ("version 1.0; graph g(x) -> (y) { y = x }", 40, "';'"),
        ("version 1.0; graph graph(x) -> (y) { y = x; }", 20, "reserved word"),
        ("graph g(x) -> (y) { y = x; } version 1.0;", 30, "order"),
    ],
)
def test_syntax_errors_have_locations_and_hints(text: str, column: int, hint: str) -> None:
    (found, *_) = faults(text)
    assert (found.line, found.column) == (1, column)
    assert hint in (found.hint or "")


def test_errors_of_several_statements_are_reported_at_once() -> None:
    text = "version 1.0;\ngraph g(x) -> (y) {\n a = (1;\n b = 2;\n c = 1 2;\n d = ];\n}"
    assert [each.line for each in faults(text)] == [3, 5, 6]


@pytest.mark.slow
def test_deep_nesting_is_an_error() -> None:
    expression = "(" * 5000 + "x" + ")" * 5000
    deep = "-" * 5000 + "x"
    assert tree(expression) == "x"
    (found,) = faults(f"version 1.0; {GRAPH.format(deep)}")
    assert "levels deep" in found.message


def test_lines_of_a_quantization_file() -> None:
    text = "\"a\": linear_quantize(min = -2.0, max = 2.5, bits = 8);\n'b': f(x = [1]);"
    lines = parser.parse_quantization(Source("graph.quant", text))
    assert [each.tensor for each in lines] == ["a", "b"]
    assert lines[0].quantizer.name.name == "linear_quantize"
