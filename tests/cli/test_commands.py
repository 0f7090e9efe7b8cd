"""The command line as a user meets it: output, exit status, and no traceback."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tvm_nnef.cli import main
from tvm_nnef.storage.tensor_file import write_tensor

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
DIGITS = str(EXAMPLES / "digits")

SCALED = """
import math;

graph Scaled {
    @attrib {
        n: int = 3;
    }
    @input {
        x: real[n];
    }
    @output {
        y: real[n];
    }
    @variable {
        w: real[n];
    }
    @compose {
        y = math.mul(x, w);
    }
}
"""


@pytest.fixture
def scaled(tmp_path: Path) -> Path:
    folder = tmp_path / "scaled"
    folder.mkdir()
    (folder / "main.sknd").write_text(SCALED)
    (folder / "main.Scaled.w.dat").write_bytes(write_tensor(np.array([1, 2, 3], np.float32)))
    return folder


def test_check_of_a_good_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", DIGITS]) == 0
    assert "no errors" in capsys.readouterr().out


def test_check_does_not_import_tvm() -> None:
    code = (
        "import sys; from tvm_nnef.cli import main; main(['check', sys.argv[1]]); "
        "sys.exit('tvm' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, DIGITS], check=True, stdout=subprocess.DEVNULL)


def test_digits_are_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", DIGITS, "--input", f"{DIGITS}/digit-7.png", "--top", "2"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "probabilities: float32 [1, 10]"
    assert printed[1].split()[0] == "7"
    assert float(printed[1].split()[1].rstrip("%")) > 90
    assert len(printed) == 3


@pytest.mark.parametrize("route", ["mapped", "formula", "reference"])
def test_run_reads_and_writes_arrays(
    scaled: Path, tmp_path: Path, route: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([1, 10, 100], np.float32))
    files = ["--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npy")]
    assert main(["run", str(scaled), "--route", route, *files]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.float32([1, 20, 300]))
    assert capsys.readouterr().out == f"wrote {tmp_path / 'y.npy'}\n"


def test_run_without_inputs_takes_random_ones(
    scaled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", str(scaled), "--route", "reference"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert first.startswith("y: float32 [3]")
    assert main(arguments) == 0
    assert capsys.readouterr().out == first
    assert main([*arguments, "--seed", "1"]) == 0
    assert capsys.readouterr().out != first


def test_show_prints_the_graph(scaled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ([], ["--full"], ["--bodies"], ["--dot", "-"]):
        assert main(["show", str(scaled), *option]) == 0
        assert "math.mul" in capsys.readouterr().out
    assert main(["show", str(scaled), "--json"]) == 0
    assert "math.mul" in json.dumps(json.loads(capsys.readouterr().out))


def test_show_draws_the_graph(scaled: Path, tmp_path: Path) -> None:
    file = tmp_path / "graph.svg"
    assert main(["show", str(scaled), "--svg", str(file)]) == 0
    texts = [element.text for element in ElementTree.parse(file).iter() if element.text]
    for words in ("x", "math.mul", "y", "float32[3]"):
        assert words in texts


def test_attributes_and_shapes_reach_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", DIGITS, "--attr", "batch=5"]) == 0
    assert "5, 1, 8, 8" in capsys.readouterr().out


def test_ops_lists_and_describes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    listed = capsys.readouterr().out
    assert "nn.conv" in listed
    assert "layout.concat" in listed
    assert main(["ops", "linalg.outer"]) == 0
    described = capsys.readouterr().out
    assert "operator outer" in described
    assert "@lower" in described
    assert main(["ops", "nn.cnov"]) == 1
    assert "did you mean 'nn.conv'?" in capsys.readouterr().err


def test_build_writes_a_library_that_loads(scaled: Path, tmp_path: Path) -> None:
    import tvm_nnef

    library = tmp_path / "scaled.so"
    assert main(["build", str(scaled), "-o", str(library)]) == 0
    (y,) = tvm_nnef.load(str(library))(np.ones(3, np.float32))
    np.testing.assert_array_equal(y, np.float32([1, 2, 3]))


def replaced(old: str, new: str) -> str:
    assert old in SCALED
    return SCALED.replace(old, new)


MISTAKES = {
    "syntax": (replaced("y = math.mul(x, w);", "y = math.mul(x, w;"), 18, "w;", "expected"),
    "name": (replaced("math.mul(x, w)", "math.mull(x, w)"), 18, "math.mull", "did you mean"),
    "type": (replaced("math.mul(x, w)", "math.and(x, w)"), 18, "math.and", "bool"),
    "assert": (
        replaced("math.mul(x, w)", "math.sum_reduce{axes=[4]}(x)"),
        18,
        "math.sum_reduce",
        "axes",
    ),
    "shape": (replaced("w: real[n]", "w: real[1]"), 15, "w: real", "[3]"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_shown_with_their_place(
    scaled: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, line, excerpt, words = MISTAKES[name]
    (scaled / "main.sknd").write_text(text)
    for command in (["check"], ["run", "--route", "reference"]):
        assert main([command[0], str(scaled), *command[1:]]) == 1
        shown = capsys.readouterr().err
        assert f"main.sknd:{line}:" in shown
        assert excerpt in shown
        assert "^" in shown
        assert words in shown
        assert "Traceback" not in shown


def test_a_failed_assert_shows_the_chain_of_invocations(
    scaled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCALED.replace("math.mul(x, w)", "outer(x)") + (
        "operator outer { @input { x: real[n]; } @output { y: real[n]; }\n"
        "@compose { y = inner{a=-1}(x); } }\n"
        "operator inner { @attrib { a: int; } @input { x: real[n]; } @output { y: real[n]; }\n"
        '@assert { a > 0: "a must be positive", a; } @compose { y = x; } }\n'
    )
    (scaled / "main.sknd").write_text(text)
    assert main(["check", str(scaled)]) == 1
    shown = capsys.readouterr().err
    assert "a must be positive; a = -1" in shown
    assert "asserted by 'main.inner'" in shown
    assert "in this invocation of 'main.outer'" in shown


def test_missing_and_damaged_variables(scaled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = scaled / "main.Scaled.w.dat"
    whole = file.read_bytes()
    file.write_bytes(whole[:-2])
    assert main(["run", str(scaled)]) == 1
    assert "cut off" in capsys.readouterr().err
    file.unlink()
    assert main(["run", str(scaled)]) == 1
    shown = capsys.readouterr().err
    assert "main.sknd:15:" in shown
    assert "main.Scaled.w.dat" in shown


def test_an_archive_that_points_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("main.sknd", "../evil.dat"):
            member = tarfile.TarInfo(name)
            member.size = len(SCALED)
            archive.addfile(member, io.BytesIO(SCALED.encode()))
    assert main(["check", str(path)]) == 1
    shown = capsys.readouterr().err
    assert "../evil.dat" in shown
    assert "hint" in shown
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.tgz"]


def test_inputs_that_do_not_fit(
    scaled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY nonsense")
    cases = {
        "x.npy": "'x'",
        "broken.npy": "not a readable .npy file",
        "absent.npy": "no such file",
    }
    for file, words in cases.items():
        for route in ("mapped", "reference"):
            arguments = ["run", str(scaled), "--route", route, "-i", str(tmp_path / file)]
            assert main([*arguments, "-o", str(tmp_path / "y.npy")]) == 1
            assert words in capsys.readouterr().err
            assert not (tmp_path / "y.npy").exists()
    assert main(["run", DIGITS, "-i", f"{DIGITS}/model.json"]) == 1
    assert "image" in capsys.readouterr().err


def test_a_missing_model_names_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.tgz").write_bytes(b"")
    assert main(["check", str(tmp_path / "modle.tgz")]) == 1
    assert "model.tgz" in capsys.readouterr().err
