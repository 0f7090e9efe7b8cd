"""What commands print besides results: colours, formats of diagnostics, log messages, versions."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.cli.env import VARIABLES
from tvm_nnef.cli.terminal import is_coloured
from tvm_nnef.diagnostics import Diagnostic

DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits"

WRONG = """import nn;
graph M {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @compose { y = nn.rel(x); }
}
"""


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong,1.sknd"
    path.write_text(WRONG)
    return str(path)


def test_json_has_every_diagnostic_with_its_position(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", wrong, "--output-format", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["severity"], found["file"]) == ("error", wrong)
    assert [found[key] for key in ("line", "column", "end_line", "end_column")] == [5, 20, 5, 26]
    assert found["hint"] == "did you mean 'relu'?"


def test_json_of_a_valid_model_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(DIGITS), "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_github_annotations_escape_what_ends_a_part(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", wrong, "--output-format", "github"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("::error file=")
    assert "wrong%2C1.sknd,line=5,col=20,endLine=5,endColumn=26," in line
    assert line.endswith("%0Ahint: did you mean 'relu'?")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "on_terminal", "elsewhere"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_colours_are_for_terminals_unless_variables_say_otherwise(
    environment: dict[str, str],
    on_terminal: bool,
    elsewhere: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (is_coloured(Terminal()), is_coloured(io.StringIO())) == (on_terminal, elsewhere)


@pytest.mark.parametrize("command", ["check", "show"])
def test_errors_are_coloured(
    command: str, wrong: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main([command, wrong]) == 1
    plain = capsys.readouterr().err
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main([command, wrong]) == 1
    coloured = capsys.readouterr().err
    assert "\x1b[1;31merror:\x1b[0m" in coloured
    assert "\x1b" not in plain
    assert plain == "".join(part.partition("m")[2] if i else part for i, part in
                            enumerate(coloured.split("\x1b[")))  # fmt: skip


def test_text_of_a_model_cannot_add_escape_sequences() -> None:
    shown = Diagnostic("a \x1b[31mred\x1b[0m name", hint="none").render(colour=True)
    assert "\x1b[31mred" not in shown


def test_quiet_prints_no_success_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", str(DIGITS), "-o", str(tmp_path / "m.so"), "--quiet"]) == 0
    assert main(["check", str(DIGITS), "-q"]) == 0
    assert main(["show", str(DIGITS), "--svg", str(tmp_path / "m.svg"), "-q"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.slow
def test_log_messages_are_printed_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), "float32"))
    command = ["build", str(DIGITS), "-o", str(tmp_path / "m.so"), "-q"]
    assert main([*command, "-v"]) == 0
    once = capsys.readouterr().err
    assert main([*command, "-vv"]) == 0
    twice = capsys.readouterr().err
    assert "tvm_nnef" in once
    assert "schedule_kernels" not in once
    assert "schedule_kernels" in twice


def test_env_names_versions_the_cpu_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env"]) == 0
    text = capsys.readouterr().out
    assert main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["tvm-nnef"] == tvm_nnef.__version__
    assert found["versions"]["numpy"] == np.__version__
    assert int(found["machine"]["cores"]) >= 1
    assert {"native", "aarch64", "cuda", "wasm32"} <= set(found["targets"])
    for part in found.values():
        for name, value in part.items():
            assert name in text
            assert value in text


def test_the_documented_environment_variables_are_those_that_env_prints() -> None:
    text = (Path(__file__).parents[2] / "docs" / "environment.md").read_text(encoding="utf-8")
    table = text.partition("## Environment variables")[2]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == VARIABLES


@pytest.mark.parametrize(
    ("line", "expected"),
    [("tvm-nnef be", "bench"), ("tvm-nnef check --output-f", "--output-format")],
)
def test_the_shell_completes_commands_and_options(line: str, expected: str) -> None:
    pytest.importorskip("argcomplete")
    variables = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    done = subprocess.run(
        ["bash", "-c", '"$0" -m tvm_nnef 8>&1 9>/dev/null', sys.executable],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert expected in done.stdout.split()
