"""Two models side by side: operations added, gone and changed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.display.difference import Side, difference

OLD = """
import math, nn;
graph Net {
    @input { x: real[1, 2, 8, 8]; }
    @output { y: real[1, 2, 8, 8]; }
    @variable { k: real[2, 2, 3, 3]; }
    @compose {
        a = nn.conv{padding=1}(x, k);
        b = nn.relu(a);
        c = math.tanh(b);
        y = math.add(c, x);
    }
}
"""
NEW = """
import math, nn;
graph Net {
    @input { x: real[1, 2, 8, 8]; }
    @output { y: real[1, 2, 6, 6]; }
    @variable { k: real[2, 2, 3, 3]; }
    @compose {
        a = nn.conv{padding=0}(x, k);
        d = math.abs(a);
        b = nn.relu(d);
        y = math.neg(b);
    }
}
"""


def side(text: str, k: float) -> Side:
    variables = {"main.Net.k": np.full((2, 2, 3, 3), k, np.float32)}
    model = tvm_nnef.load_model(text, variables=variables)
    return Side(tvm_nnef.compose(model), model.variables)


def test_operations_are_added_gone_and_changed() -> None:
    found = difference(side(OLD, 1), side(NEW, 1.5))
    assert [(each.kind, each.name) for each in found.changes] == [
        ("changed", "a"),
        ("added", "d"),
        ("changed", "b"),
        ("gone", "c"),
        ("changed", "y"),
    ]
    a, _, b, _, y = (each.details for each in found.changes)
    assert "padding=[1, 1, 1, 1] → [0, 0, 0, 0]" in a
    assert "float32[1, 2, 8, 8] → float32[1, 2, 6, 6]" in a
    assert "k: values differ by up to 0.5" in a and "reads a → d" in b
    assert "operator math.add → math.neg" in y
    assert found.ports == ("~ output y: float32[1, 2, 8, 8] → float32[1, 2, 6, 6]",)
    assert found.same == 0


def test_a_model_does_not_differ_from_itself_under_other_names() -> None:
    renamed = re.sub(r"\b([abc])\b(?!\{)", r"t_\1", OLD).replace("Net", "Other")
    found = difference(side(OLD, 1), Side(tvm_nnef.compose(renamed), {}))
    assert (found.changes, found.ports, found.same) == ((), (), 4)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    paths = []
    for name, text, value in (("old", OLD, 1.0), ("new", NEW, 1.5)):
        model = tvm_nnef.load_model(
            text, variables={"main.Net.k": np.full((2, 2, 3, 3), value, np.float32)}
        )
        tvm_nnef.save_model(model, tmp_path / name)
        paths.append(str(tmp_path / name))
    return paths[0], paths[1]


def test_the_command_prints_a_difference(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--diff", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("~ a  nn.conv  padding=") and lines[2].split() == [
        *("+", "d", "math.abs")
    ]
    assert lines[-1] == "0 operations unchanged"
    assert main(["show", "--diff", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["change"] for each in found["operations"]][-2:] == ["gone", "changed"]
    assert main(["show", "--diff", *files, "--svg", "-"]) == 1
    assert "hint: use --html" in capsys.readouterr().err


def test_the_page_has_the_difference(files: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert main(["show", "--diff", *files, "--html", str(file)]) == 0
    found = re.search(r'id="data">(.*?)</script>', file.read_text(), re.DOTALL)
    assert found
    data: Any = json.loads(found[1])
    kinds = {node["label"]: node.get("change", {}).get("change") for node in data["graph"]}
    assert kinds == {"a": "changed", "d": "added", "b": "changed", "y": "changed"}
    assert [each["name"] for each in data["difference"]["operations"] if each["change"] == "gone"]
