"""What is read whole is a regular file: a pipe would block, and a device may have no end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.converters.antares import main as antares
from tvm_nnef.converters.tile.text import reading as tile

DIGITS = str(Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits")
RUN = ["run", DIGITS, "--route", "reference"]

COMMANDS = {
    "format": lambda file: ["format", file],
    "labels": lambda file: [*RUN, "--labels", file],
    "profile": lambda file: ["show", DIGITS, "--html", "x.html", "--profile", file],
}
CALLS: dict[str, Callable[[str], Any]] = {
    "tensor": tvm_nnef.read_tensor,
    "image": lambda file: tvm_nnef.load_image(file, DIGITS),
    "Tile": lambda file: tile.read_text(Path(file)),
    "Antares": lambda file: antares.convert(Path(file)),
}


@pytest.fixture(params=["pipe", "device"])
def endless(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A file whose content does not end; the process is ended if it is read."""
    monkeypatch.chdir(tmp_path)
    if request.param == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no named pipes")
        os.mkfifo("pipe")
    elif not Path("/dev/zero").exists():
        pytest.skip("needs /dev/zero")
    signal.alarm(60)
    yield "pipe" if request.param == "pipe" else "/dev/zero"
    signal.alarm(0)


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_does_not_read_it(
    case: str, endless: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(COMMANDS[case](endless)) == 1
    shown = capsys.readouterr().err
    assert f"{endless}: error: " in shown
    assert "it is not a regular file\n  hint: " in shown
    assert not Path("x.html").exists()


@pytest.mark.parametrize("case", CALLS)
def test_a_call_does_not_read_it(case: str, endless: str) -> None:
    with pytest.raises(tvm_nnef.NnefError, match="it is not a regular file"):
        CALLS[case](endless)


def test_labels_have_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = tmp_path / "labels"
    with labels.open("wb") as stream:
        stream.truncate(1 << 40)
    assert main([*RUN, "--labels", str(labels)]) == 1
    assert "they have more than 16777216 bytes" in capsys.readouterr().err
