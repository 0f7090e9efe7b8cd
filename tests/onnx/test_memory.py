"""How much memory conversions take: below three times the weights, in their own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("resource", reason="peaks of memory are known on Unix only")

SIDE, LAYERS = 2500, 8
WEIGHTS = SIDE * SIDE * LAYERS * 4
"""Two hundred megabytes, much more than what the libraries take."""

SCRIPT = """
import resource, sys
import tvm_nnef, tvm_nnef.converters.onnx, tvm_nnef.converters.onnx.export, tvm_nnef.composition

def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

before = peak()
what, source, target = sys.argv[1:]
if what == "convert":
    tvm_nnef.convert(source, target)
else:
    model = tvm_nnef.load_model(source)
    for name in model.variables:
        model.variables[name].sum()
    tvm_nnef.save_model(model, target)
print(peak() - before)
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model in one file, in two files, and converted."""
    import tvm_nnef

    folder = tmp_path_factory.mktemp("network")
    random, info = np.random.default_rng(0), onnx.helper.make_tensor_value_info
    nodes, weights = [], []
    for number in range(LAYERS):
        nodes.append(onnx.helper.make_node("MatMul", [f"x{number}", f"w{number}"],
                                           [f"x{number + 1}"]))  # fmt: skip
        weight = random.standard_normal((SIDE, SIDE), np.float32)
        weights.append(onnx.numpy_helper.from_array(weight, f"w{number}"))
    ends = info("x0", 1, [1, SIDE]), info(f"x{LAYERS}", 1, [1, SIDE])
    graph = onnx.helper.make_graph(nodes, "net", [ends[0]], [ends[1]], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, folder / "one.onnx")
    onnx.save(model, folder / "two.onnx", save_as_external_data=True, location="two.bin")
    tvm_nnef.convert(folder / "one.onnx", folder / "net.nnef2")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "source", "target", "most"),
    [
        ("convert", "one.onnx", "out.nnef2", 2.5),
        ("convert", "one.onnx", "out.tar", 2.5),
        ("convert", "two.onnx", "out.nnef2", 2.0),
        ("convert", "net.nnef2", "out.onnx", 2.0),
        ("save", "net.nnef2", "out.nnef2", 2.0),
        ("save", "net.nnef2", "out.tgz", 2.5),
    ],
)
def test_peaks(
    network: Path, tmp_path: Path, what: str, source: str, target: str, most: float
) -> None:
    """What is allowed is a little more than what it takes now; the law is three times."""
    command = [sys.executable, "-c", SCRIPT, what, str(network / source), str(tmp_path / target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most * WEIGHTS
