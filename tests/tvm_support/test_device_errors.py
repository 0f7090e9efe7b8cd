"""Errors that the driver of a GPU reports: each is raised, and the process goes on and ends well.

The driver of these tests fails as it is asked to (``cuda_without_gpu.c``).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import tvm_nnef

NETWORK = """
import math;
graph G {
    @input { x: real[n|9, 4]; } @output { y: real[n|9, 4]; s: real[4]; }
    @variable { w: real[8, 8]; } @update { w = v; }
    @compose { y = math.exp(x); s = math.sum_reduce{axes=[0], squeeze=true}(x); v = math.neg(w); }
}
"""

LAYERS = """
import linalg;
graph G {
    @input { x: real[4, 8]; } @output { y: real[4, 8]; } @variable { w: real[8, 8]; }
    @compose {
        a = linalg.matmul(x, w); b = linalg.matmul(a, w); c = linalg.matmul(b, w);
        y = linalg.matmul(c, w);
    }
}
"""

RUN = """
import ctypes, sys, numpy, tvm_nnef
model, other = (tvm_nnef.load(path) for path in sys.argv[1:3])
x = numpy.ones((4, 4), "float32")
kept, more = model.tensors(x), other(numpy.ones((4, 8), "float32"))
ctypes.CDLL(None).setenv(b"CUDA_FAULT", sys.argv[3].encode(), 1)
for number in range(3):
    try:
        model(x)
        print("right")
    except tvm_nnef.NnefError as problem:
        print(str(problem).replace("\\n", " "))
try:
    print(model.state["main.G.w"].shape)
except tvm_nnef.NnefError as problem:
    print("no state")
del kept, other, model
print("end")
"""

BROKEN = "cudaErrorIllegalAddress (700): an illegal memory access was encountered"


@pytest.fixture
def exported(nvcc: Callable[[str], Path], tmp_path: Path) -> list[str]:
    """The files of two libraries, the second one with CUDA graphs. Their machine code is empty."""
    nvcc("if [ -f kernels.cu ]; then echo code > kernels.fatbin; fi")
    files = [str(tmp_path / name) for name in ("model.so", "graphs.so")]
    for file, text, graphs in zip(files, (NETWORK, LAYERS), (False, True), strict=True):
        variables = {"main.G.w": np.ones((8, 8), "float32")}
        made = tvm_nnef.build(text, "cuda", variables=variables, cuda_graphs=graphs)
        made.export(file)
    return files


def printed(driver: Mapping[str, str], program: str, *arguments: str) -> list[str]:
    """What a process prints, without loads and launches of kernels."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=driver)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def without_launches(lines: list[str]) -> list[str]:
    return [line for line in lines if line.split()[0] not in ("load", "launch", "graph")]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("fault", "message", "lasts"),
    [
        ("kernel 1 700", f"reports an error: {re.escape(BROKEN)}.*new one.*checked=True", True),
        ("kernel 2 700", f"reports an error: {re.escape(BROKEN)}.*new one.*checked=True", True),
        ("kernel 1 710", "cudaErrorAssert.*kernel has printed", True),
        ("cudaMalloc 1 2", "not enough memory on the GPU.*smaller inputs", False),
        ("cuLaunchKernelEx 1 1", "reports an error: CUDA_ERROR_INVALID_VALUE.*'native'", False),
    ],
)
def test_what_the_driver_reports_is_raised(
    fault: str, message: str, lasts: bool, driver: Mapping[str, str], exported: list[str]
) -> None:
    first, *later, state, end = without_launches(printed(driver, RUN, *exported, fault))
    assert re.search(message, first), first
    assert all("reports an error" in each if lasts else each == "right" for each in later)
    assert (state, end) == ("no state" if lasts else "(8, 8)", "end")


SET_STATE = """
import sys, numpy, tvm_nnef
model = tvm_nnef.load(sys.argv[1])
model.state["main.G.w"] = numpy.zeros((8, 8), "float32")
print(model.state.tensors[0].__dlpack_device__()[0], model.state["main.G.w"].sum())
print("call")
for size in (4, 0):
    y, s = model(numpy.ones((size, 4), "float32"))
    assert y.shape == (size, 4)
    print("end")
"""


def test_state_is_set_on_the_device_and_nothing_is_launched_for_no_elements(
    driver: Mapping[str, str], exported: list[str]
) -> None:
    state, _, *calls = printed(driver, SET_STATE, exported[0])
    assert state == "2 0.0"
    first, second, _ = "\n".join(calls).split("end")
    assert "exp" in first and "exp" not in second
    assert first.count("launch") == second.count("launch") + 1


EMPTY_GRAPH = """
import sys, numpy, tvm_nnef
model = tvm_nnef.load(sys.argv[1])
for _ in range(3):
    assert model(numpy.ones((0, 8), "float32"))[0].shape == (0, 8)
"""


@pytest.mark.slow
def test_a_cuda_graph_of_no_elements_is_captured_and_launched(
    driver: Mapping[str, str], nvcc: Callable[[str], Path], tmp_path: Path
) -> None:
    nvcc("if [ -f kernels.cu ]; then echo code > kernels.fatbin; fi")
    file, values = tmp_path / "model.so", {"main.G.w": np.ones((8, 8), "float32")}
    text = LAYERS.replace("real[4, 8]", "real[0, 8]")
    tvm_nnef.build(text, "cuda", variables=values, cuda_graphs=True).export(file)
    assert not [line for line in printed(driver, EMPTY_GRAPH, str(file)) if "launch" in line]
