"""The examples of the page in the documentation run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_nnef.cli import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "antares.md").read_text("utf-8")


def test_the_first_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    np.testing.assert_allclose(names["y"], names["x"] @ names["w"], rtol=1e-5)


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"```\w*\n(# layer.*?)```", PAGE, re.DOTALL)
    Path("layer.antares").write_text(text)
    commands = re.findall(r"^    tvm-nnef (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert main(command.split()) == 0
