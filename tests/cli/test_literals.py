"""Values of inputs on the command line without files, and random ones that the model can take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.arguments.random_inputs import random_inputs
from tvm_nnef.cli import main

TEXT = """graph G {
    @input { x: real[2, n]; ids: int[m]; flag: bool[]; rate: int[]; }
    @output { a: real; b: int; c: bool; d: int; }
    @compose { a = x; b = ids; c = flag; d = rate; }
}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("net.sknd").write_text(TEXT)
    np.save("x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save("1", np.array([7, 8, 9], np.int32))
    Path("1.npy").rename("1")
    return "net.sknd"


def outputs(model: str, *inputs: str) -> dict[str, np.ndarray]:
    given = [word for each in inputs for word in ("-i", each)]
    assert main(["run", model, "--route", "reference", *given, "-o", "y.npz"]) == 0
    with np.load("y.npz") as archive:
        return dict(archive)


def test_numbers(model: str) -> None:
    found = outputs(model, "x=1,2,3,4.5", "ids=5,-6", "flag=true", "rate=16000")
    assert found["a"].tolist() == [[1, 2], [3, 4.5]]
    assert found["b"].tolist() == [5, -6]
    assert (found["c"].item(), found["d"].item()) == (True, 16000)


def test_filled_and_random(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = outputs(model, "x=x.npy", "ids=ones", "rate=zeros", "flag=random")
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert set(found["b"].tolist()) == {1} and found["d"].item() == 0
    assert capsys.readouterr().err == "note: random values for flag\n"


def test_what_has_no_value_is_random(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert outputs(model, "x.npy", "rate=3")["d"].item() == 3
    assert "note: random values for ids, flag\n" in capsys.readouterr().err


def test_a_file_of_that_name_is_meant(model: str) -> None:
    assert outputs(model, "ids=1")["b"].tolist() == [7, 8, 9]


@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool", "float64"])
def test_other_numbers_where_reals_are_wanted(model: str, dtype: str) -> None:
    x = np.array([[0, 1, 1], [1, 0, 200]]).astype(dtype)
    np.save("other.npy", x)
    (expected,) = tvm_nnef.build(
        "graph G { @input { x: real[2, n]; } @output { y: real; } @compose { y = x; } }",
        progress=False,
    )(x)
    found = outputs(model, "x=other.npy", "ids=5", "flag=true", "rate=3")["a"]
    assert found.dtype == expected.dtype == np.float32
    assert found.tolist() == expected.tolist() == x.astype(float).tolist()


def test_integers_that_would_be_rounded(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("other.npy", np.full((2, 1), 2**24 + 1))
    assert main(["run", model, "--route", "reference", "-i", "x=other.npy"]) == 1
    shown = capsys.readouterr().err
    assert "float32 does not hold 16777217 of int64" in shown and "hint: round it" in shown


WRONG: list[tuple[str, str]] = [
    ("rate=1.5", "'rate' is int, and 1.5 is not"),
    ("rate=1,2", "of shape () cannot have 2 values"),
    ("x=1,2,3", "cannot have 3 values"),
    ("flag=2", "'flag' is a truth value"),
    ("x=true", "'x' is real, not a truth value"),
    ("rate=99999999999999999999", "'rate' is int, and 99999999999999999999 is not"),
    ("rate=twenty", "no such file"),
    ("raet=3", "no input 'raet'"),
]


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_wrong_values(
    given: str, words: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", model, "--route", "reference", "-i", given]) == 1
    shown = capsys.readouterr().err
    assert words in shown and "hint: " in shown


def test_an_operator_of_the_model_is_not_taken_for_a_standard_one() -> None:
    text = """
    operator gather {
        @attrib { axis: int; }
        @input { x: real[n]; i: int[m]; }
        @output { y: int[m]; }
        @lower { y[j,] = i[j,] + axis, j < m; }
    }
    graph G {
        @input { x: real[50]; i: int[100]; }
        @output { y: int; }
        @compose { y = gather{axis=7}(x, i); }
    }
    """
    _, i = random_inputs(tvm_nnef.compose(text))
    assert set(i.tolist()) == {0, 1}


def test_errors_of_a_run_name_random_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(tmp_path / "net.sknd").write_text("""import layout;
    graph G {
        @input { x: real[4]; i: int[2]; }
        @output { y: real; }
        @compose { y = layout.gather{axis=0}(x, i); }
    }
    """)
    model = str(tmp_path / "net.sknd")
    assert main(["run", model, "--route", "reference", "-i", "i=7,8"]) == 1
    shown = capsys.readouterr().err
    assert "random values were given for x (-i NAME=VALUE gives others)" in shown
    assert main(["run", model, "--route", "reference", "-i", "i=7,8", "-i", "x=1,2,3,4"]) == 1
    assert "random" not in capsys.readouterr().err


def test_random_ints_are_what_the_graph_can_take() -> None:
    text = """import layout, math;
    graph G {
        @input { x: real[50, 3]; i: int[40]; rate: int[]; other: int[100]; }
        @output { a: real; b: bool; c: int; }
        @compose {
            a = layout.gather{axis=0}(x, i);
            b = math.eq(rate, 16000);
            c = other;
        }
    }
    """
    _, i, rate, other = random_inputs(tvm_nnef.compose(text))
    assert i.min() >= 0 and i.max() < 50 and len(set(i.tolist())) > 10
    assert rate.item() == 16000
    assert set(other.tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("height", "size"), [(64, (64, 64)), (8192, (1, 224))], ids=["usual", "huge"]
)
def test_random_inputs_have_sizes_of_the_bounds_unless_these_are_huge(
    height: int, size: tuple[int, int]
) -> None:
    """A bound is a maximum: ``--bound 640`` is not meant for a batch."""
    text = """
    graph G {
        @input { x: real[batch|BOUND, 3, height|BOUND, 32]; }
        @output { y: real; }
        @compose { y = x; }
    }
    """
    (x,) = random_inputs(tvm_nnef.compose(text.replace("BOUND", str(height))))
    assert (x.shape[0], x.shape[2]) == size
