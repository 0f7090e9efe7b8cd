"""The decoder of the gallery that writes text: its page, and its program in C++."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "gallery" / "text-generation.md"
EXAMPLE = DOCS / "examples" / "writer"


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.M)
    return list(found)


def test_the_page_shows_the_files() -> None:
    assert blocks("sknd") == [(EXAMPLE / "writer.sknd").read_text("utf-8")]
    assert blocks("cpp")[0] in (EXAMPLE / "write.cpp").read_text("utf-8")
    loop = next(each for each in blocks("python") if "def written" in each)
    assert loop in (EXAMPLE / "write.py").read_text("utf-8")


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest) -> Any:
    """The program in Python."""
    imported: Callable[[Path], Any] = request.getfixturevalue("imported")
    return imported(EXAMPLE / "write.py")


@pytest.mark.slow
def test_the_model_has_learned_its_text(program: Any) -> None:
    """Its loss on a text of Python's help() is far below that of equal probabilities."""
    model = tvm_nnef.load_model(EXAMPLE / "writer.tgz")
    executable = tvm_nnef.build(model, progress=False)
    text = "The statement is executed. If the expression is true, the value is returned."
    codes = [program.CHARACTERS.index(each) for each in text]
    losses = []
    for code, following in itertools.pairwise(codes):
        (scores,) = executable(np.array([code], np.int32))
        logits = scores[0].astype(float)
        losses.append(
            np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[following]
        )
    assert np.mean(losses) < 1.5 < np.log(len(program.CHARACTERS)) / 3


def test_a_temperature_of_0_is_greedy(program: Any) -> None:
    random = np.random.default_rng(0)
    scores = np.log([0.1, 0.6, 0.3])
    assert program.sampled(scores, 0, random) == 1
    drawn = [program.sampled(scores, 1.0, random) for _ in range(2000)]
    shares = np.bincount(drawn, minlength=3) / len(drawn)
    np.testing.assert_allclose(shares, [0.1, 0.6, 0.3], atol=0.05)


@pytest.mark.slow
def test_the_program_in_cpp_writes_what_that_in_python_does(program: Any, tmp_path: Path) -> None:
    if shutil.which("c++") is None or sys.platform != "linux":
        pytest.skip("needs c++, on Linux")
    executable = tvm_nnef.build(EXAMPLE / "writer.tgz", progress=False)
    executable.export(tmp_path / "writer.so")
    *commands, _ = blocks("sh")[-1].splitlines()
    shutil.copyfile(EXAMPLE / "write.cpp", tmp_path / "write.cpp")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(
        ["sh", "-ec", "\n".join(commands)], cwd=tmp_path, env={**os.environ, "PATH": path},
        check=True,
    )  # fmt: skip
    command = [str(tmp_path / "write"), "./writer.so", "The ", "0", "30", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    text = "The " + "".join(program.written(executable, "The ", 30)) + "\n"
    assert done.stdout == 2 * text
