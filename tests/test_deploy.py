"""Programs in C++ and C run exported models with TVM's runtime alone, as the document says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation import weights

DOCS = Path(__file__).resolve().parents[1] / "docs"
DOCUMENT = DOCS / "deploy.md"
EXAMPLE = DOCS / "examples" / "deploy"
DIGITS = DOCS / "examples" / "digits"


def test_the_document_shows_the_program() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    program = (EXAMPLE / "digits.cpp").read_text(encoding="utf-8")
    assert f"```cpp\n{program}```\n" in text


def images() -> np.ndarray:
    """The digits of the example, as the model wants them."""
    kind, width, height, most, *pixels = (EXAMPLE / "digits.pgm").read_text().split()
    assert (kind, width, height, most) == ("P2", "8", "80", "255")
    return np.array(list(map(float, pixels)), "float32").reshape(10, 1, 1, 8, 8) / np.float32(255)


WITHOUT_COMPILER = """
import sys
import numpy as np
import tvm_nnef

executable = tvm_nnef.load(sys.argv[1])
print(executable.profile(np.zeros((1, 1, 8, 8), np.float32)).total > 0, "tvm.ir" in sys.modules)
np.save(sys.argv[2], executable(np.ones((1, 1, 8, 8), np.float32))[0])
"""


@pytest.mark.slow
def test_a_library_runs_without_the_compiler(tmp_path: Path) -> None:
    (found,) = importlib.util.find_spec("tvm").submodule_search_locations  # type: ignore[union-attr]
    (tmp_path / "tvm" / "lib").mkdir(parents=True)
    for file in Path(found).glob("*.py"):
        shutil.copy(file, tmp_path / "tvm")
    shutil.copy(Path(found) / "lib" / "libtvm_runtime.so", tmp_path / "tvm" / "lib")
    executable = tvm_nnef.build(DIGITS, progress=False)
    executable.export(tmp_path / "digits.so")
    command = [sys.executable, "-c", WITHOUT_COMPILER, "digits.so", "y.npy"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"], done.stderr
    expected = executable(np.ones((1, 1, 8, 8), np.float32))[0]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_the_digits_are_those_of_the_model() -> None:
    image = pytest.importorskip("PIL.Image")
    for number, pixels in enumerate(images()):
        with image.open(DIGITS / f"digit-{number}.png") as file:
            np.testing.assert_allclose(pixels[0, 0] * 255, np.asarray(file), atol=1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, once with a parameter file and once without, and an image."""
    made = tmp_path_factory.mktemp("deploy")
    tvm_nnef.build(DIGITS, progress=False).export(made / "digits.so")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "LARGE_WEIGHTS", 1000)
        tvm_nnef.build(DIGITS, progress=False).export(made / "large.so")
    (made / "nine.pgm").write_text("P2\n9 9\n255\n" + "0 " * 81)
    return made


@pytest.fixture(scope="module", params=["c++", "cc"])
def program(request: pytest.FixtureRequest, folder: Path) -> Path:
    """The program in one language, compiled by the commands of the document."""
    compiler = str(request.param)
    if shutil.which(compiler) is None or sys.platform != "linux":
        pytest.skip(f"needs {compiler}, on Linux")
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    variables = next(block for block in blocks if block.startswith("TVM="))
    (command,) = re.findall(
        rf"^{re.escape(compiler)} (?:.*\\\n)*.*$", "".join(blocks), re.MULTILINE
    )
    script = "\n".join([*variables.splitlines()[:2], command])
    space = folder / compiler
    shutil.copytree(EXAMPLE, space)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(["sh", "-ec", script], cwd=space, env={**os.environ, "PATH": path}, check=True)
    return space / "digits"


def printed(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_the_program_prints_the_classes_that_python_finds(program: Path, folder: Path) -> None:
    model = tvm_nnef.load(folder / "digits.so")
    labels = model.metadata["labels"]
    expected = [labels[int(model(image)[0].argmax())] for image in images()]
    assert expected == list("0123456789")
    models = ["digits.so", "large.so"] if program.parent.name == "c++" else ["digits.so"]
    for name in models:
        found = printed([str(program), str(folder / name), str(EXAMPLE / "digits.pgm")])
        assert found.split() == expected


DYNAMIC = """
import layout; import math;
graph Brightness {
    @input { image: real[1, 1, h|16, w|16]; }
    @output { scores: real[1, 2]; }
    @compose {
        sum = math.sum_reduce{axes=[2, 3]}(image);
        light = layout.flatten{axis=1}(sum);
        dark = math.sub(4.0, light);
        scores = layout.concat{axis=1}([dark, light]);
    }
}
"""


@pytest.mark.slow
def test_the_program_gives_dynamic_dimensions_a_size(program: Path, tmp_path: Path) -> None:
    (tmp_path / "main.sknd").write_text(DYNAMIC)
    described = {
        "labels": ["dark", "light"],
        "inputs": {"image": {"layout": "NCHW", "scale": 1 / 255}},
    }
    (tmp_path / "model.json").write_text(json.dumps(described))
    model = tvm_nnef.build(tmp_path, progress=False)
    assert model.metadata["bounds"] == {"h": 16, "w": 16}
    model.export(tmp_path / "model.so")
    for size in (3, 8, 16):
        pixels = " ".join(["0"] * size**2 + ["255"] * size**2)
        (tmp_path / "image.pgm").write_text(f"P2\n{size} {2 * size}\n255\n{pixels}\n")
        found = printed([str(program), str(tmp_path / "model.so"), str(tmp_path / "image.pgm")])
        assert found.split() == ["dark", "light"]


def refused(program: Path, *arguments: Path) -> str:
    command = [str(program), *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert not run.stdout
    return run.stderr


@pytest.mark.slow
def test_the_program_reports_what_is_wrong(program: Path, folder: Path) -> None:
    digits = EXAMPLE / "digits.pgm"
    wrong_shape = refused(program, folder / "digits.so", folder / "nine.pgm")
    assert "param=image" in wrong_shape
    assert "(9 vs. 8)" in wrong_shape
    assert "(1, 1, 8, 8)" in wrong_shape
    assert "absent.so" in refused(program, folder / "absent.so", digits)
    assert "not a plain PGM file" in refused(program, folder / "digits.so", folder / "digits.so")
    if program.parent.name == "c++":
        shutil.copyfile(folder / "large.so", folder / "alone.so")
        assert "alone.so.params is missing" in refused(program, folder / "alone.so", digits)
        (folder / "alone.so.params").write_bytes(b"short")
        assert "another size than" in refused(program, folder / "alone.so", digits)
