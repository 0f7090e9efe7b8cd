"""Models of SkriptND with tensors of few bits: as a user builds, calls, stores and shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows the dtypes from now on.
import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main

TEXT = """
import math;

graph Net {
    @input { x: real[2, 3]; q: int[4]; }
    @output { y: real[2, 3]; p: int[4]; r: real[2, 3]; }
    @variable { w: real[1, 3]; k: int[4]; last: int[4]; }
    @compose {
        y = math.mul(x, w);
        sum = math.add(q, k);
        p = math.add(sum, last);
        r = math.mul(y, y);
    }
    @update { last = q; }
}
"""
DTYPES = {
    "main.Net.w": "float8_e5m2", "main.Net.k": "int4", "main.Net.last": "int4", "q": "int4",
    "main.Net.p": "int4", "main.Net.r": "float8_e4m3fn",
}  # fmt: skip
WEIGHTS = {"main.Net.w": np.array([[0.25, 1.5, -3]], np.float32),
           "main.Net.k": np.array([7, -8, 3, 1])}  # fmt: skip
X = np.array([[1, 2, 3], [10, 100, 0.1]], np.float32)
Q = np.array([1, -1, 2, 3], "int4")
Y = X * WEIGHTS["main.Net.w"]


def sums(*terms: Any) -> np.ndarray:
    """A sum of int4, which wraps around."""
    return sum(np.asarray(term).astype(np.int32) for term in terms).astype("int4")


def agrees(found: Any, last: Any) -> None:
    """Whether the outputs are those for X and Q, after a call with a value of ``last``."""
    y, p, r = found
    assert (p.dtype, r.dtype) == (np.dtype("int4"), np.dtype("float8_e4m3fn"))
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(p, sums(Q, WEIGHTS["main.Net.k"], last))
    # Of a square beyond 448 there is nothing but NaN.
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(r.astype(float), (Y * Y).astype(r.dtype).astype(float))


@pytest.fixture(scope="module")
def model() -> Any:
    return tvm_nnef.load_model(TEXT, variables={**WEIGHTS, "main.Net.last": np.ones(4, np.int32)})


@pytest.fixture(scope="module", params=["mapped", "formula"])
def executable(request: Any, model: Any) -> Any:
    return tvm_nnef.build(model, dtypes=DTYPES, route=request.param, progress=False)


def test_the_evaluator_rounds_what_is_stored(model: Any) -> None:
    graph = tvm_nnef.compose(model, dtypes=DTYPES)
    agrees(tvm_nnef.evaluate(graph, X, Q, variables=model.variables), 1)


def test_a_built_model_takes_and_gives_arrays_of_ml_dtypes(executable: Any, tmp_path: Path) -> None:
    executable.reset()
    agrees(executable(X, Q), 1)
    agrees(executable(X, q=Q.astype(np.int64)), Q)
    assert executable.state["main.Net.last"].dtype == "int4"
    executable.state["main.Net.last"] = np.array([0, 0, -8, 7])
    out = [
        np.empty((2, 3), np.float32),
        np.zeros(8, "int4")[::2],
        np.zeros((2, 3), "float8_e4m3fn"),
    ]
    agrees(executable(X, Q, out=out), [0, 0, -8, 7])
    agrees(out, [0, 0, -8, 7])
    executable.export(tmp_path / "net.so")
    loaded = tvm_nnef.load(tmp_path / "net.so")
    assert [str(port) for port in loaded.outputs] == [str(port) for port in executable.outputs]
    np.save(tmp_path / "q.npy", Q)
    agrees(loaded(X, np.load(tmp_path / "q.npy")), 1)


@pytest.mark.parametrize("q", [np.array([1, 2, 3, 44]), np.array([0.5, 1, 2, 3])])
def test_numbers_that_do_not_fit_are_refused(executable: Any, q: np.ndarray) -> None:
    with pytest.raises(tvm_nnef.InputError, match="int4"):
        executable(X, q)


def test_the_command_line_reads_and_writes_files_of_numpy(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "net")
    prescribed = {f"main.Net.{name}" if name == "q" else name: d for name, d in DTYPES.items()}
    metadata = replace(model.metadata, machine_types=prescribed)
    tvm_nnef.save_model(replace(model, metadata=metadata), folder)
    assert (tmp_path / "net" / "main.Net.k.dat").stat().st_size == 128 + 2
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "q.npy", Q)
    given = [f"--input={tmp_path}/{name}.npy" for name in "xq"]
    wanted = [f"--output={tmp_path}/{name}.npy" for name in "ypr"]
    assert main(["run", folder, *given, *wanted]) == 0
    dtypes = {"y": np.float32, "p": "int4", "r": "float8_e4m3fn"}
    agrees([np.load(tmp_path / f"{n}.npy").view(dtype) for n, dtype in dtypes.items()], 1)
    capsys.readouterr()
    assert main(["show", folder]) == 0
    shown = capsys.readouterr().out
    assert "q: int4[4]" in shown and "r: float8_e4m3fn[2, 3]" in shown
