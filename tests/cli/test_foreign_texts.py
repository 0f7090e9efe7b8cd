"""Every command takes a text in C++ Tile and in Antares IR, by its content."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main

TILE = """// A strided product of windows.
#include <vector>
Tensor scaled(const Tensor& I, float factor) { return I * factor; }
Tensor windows(const Tensor& x, const Tensor& w, size_t stride, const std::vector<float>& f) {
  TensorDim N, K;
  TensorIndex i, k;
  x.bind_dims(N);
  w.bind_dims(K);
  auto y = TensorOutput((N - K) / stride + 1);
  y(i) += x(stride * i + k) * w(k);
  return scaled(y, f[0]);
}
"""
ANTARES = """# The same.
_S = 2
einstein_v2(f"t[N] +=! x[N * {_S} + K] * w[K] where N in 3; y[N] = t[N] * 0.5",
    input_dict={"x": {"dtype": "float32", "shape": [7]}, "w": {"dtype": "float32", "shape": [3]}})
"""
X = np.array([1, 2, 3, 5, 8, 13, 21], np.float32)
W = np.array([1, -1, 2], np.float32)
Y = np.array([(X[n : n + 3] * W).sum() / 2 for n in (0, 2, 4)], np.float32)


@dataclass(frozen=True)
class Text:
    """A text, and the options that complete it."""

    name: str
    text: str
    options: str


TEXTS = (
    Text(
        "windows.txt",
        TILE,
        "--shape x=7 --shape w=3 --argument stride=2 --argument f=[0.5] --function windows",
    ),
    Text("kernel", ANTARES, ""),
)


@pytest.fixture(params=TEXTS, ids=["tile", "antares"])
def given(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The model and its options, in a folder with inputs."""
    monkeypatch.chdir(tmp_path)
    text: Text = request.param
    Path(text.name).write_text(text.text)
    np.savez("in.npz", x=X, w=W)
    return [text.name, *text.options.split()]


def test_check(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *given]) == 0
    assert "no errors" in capsys.readouterr().out


def test_run(given: list[str]) -> None:
    for route in ("mapped", "reference"):
        assert main(["run", *given, "-i", "in.npz", "-o", "y.npy", "--route", route]) == 0
        np.testing.assert_allclose(np.load("y.npy"), Y, rtol=1e-6)


def test_show(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", *given, "--bodies"]) == 0
    assert "+=" in capsys.readouterr().out


def test_build(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", *given, "-o", "model.so", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"]
    np.testing.assert_allclose(tvm_nnef.load("model.so")(X, W)[0], Y, rtol=1e-6)


def test_convert(given: list[str]) -> None:
    model, *options = given
    for target in ("model.nnef2", "model.tgz"):
        assert main(["convert", model, target, *options]) == 0
        np.testing.assert_allclose(tvm_nnef.evaluate(target, X, W)[0], Y, rtol=1e-6)


def test_compare(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    routes = ["--routes", "mapped", "reference"]
    assert main(["compare", *given, "-i", "in.npz", "--json", *routes]) == 0
    assert json.loads(capsys.readouterr().out)["agrees"]


def test_bench(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *given, "--seconds", "0.01", "--threads", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert "tvm-nnef" in row


def test_tune(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def tuned(module: Any, *_: Any, **__: Any) -> Any:
        seen.append(module)
        raise KeyboardInterrupt

    monkeypatch.setattr("tvm_nnef.tuning.session.tune_module", tuned)
    assert main(["tune", *given, "--trials", "1", "--database", "db"]) == 130
    assert "main" in [each.name_hint for each in seen[0].get_global_vars()]


def test_dimensions_of_a_tile_text_may_be_dynamic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("windows.txt").write_text(TILE)
    np.savez("in.npz", x=X, w=W)
    arguments = ["--argument", "stride=2", "--argument", "f=[0.5]"]
    options = ["windows.txt", "--bound", "N=16", "--bound", "K=4", *arguments]
    assert main(["run", *options, "-i", "in.npz", "-o", "y.npy"]) == 0
    np.testing.assert_allclose(np.load("y.npy"), Y, rtol=1e-6)
    assert main(["check", *options, "--dtype", "x=float64", "--dtype", "w=float64"]) == 0
    capsys.readouterr()


MISTAKES = [
    (["--argument", "stride=2.5"], "windows.txt:4:50: error: parameter 'stride' is size_t"),
    (["--argument", "stride=2"], "--argument f=2,1"),
    (["--argument", "strid=2"], "no parameter 'strid'"),
    (["--function", "window"], "did you mean 'windows'?"),
    (["--dtype", "x=flaot32"], "did you mean 'float32'?"),
    (["--dtype", "x"], "expected NAME=VALUE"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_options_that_do_not_fit_are_reported(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("windows.txt").write_text(TILE)
    try:
        assert main(["check", "windows.txt", "--shape", "x=7", "--shape", "w=3", *options]) == 1
    except SystemExit as stopped:
        assert stopped.code == 2
    assert message in capsys.readouterr().err
