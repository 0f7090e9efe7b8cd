"""Where names lead, and how they are described."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_nnef.language_server.files import files_of
from tvm_nnef.language_server.modules import Modules, modules_of
from tvm_nnef.language_server.names import declaration_at, description

Cursor = Callable[[str], tuple[Modules, int]]

MODEL = """\
import nn, layout;
# Twice x.
operator double {{
    @dtype {{ T: num; }}
    @attrib {{ by: int = 2; }}
    @input {{ x: T[n, m..]; }}
    @output {{ y: T[n, m..]; }}
    @lower {{
        k = by, y[i, j..] = x[i, j..] * T(k), i < n, j < m;
        y[i, j..] += `exp`(x[i, j..]), i < n, j < m;
    }}
}}
graph G {{
    @attrib {{ batch: int = 1; }}
    @input {{ a: real[batch, 3]; }}
    @output {{ b: real[batch, 3]; }}
    @compose {{ {body} }}
}}
"""


@pytest.mark.parametrize(
    ("marked", "file", "line", "name"),
    [
        ("b = nn.re$lu(a);", "<stdlib>/nn.sknd", None, "relu"),
        ("b = nn.relu$(a);", "<stdlib>/nn.sknd", None, "relu"),
        ("b = $nn.relu(a);", "<stdlib>/nn.sknd", 1, ""),
        ("b = nn.conv{pad$ding=1}(a);", "<stdlib>/nn.sknd", None, "padding"),
        ("b = dou$ble(a);", "main.sknd", 3, "double"),
        ("b = double{b$y=3}(a);", "main.sknd", 5, "by"),
        ("c = nn.relu(a); b = nn.relu($c);", "main.sknd", 17, "c"),
        ("b = nn.relu($a);", "main.sknd", 15, "a"),
        ("b = double{by=bat$ch}(a);", "main.sknd", 14, "batch"),
        ("b = if a then { d = a; yield $d; } else a;", "main.sknd", 17, "d"),
        # While a statement is typed:
        ("c = nn.re$lu(; b = a;", "<stdlib>/nn.sknd", None, "relu"),
        ("c = nn.relu{($a; b = a;", "main.sknd", 15, None),
        ("b = nn.none$(a);", None, None, None),
        ("b = none.relu$(a);", None, None, None),
        ("b =$ 2;", None, None, None),
    ],
)
def test_a_name_in_a_graph_leads_to_its_declaration(
    marked: str, file: str | None, line: int | None, name: str | None, at_cursor: Cursor
) -> None:
    modules, offset = at_cursor(MODEL.format(body=marked))
    found = declaration_at(modules, offset)
    if file is None or name is None:
        assert found is None or file is not None
        return
    assert found is not None
    assert found.span.source.path.endswith(file)
    assert found.span.text == name
    if line is not None:
        assert found.span.source.position(found.span.start)[0] == line


@pytest.mark.parametrize(
    ("before", "after", "column"),
    [
        ("y[", "i, j..] = x", 67),  # The index of the first formula, not of the second one.
        ("x[", "i, j..] * T", 67),
        ("i, j..] * ", "T(k)", 15),
        ("T(", "k)", 9),
        ("= ", "by, y", 15),
    ],
)
def test_a_name_in_a_formula_leads_to_the_formula_s_own(
    before: str, after: str, column: int, at_cursor: Cursor
) -> None:
    text = MODEL.format(body="b = a;")
    modules, offset = at_cursor(text.replace(before + after, f"{before}${after}", 1))
    found = declaration_at(modules, offset)
    assert found is not None
    word = after.split(",")[0].split("(")[0].split(")")[0]
    assert found.span.text == word
    line = found.span.source.line(found.span.source.position(found.span.start)[0])
    assert word in line


def test_an_index_belongs_to_its_own_formula(at_cursor: Cursor) -> None:
    text = MODEL.format(body="b = a;").replace("`exp`(x[i,", "`exp`(x[$i,")
    modules, offset = at_cursor(text)
    found = declaration_at(modules, offset)
    assert found is not None
    assert found.span.source.position(found.span.start)[0] == 10
    assert description(found, {}) == "```sknd\ni < n\n```"


def test_a_module_of_the_model_is_found_with_its_unsaved_text(tmp_path: Path) -> None:
    main, own = tmp_path / "main.sknd", tmp_path / "ops" / "own.sknd"
    own.parent.mkdir()
    own.write_text("operator old { }")
    text = "import ops.own;\ngraph G { @compose { y = ops.own.fresh(x); } }"
    texts = {str(main): text, str(own): "# \U0001f600\noperator fresh { @input { x: real[]; } }"}
    modules = modules_of(files_of(str(main), texts))
    found = declaration_at(modules, text.index("fresh"))
    assert found is not None
    assert (found.span.source.path, found.span.text) == (str(own), "fresh")


def test_the_overlay_of_the_tools_comes_first(at_cursor: Cursor) -> None:
    modules, offset = at_cursor(
        "# dialect: tools\nimport layout;\ngraph G { @compose { y = layout.ten$sor{}(); } }"
    )
    found = declaration_at(modules, offset)
    assert found is not None
    assert found.span.source.path == "<stdlib>/tools/layout.sknd"


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        (
            "b = dou$ble(a);",
            "```sknd\ndouble<T: num>{by: int = 2}(x: T[n, m..]) -> y: T[n, m..]\n```\n\nTwice x.",
        ),
        ("b = double{b$y=3}(a);", "```sknd\nby: int = 2\n```"),
        ("b = double($a);", "```sknd\na: real[batch, 3]\n```"),
        ("$b = double(a);", "```sknd\nb: real[batch, 3]\n```"),
        ("$c = double(a);", "```sknd\nc: real[1, 3]\n```"),
        ("b = $nn.relu(a);", "module `nn`"),
    ],
)
def test_a_description_has_the_signature_and_the_comment(
    marked: str, expected: str, at_cursor: Cursor
) -> None:
    modules, offset = at_cursor(MODEL.format(body=marked))
    found = declaration_at(modules, offset)
    assert found is not None
    assert description(found, {found.span.end: ": real[1, 3]"}) == expected
