"""``tvm-nnef compare`` as a user meets it: a table, the place of a difference, exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_nnef.cli import main
from tvm_nnef.comparison import ROUTES

TEXT = """import math;

graph G {
    @input { x: real[3]; p: int[2]..(2); }
    @output { y: real[3]; q: int[2]; }
    @compose {
        a = math.exp(x);
        y = math.sqrt(a);
        q = math.add(p[0], p[1]);
    }
}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "main.sknd").write_text(TEXT)
    return str(tmp_path)


@pytest.fixture
def broken_sqrt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the formula route add 1 to square roots."""
    make = ROUTES["formula"]

    def broken(setting: Any) -> Any:
        run = make(setting)

        def runner(graph: Any, inputs: Any) -> Any:
            wrong = graph.operations[0].operator == "math.sqrt"
            return {t: a + 1 if wrong else a for t, a in run(graph, inputs).items()}

        return runner

    monkeypatch.setitem(ROUTES, "formula", broken)


def test_where_routes_agree(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", model, "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "mapped and reference agree in all 3 tensors" in shown.out
    lines = [line.split() for line in shown.out.splitlines()]
    for row in (["✓", "a", "math.exp", "float32", "[3]", "7"], ["✓", "q", "math.add", "int32"]):
        assert any(line[: len(row)] == row for line in lines)
    assert shown.err == ""


@pytest.mark.usefixtures("broken_sqrt")
def test_where_they_differ(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", model, "--routes", "reference", "formula"]) == 1
    shown = capsys.readouterr()
    assert "main.sknd:8:13: error: in 'y' (math.sqrt): reference and formula give" in shown.err
    assert "8 |         y = math.sqrt(a);" in shown.err
    assert "compare each with 'mapped' to find which is right" in shown.err
    assert "reference and formula differ: tensor 2 of 3" in shown.out
    assert "✗" in shown.out
    assert "math.add" not in shown.out


@pytest.mark.usefixtures("broken_sqrt")
def test_json_for_programs(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", model, "--routes", "mapped", "formula", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert not data["agrees"]
    assert (data["rows"][-1]["operator"], data["rows"][-1]["line"]) == ("math.sqrt", 8)
    assert data["rows"][-1]["largest_difference"] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.usefixtures("broken_sqrt")
def test_tolerances_are_taken(model: str) -> None:
    assert main(["compare", model, "--routes", "mapped", "formula", "--atol", "1.5"]) == 0


def test_inputs_are_read_or_random_by_a_seed(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([0, 0, np.nan], "float32"))
    np.save(tmp_path / "p.npy", np.array([1, 2], "int32"))
    files = [str(tmp_path / f"{name}.npy") for name in ("x", "p", "p")]
    arguments = ["compare", model, "--json", "--routes", "formula", "reference"]
    assert main([*arguments, *(f"--input={file}" for file in files)]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["nans"] == [1, 1]
    assert main([*arguments, *(f"--input={file}" for file in files[:2])]) == 0
    assert capsys.readouterr().err == "note: random values for p:2\n"
    assert main([*arguments, *(f"--input={file}" for file in (*files, files[0]))]) == 1
    assert "3 inputs (x, p:1, p:2), got 4 files" in capsys.readouterr().err


@pytest.mark.usefixtures("wrong_fusion")
def test_a_wrong_kernel_of_the_built_program_is_a_difference(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(model, "main.sknd").write_text(TEXT.replace("math.exp(x)", "math.add(x, 1.0)"))
    assert main(["compare", model]) == 1
    shown = capsys.readouterr()
    assert "outputs of the built program: " in shown.err
    assert "but not mapped as a whole" in shown.out


def test_wrong_usage_is_status_2(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--routes", "mapped"], ["--routes", "mapped", "numpy"], ["--rtol", "x"]):
        with pytest.raises(SystemExit) as caught:
            main(["compare", model, *arguments])
        assert caught.value.code == 2
        assert "usage" in capsys.readouterr().err
