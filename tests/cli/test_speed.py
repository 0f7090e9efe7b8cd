"""The commands about speed: ``build --verbose``, ``tune`` and ``bench``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


def test_verbose_build_tells_of_the_kernels(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(model, tmp_path, "--verbose") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:3] == ["kernel", "rule", "calls"]
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
    assert "no tuning database" in capsys.readouterr().err
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
