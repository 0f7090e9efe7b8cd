"""A module of the model that has the name of a standard one: it replaces it, or is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

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
