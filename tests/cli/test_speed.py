"""The commands about speed: ``build --verbose``, ``tune`` and ``bench``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tvm_nnef.cli import bench as bench_command
from tvm_nnef.cli import main
from tvm_nnef.cli import tune as tune_command

MODEL = """
import linalg;

graph G {
    @input {
        x: real[8,16];
    }
    @output {
        y: real[8,8];
    }
    @constant {
        w: real[16,8] = 0.5;
    }
    @compose {
        y = linalg.matmul(x, w);
    }
}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = tmp_path / "model.sknd"
    file.write_text(MODEL)
    return str(file)


def build(model: str, folder: Path, *options: str) -> int:
    return main(["build", model, "-o", str(folder / "model.so"), *options])


def test_verbose_build_reports_the_kernels(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(model, tmp_path, "--verbose") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:3] == ["kernel", "strategy", "calls"]
    assert any("matmul" in line and "cpu." in line for line in printed)
    assert printed[-1].startswith("wrote ")


def test_the_report_as_json_is_all_that_is_printed(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(model, tmp_path, "--json", "--threads", "1") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["threads"] == 1
    assert sum(kernel["flop"] for kernel in found["kernels"]) >= 2 * 8 * 16 * 8
    assert found["seconds"] > 0


def test_a_folder_that_is_no_database_is_an_error(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(model, tmp_path, "--database", str(tmp_path / "none")) == 1
    assert "is not a tuning database" in capsys.readouterr().err
    assert not (tmp_path / "model.so").exists()


@pytest.mark.slow
def test_tune_and_build_with_what_it_found(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "db")
    assert main(["tune", model, "--trials", "2", "--database", database]) == 0
    assert "2 trials: " in capsys.readouterr().out
    assert main(["tune", model, "--trials", "2", "--database", database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trials"] == 2
    assert build(model, tmp_path, "--database", database) == 0


def test_an_interruption_says_where_things_are(
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_command, "tune", interrupted)
    assert main(["tune", model, "--trials", "2", "--database", str(tmp_path / "db")]) == 130
    assert f"what was found is in {tmp_path / 'db'}" in capsys.readouterr().err


def test_bench_prints_times_by_number_of_threads(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", model, "--seconds", "0.05", "--threads", "1"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split("\t") == ["threads", "tvm-nnef min ms", "tvm-nnef median ms"]
    threads, shortest, median = line.split("\t")
    assert threads == "1"
    assert 0 < float(shortest) <= float(median)


def test_bench_of_an_onnx_file_runs_beside_onnxruntime(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    file = str(tmp_path / "model.onnx")
    assert main(["convert", model, file]) == 0
    capsys.readouterr()
    assert main(["bench", file, "--seconds", "0.05", "--threads", "1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["threads"] == 1
    assert all(found[name]["minimum"] > 0 for name in ("tvm-nnef", "onnxruntime"))


FUSED = """
import math;

graph G {
    @input { x: real[8]; }
    @output { y: real[8]; }
    @compose { a = math.add(x, 1.0); y = math.exp(a); }
}
"""


@pytest.mark.usefixtures("wrong_fusion")
def test_bench_checks_the_program_that_it_times(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(model).write_text(FUSED)
    arguments = ["bench", model, "--seconds", "0.05", "--threads", "1"]
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert "reference and tvm-nnef give different values of 'y'" in shown.err
    assert shown.out == ""
    assert main([*arguments, "--no-check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["checked"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("wrong_fusion")
def test_bench_checks_by_onnxruntime(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    Path(model).write_text(FUSED)
    file = str(tmp_path / "model.onnx")
    assert main(["convert", model, file]) == 0
    for command in (["bench", file], ["bench", model, "--against", file]):
        assert main([*command, "--seconds", "0.05", "--threads", "1"]) == 1
        assert "onnxruntime and tvm-nnef give different values of 'y'" in capsys.readouterr().err
    assert main(["compare", file]) == 1
    assert "outputs of the built program: " in capsys.readouterr().err


THRESHOLD = """
import math;

graph G {
    @input { x: real[4096]; }
    @output { y: real[4096]; }
    @compose { a = math.mul(x, 0.7); b = math.add(a, 0.3); y = math.floor(b); }
}
"""


def test_bench_accepts_what_rounding_at_a_threshold_explains(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected values that are one step off, and operations that are all right."""
    check = bench_command.check_by_reference

    def off_by_one(*arguments: Any) -> Any:
        right = check(*arguments)
        expected = {tensor: array + 1 for tensor, array in right.expected.items()}
        return dataclasses.replace(right, expected=expected)

    monkeypatch.setattr(bench_command, "check_by_reference", off_by_one)
    Path(model).write_text(THRESHOLD)
    assert main(["bench", model, "--seconds", "0.05", "--threads", "1"]) == 0


@pytest.fixture
def never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*arguments: object, **options: object) -> None:
        raise AssertionError("nothing is built")

    monkeypatch.setattr(bench_command, "build", unreachable)


OTHERS = {
    "another shape": ("p: real[8,17];", "y = math.neg(p);", "real", "[8, 17], but the model's is"),
    "another type": ("p: int[8,16];", "y = math.neg(p);", "int", "but the model's is float32"),
    "more inputs": ("p: real[8]; q: real[8];", "y = math.add(p, q);", "real", "takes 2 inputs"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_bench_against_another_model_is_refused_before_the_build(
    name: str,
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    never_built: None,
) -> None:
    pytest.importorskip("onnxruntime")
    inputs, compose, kind, words = OTHERS[name]
    other, target = tmp_path / "other.sknd", str(tmp_path / "other.onnx")
    other.write_text(
        f"import math; graph G {{ @input {{ {inputs} }} @output {{ y: {kind}; }} "
        f"@compose {{ {compose} }} }}"
    )
    assert main(["convert", str(other), target]) == 0
    assert main(["bench", model, "--against", target]) == 1
    shown = capsys.readouterr().err
    assert words in shown
    assert f"'{target}'" in shown
    assert "converted from" in shown


def test_bench_against_a_file_that_is_not_there(
    model: str, capsys: pytest.CaptureFixture[str], never_built: None
) -> None:
    assert main(["bench", model, "--against", "none.onnx"]) == 1
    assert capsys.readouterr().err.startswith("none.onnx: error: no such file")


def test_bench_against_a_model_with_the_same_inputs_that_computes_something_else(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    other = tmp_path / "other.sknd"
    other.write_text(MODEL.replace("= 0.5", "= 0.25"))
    target = str(tmp_path / "other.onnx")
    assert main(["convert", str(other), target]) == 0
    assert main(["bench", model, "--against", target, "--seconds", "0.05"]) == 1
    assert "give different values of 'y'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["tune", "m", "--trials", "0", "--database", "d"],
        ["tune", "m", "--trials", "1", "--database", "d", "--threads", "0"],
        ["build", "m", "-o", "m.so", "--threads", "-1"],
        ["run", "m", "--threads", "1.5"],
        ["bench", "m", "--threads", "none"],
    ],
)
def test_wrong_numbers_are_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
