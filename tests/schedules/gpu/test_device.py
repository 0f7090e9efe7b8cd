"""Models on a GPU beside the evaluator: dynamic shapes, CUDA graphs, bounds checks, DLPack."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tvm_nnef
from tvm_nnef.tvm_support.runtime import array_of

DYNAMIC = """
import math; import linalg; import nn; import layout;
graph G {
    @input { x: real[n|300, m|50]; f: real[m|50, 16]; i: int[k|40]; }
    @output { s: real; t: real; g: real; r: real; }
    @compose {
        p = linalg.matmul(x, f); s = nn.softmax{axes=[1]}(p); t = layout.transpose(x);
        g = layout.gather{axis=0}(p, i); r = math.sum_reduce{axes=[0]}(x);
    }
}
"""

DEEP = """
import math; import linalg; import nn;
graph G {
    @input { x: real[64, 64]; } @output { y: real[64, 64]; } @variable { w: real[64, 64]; }
    @compose {
        a = linalg.matmul(x, w); b = nn.softmax{axes=[1]}(a); c = linalg.matmul(b, w);
        d = math.tanh(c); e = linalg.matmul(d, w); y = nn.softmax{axes=[0]}(e);
    }
}
"""

OUTSIDE = """
import numpy, tvm_nnef
text = '''import layout; graph G {
    @input { x: real[5, 3]; i: int[2]; } @output { y: real; }
    @compose { y = layout.gather{axis=0}(x, i); }
}'''
model = tvm_nnef.build(text, "cuda", checked=True, progress=False)
x = numpy.arange(15, dtype="float32").reshape(5, 3)
numpy.testing.assert_array_equal(model(x, numpy.int32([4, 0]))[0], x[[4, 0]])
print("inside", flush=True)
model(x, numpy.int32([1, 5]))
print("not seen", flush=True)
"""

pytestmark = pytest.mark.gpu


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("graphs", [False, True])
def test_dynamic_shapes(graphs: bool) -> None:
    executable = tvm_nnef.build(DYNAMIC, "cuda", cuda_graphs=graphs, progress=False)
    for n, m, k in ((1, 1, 1), (7, 50, 3), (300, 33, 40), (128, 16, 1), (7, 50, 3)):
        given = numbers(n, m, seed=n), numbers(m, 16), np.arange(k, dtype="int32") % n
        wanted = tvm_nnef.evaluate(DYNAMIC, *given)
        for found, expected in zip(executable(*given), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_replayed_graphs_see_new_inputs_and_each_its_weights() -> None:
    start = {"main.G.w": numbers(64, 64)}
    module = tvm_nnef.from_nnef(DEEP, variables=start, keep_params_in_input=True)
    module, _ = relax.frontend.detach_params(module)
    executable = tvm_nnef.build(module, "cuda", cuda_graphs=True, progress=False)
    weights = [numbers(64, 64, seed=seed) / 8 for seed in (1, 2)]
    prepared = [executable.with_parameters(each) for each in weights]
    for seed in range(4):
        x = numbers(64, 64, seed=seed)
        for weight, model in zip(weights, prepared, strict=True):
            (wanted,) = tvm_nnef.evaluate(DEEP, x, variables={"main.G.w": weight})
            for found in (*model(x), *executable(x, weight)):
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_an_index_outside_of_a_tensor_ends_a_checked_model() -> None:
    """In its own process, which cannot use the GPU afterwards."""
    done = subprocess.run([sys.executable, "-c", OUTSIDE], capture_output=True, text=True)
    assert done.returncode != 0
    assert "inside\n" in done.stdout and "not seen" not in done.stdout
    assert "uses an index outside of 'x'" in done.stdout


def test_tensors_of_the_device_are_given_and_returned() -> None:
    executable = tvm_nnef.build(DEEP, "cuda", variables={"main.G.w": numbers(64, 64)})
    x = numbers(64, 64)
    (first,) = executable.prepared(x)()
    assert first.__dlpack_device__()[0] == 2
    (found,) = executable(first)
    np.testing.assert_array_equal(found, executable(array_of(first))[0])


def test_pytorch_takes_and_gives_tensors() -> None:
    torch = pytest.importorskip("torch")
    executable = tvm_nnef.build(DEEP, "cuda", variables={"main.G.w": numbers(64, 64)})
    x = numbers(64, 64)
    (wanted,) = executable(x)
    np.testing.assert_array_equal(executable(torch.from_numpy(x).cuda())[0], wanted)
    (given,) = executable.prepared(x)()
    np.testing.assert_array_equal(torch.from_dlpack(given).cpu().numpy(), wanted)
