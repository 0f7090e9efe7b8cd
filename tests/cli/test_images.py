"""Images and classes as the command line describes them, instead of ``model.json``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main

images = pytest.importorskip("PIL.Image")

MODEL = """
graph G {
    @input { x: real[1, 3, 3, 3]; }
    @output { y: real[1, 3, 3, 3]; }
    @compose { y = x; }
}
"""
METADATA = '{"labels": ["a", "b", "c"], "inputs": {"x": {"layout": "NHWC", "mean": 1, "scale": 2}}}'
PIXELS = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model of an image and one of which nothing is known."""
    monkeypatch.chdir(tmp_path)
    images.fromarray(PIXELS).save("x.png")
    for name in ("described", "plain"):
        Path(name).mkdir()
        Path(name, "main.sknd").write_text(MODEL)
    Path("described/model.json").write_text(METADATA)
    Path("labels.txt").write_text("cat\nmouse dog\nfish\n\n")
    Path("empty.txt").write_text("\n")
    np.save("x.npy", np.zeros((1, 3, 3, 3), np.float32))
    return tmp_path


def run(model: str, *options: str) -> list[str]:
    return ["run", model, "--route", "reference", *options]


GIVEN = {
    "nothing": ("described", [], 2.0 * (PIXELS - 1.0)),
    "a mean": ("described", ["--image-mean", "3"], 2.0 * (PIXELS - 3.0)),
    "scales": ("described", ["--image-scale", "1,0.5,2"], (PIXELS - 1.0) * (1, 0.5, 2)),
    "a layout": ("described", ["--layout", "NCHW"], 2.0 * (PIXELS.transpose(2, 0, 1) - 1.0)),
    "all of an unknown image": (
        "plain",
        ["--layout", "NHWC", "--image-mean", "1,2,3", "--image-scale", "0.5"],
        0.5 * (PIXELS - np.array((1.0, 2.0, 3.0))),
    ),
}


@pytest.mark.parametrize("case", GIVEN)
def test_options_take_the_place_of_the_description(case: str) -> None:
    model, options, expected = GIVEN[case]
    assert main(run(model, "-i", "x.png", "-o", "y.npy", *options)) == 0
    np.testing.assert_allclose(np.load("y.npy")[0], expected, rtol=1e-6)


def test_a_library_takes_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    tvm_nnef.build("plain", progress=False).export("m.so")
    options = ["--layout", "NHWC", "--image-mean", "3", "-o", "y.npy"]
    assert main(["run", "m.so", "-i", "x.png", *options]) == 0
    np.testing.assert_array_equal(np.load("y.npy")[0], PIXELS - 3.0)
    capsys.readouterr()
    assert main(["run", "m.so", "--labels", "labels.txt"]) == 0
    assert "mouse dog" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["described", "plain"])
def test_labels_are_the_lines_of_a_text(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(run(model, "-i", "x.npy", "--labels", "labels.txt", "--top", "3")) == 0
    rows = capsys.readouterr().out.splitlines()[2:5]
    assert sorted(row.rpartition(" ")[0].strip() for row in rows) == ["cat", "fish", "mouse dog"]


WRONG = {
    "no layout": (run("plain", "-i", "x.png", "--image-mean", "1"), "'--layout NCHW'"),
    "no image": (run("described", "--image-mean", "1"), "no image is given"),
    "no image to compare": (["compare", "plain", "--layout", "NHWC"], "no image is given"),
    "another rank": (run("plain", "-i", "x.png", "--layout", "HWC"), "with --layout"),
    "not described": (run("plain", "-i", "x.png"), "'--layout NCHW', or in model.json"),
    "four channels": (
        run("described", "-i", "x.png", "--image-mean", "1,2,3,4"),
        "the mean or the scale is of 4 channels",
    ),
    "absent labels": (run("plain", "--labels", "absent.txt"), "the labels cannot be read"),
    "no labels": (run("plain", "--labels", "empty.txt"), "there are no labels"),
    "an image as labels": (run("plain", "--labels", "x.png"), "the labels cannot be read"),
    "other labels": (
        run("plain", "-i", "x.npy", "--labels", "two.txt"),
        "no output has as many classes as there are labels: 2",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_an_error(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.txt").write_text("a\nb\n")
    arguments, words = WRONG[case]
    assert main(arguments) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("mean", ["1,2", "a", "nan", "1,2,3,4,5", ""])
def test_a_mean_is_a_number_for_each_channel(mean: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(run("described", "-i", "x.png", f"--image-mean={mean}"))
