"""The table of operations: its text, what it leaves out, and how it fits a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import tvm_nnef
from tvm_nnef.cli import main, show
from tvm_nnef.display.table import table

DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits"

BLOCKS = """
import math, nn;
public operator block {
    @input { x: real[n, c, h, w]; }
    @output { y: real[n, c, h, w]; }
    @variable { k: real[c, c, 3, 3]; }
    @compose { a = nn.conv{padding=1}(x, k); r = nn.relu(a); y = math.add(r, x); }
}
graph Net {
    @input { image: real[1, 8, 16, 16]; stop: bool[]; }
    @output { y: real[1, 8, 16, 16]; }
    @compose {
        one = b1: block(image);
        two = b2: block(one);
        last = if stop then two else { t = nn.relu(two); yield t; };
        y = nn.relu{alpha=0.5}(last);
    }
}
"""


def shown(text: str, *, width: int | None = None, full: bool = False, **options: Any) -> str:
    model = tvm_nnef.load_model(text)
    return table(tvm_nnef.compose(model, **options), model.program, width=width, full=full)


def test_golden_tables(golden: Callable[[str, str], None]) -> None:
    golden("digits", shown(str(DIGITS)))
    golden("digits-full", shown(str(DIGITS), full=True))
    golden("blocks", shown(BLOCKS))


@pytest.mark.parametrize("width", [80, 100])
def test_lines_fit_the_terminal(width: int) -> None:
    for text in (str(DIGITS), BLOCKS):
        _, _, *lines = shown(text, width=width).splitlines()
        assert max(map(len, lines)) <= width
        plain = shown(text).splitlines()[2:]
        for line, whole in zip(lines, plain, strict=True):
            assert line.split()[-1:] == whole.split()[-1:] or line.endswith("…"), (
                "numbers are whole"
            )


def test_no_column_of_a_terminal_vanishes() -> None:
    lines = shown(BLOCKS, width=20).splitlines()
    assert [line.split()[1] for line in lines[3:5]] == ["main.block", "nn.conv{p…"]


ATTRIBUTES = """
import layout, math, nn;
operator scaled {
    @attrib { by: real = -1.5; mode: str = 'up'; axes: int.. = []; again: int..(2) = 1; }
    @input { x: real[n]; }
    @output { y: real[n]; }
    @lower { y[i] = x[i] * by, i < n; }
}
graph G {
    @input { x: real[6]; }
    @output { y: real[6]; z: real[2, 2]; }
    @compose {
        a = scaled{by=-1.5, mode='up', axes=[], again=1}(x);
        b = scaled{by=2.0, mode='down', axes=[1, 1], again=2}(a);
        y = scaled(b);
        z = layout.uniform{shape=[2, 2]}(0.0);
    }
}
"""


def test_attributes_with_their_default_are_left_out() -> None:
    operators = [line.split("  ")[2:3] for line in shown(ATTRIBUTES).splitlines()[3:7]]
    rows = shown(ATTRIBUTES).splitlines()[3:7]
    assert "scaled  " in rows[0] and "{" not in rows[0], operators
    assert "scaled{by=2.0, mode='down', axes=[1, 1], again=2} " in rows[1]
    assert "{" not in rows[2]
    assert "shape=[2, 2]" in rows[3]
    full = shown(ATTRIBUTES, full=True).splitlines()[3:7]
    for row in (full[0], full[2]):
        assert "main.scaled{by=-1.5, mode='up', axes=[], again=[1, 1]}" in row
    assert all(row.startswith("main.G.") for row in full)


def test_dynamic_counts_are_formulas_or_bounds() -> None:
    text = (
        "import nn;\ngraph G { @input { x: real[n|16,8]; w: real[4,8]; } @output { y: real[~,4]; } "
        "@compose { y = nn.linear(x, w); } }\n"
    )
    lines = shown(text).splitlines()
    assert lines[0].endswith(", n <= 16")
    assert lines[3].split()[-3:] in (["n", "*", "32"], ["32", "*", "n"])
    assert "peak memory    896 bytes" in lines[-1]


def test_a_count_that_depends_on_data_is_a_question_mark() -> None:
    text = (
        "import nn;\ngraph G { @input { x: real[2,8]; w: real[8,8]; n: int[]; } "
        "@output { y: real[2,8]; } @compose { y = with a = x do..(n) nn.linear(a, w); } }\n"
    )
    lines = shown(text).splitlines()
    assert lines[3].split()[-1] == "?" and "multiply-adds  ?" in lines


def test_notebooks_show_the_table() -> None:
    root = ElementTree.fromstring(tvm_nnef.compose(BLOCKS)._repr_html_())
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    assert rows[1] == ["one", "main.block", "float32[1, 8, 16, 16]", "576", "147,456"]
    assert rows[2][0].strip() == "a" and rows[2][0] != "a"
    assert rows[-1] == ["total", "", "", "1,152", "294,912"]


def test_the_terminal_has_its_width_and_a_pipe_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["show", str(DIGITS)]) == 0
    assert "size=2, stride=2" in capsys.readouterr().out
    monkeypatch.setattr(show.sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["show", str(DIGITS)]) == 0
    assert "…" in capsys.readouterr().out


def test_the_document_shows_what_is_printed() -> None:
    text = (DIGITS.parents[1] / "show.md").read_text(encoding="utf-8")
    listed = text.partition("```text\n")[2].partition("```")[0].splitlines()
    printed = shown(str(DIGITS)).splitlines()
    assert len(listed) > 8
    assert [line for line in listed if line not in (*printed, "...")] == []
