"""A module of the model that has the name of a standard one: it replaces it, or is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.comparison.ranges import widths_of_ranges
from tvm_nnef.display.counts import multiply_adds

X = np.array([1, 2, 3], np.float32)
MAIN = """{head}import {imports};
graph G {{ @input {{ x: real[3]; }} @output {{ y: real[~]; }} @compose {{ {compose} }} }}
"""
ADD = """operator add { @input { x: real[n]; y: real[n]; } @output { z: real[n]; }
    @lower { z[i,] = x[i,] - y[i,] + 42.0, i < n; } }
"""
STACK = """operator stack { @attrib { axis: int; } @input { xs: real[n]..(k); }
    @output { y: real[n]; }
    @lower { y[i,] = xs[0][i,] * 2.0, i < n; } }
"""
NONZERO = """operator nonzero { @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] + 1.0, i < n; } }
"""
RELU = """import layout;
operator relu { @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = -x[i..], i < s; } }
"""


SOFTMAX = """operator softmax { @attrib { axes: int.. = [0]; } @input { x: real[s..]; }
    @output { y: real[s..]; } @lower { y[i..] = x[i..] * 1e6, i < s; } }
operator l2_norm { @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = x[i..] * 1e6, i < s; } }
operator avg_pool { @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = x[i..] * 1e6, i < s; } }
operator deconv { @input { x: real[n]; w: real[m]; } @output { y: real[n]; }
    @lower { y[i,] += x[i,] * w[j,], i < n, j < m; } }
operator relu { @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = -x[i..], i < s; } }
"""
SLICE = """operator slice { @attrib { end: int; } @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] + real(end), i < n; } }
"""


def written(folder: Path, imports: str, compose: str, head: str, **modules: str) -> Path:
    text = MAIN.format(head=head, imports=imports, compose=compose)
    for name, content in {"main": text, **modules}.items():
        (folder / f"{name}.sknd").write_text(content, encoding="utf-8")
    return folder


CASES: list[tuple[str, str, dict[str, str], Any]] = [
    ("math", "y = math.add(x, x);", {"math": ADD}, [42, 42, 42]),
    ("math, nn", "t = math.add(x, x); y = nn.relu(t);", {"math": ADD}, [42, 42, 42]),
    ("nn, math", "t = nn.relu(x); y = math.add(t, x);", {"nn": RELU}, [0, 0, 0]),
    ("layout", "y = layout.stack{axis=0}([x, x]);", {"layout": STACK}, [2, 4, 6]),
    ("layout", "y = layout.nonzero(x);", {"layout": NONZERO}, [2, 3, 4]),
]


@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize(("imports", "compose", "modules", "expected"), CASES)
def test_in_the_tools_dialect_it_replaces(
    tmp_path: Path, imports: str, compose: str, modules: dict[str, str], expected: Any, route: Any
) -> None:
    model = written(tmp_path, imports, compose, "# dialect: tools\n", **modules)
    assert tvm_nnef.check(model) == []
    (found,) = (
        tvm_nnef.evaluate(model, X)
        if route == "reference"
        else tvm_nnef.build(model, route=route, progress=False)(X)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["softmax", "l2_norm", "avg_pool"])
def test_a_replacement_has_its_own_range(tmp_path: Path, name: str) -> None:
    """By that of the standard operator, `compare` would take results apart for equal."""
    head, text = "# dialect: tools\n", f"t = math.sin(x); y = nn.{name}(t);"
    graph = tvm_nnef.compose(written(tmp_path, "math, nn", text, head, nn=SOFTMAX))
    (output,) = (port.operand for port in graph.outputs)
    assert widths_of_ranges(graph).get(output) is None  # type: ignore[call-overload]


def test_the_work_of_a_replacement(tmp_path: Path) -> None:
    head, text = "# dialect: tools\n", "w = math.neg(x); y = nn.deconv(x, w);"
    graph = tvm_nnef.compose(written(tmp_path, "math, nn", text, head, nn=SOFTMAX))
    assert [multiply_adds(node) for node in graph.operations] == [0, 9]


def test_a_replacement_declares_what_is_dynamic(tmp_path: Path) -> None:
    """The end of the standard slice is dynamic, and that of another one is not."""
    head, text = "# dialect: tools\n", "y = layout.slice{end=x.shape[0]}(x);"
    (found,) = tvm_nnef.check(written(tmp_path, "layout", text, head, layout=SLICE))
    assert "attribute 'end' of 'slice' must be known" in found.message


def test_a_folder_that_is_called_as_the_library_is_in_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "<stdlib>").mkdir()
    written(tmp_path / "<stdlib>", "nn", "y = nn.relu(x);", "# dialect: tools\n", nn=SOFTMAX)
    monkeypatch.chdir(tmp_path)
    for found in (tvm_nnef.evaluate("<stdlib>", X), tvm_nnef.build("<stdlib>", progress=False)(X)):
        np.testing.assert_array_equal(found[0], -X)


def test_an_operator_that_the_replacement_lacks(tmp_path: Path) -> None:
    head = "# dialect: tools\n"
    model = written(tmp_path, "math", "y = math.neg(x);", head, math=ADD)
    (found,) = tvm_nnef.check(model)
    assert "'neg'" in found.message


@pytest.mark.parametrize("name", ["algo", "image", "layout", "linalg", "math", "nn", "quant"])
@pytest.mark.parametrize("dialect", ["draft", "auto"])
def test_in_the_draft_it_is_an_error(tmp_path: Path, name: str, dialect: str) -> None:
    model = written(tmp_path, name, f"y = {name}.add(x, x);", "", **{name: ADD})
    (found,) = tvm_nnef.check(model, dialect=dialect)
    assert (found.line, found.column) == (1, 8)
    assert f"module '{name}' of the model" in found.message
    assert "has the name of a standard module" in found.message
    assert found.hint is not None
    assert f"import ops.{name};" in found.hint


def test_a_module_of_the_same_name_in_a_subfolder(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "math.sknd").write_text(ADD, encoding="utf-8")
    text = "s = math.add(x, x); y = ops.math.add(s, x);"
    model = written(tmp_path, "math, ops.math", text, "")
    (found,) = tvm_nnef.evaluate(model, X, dialect="draft")
    np.testing.assert_array_equal(found, X + 42)
