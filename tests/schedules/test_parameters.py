"""Weights that stay parameters: what is computed from them alone is computed once."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

import tvm_nnef
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.schedules.relax import parameters

SHAPES = {"w": (10, 6, 3, 3), "m": (10,), "v": (10,), "o": (10,), "s": (10,), "f": (7, 10)}

TEXT = """import nn, math;
graph G {
  @input { x: real[b|9,6,8,9]; }
  @output { y: real[~,~]; }
  @variable {
    w: real[10,6,3,3]; m: real[10]; v: real[10]; o: real[10]; s: real[10]; f: real[7,10];
  }
  @compose {
    c = nn.conv{padding=[1,1,1,1]}(x, w);
    n = nn.batch_norm(c, m, v, o, s);
    p = math.mean_reduce{axes=[2,3], squeeze=true}(n);
    y = nn.linear(p, f);
  }
}
"""


@pytest.fixture(scope="module")
def weights():
    generator = np.random.default_rng(4)
    return {name: generator.uniform(0.5, 1.5, shape).astype("float32") for name, shape in
            SHAPES.items()}  # fmt: skip


@pytest.fixture(scope="module")
def detached(weights):
    """The model without its weights, which are the last inputs of its main function."""
    variables = {f"main.G.{name}": value for name, value in weights.items()}
    model = tvm_nnef.load_model(TEXT, variables=variables)
    mod = tvm_nnef.from_nnef(model, keep_params_in_input=True)
    return model, relax.frontend.detach_params(mod)[0]


@pytest.mark.slow
def test_weights_given_once_or_each_time_or_folded_in_give_the_same(detached, weights):
    model, mod = detached
    executable = tvm_nnef.build(mod, progress=False)
    folded = tvm_nnef.build(model, progress=False)
    once = executable.with_parameters(*weights.values())
    assert [port.name for port in once.inputs] == ["x"]
    for batch in (1, 4):
        x = np.random.default_rng(batch).standard_normal((batch, 6, 8, 9)).astype("float32")
        (each,) = executable(x, *weights.values())
        np.testing.assert_array_equal(once(x)[0], each)
        np.testing.assert_allclose(folded(x)[0], each, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_what_depends_on_weights_alone_runs_where_they_are_prepared(detached, tmp_path):
    tvm_nnef.build(detached[1], progress=False, dump_dir=tmp_path)
    (dump,) = tmp_path.glob("*_lift_work_on_weights.txt")
    text = dump.read_text()
    prepare, run = (text.index(f"def {n}(") for n in (parameters.LIFTED, parameters.PREPARED))
    ends = sorted([prepare, run, len(text)])
    bodies = {
        start: text[start : next(end for end in ends if end > start)] for start in (prepare, run)
    }
    assert "pack" in bodies[prepare]
    assert "pack" not in bodies[run]
    assert "rsqrt" not in bodies[run]


@pytest.mark.slow
def test_an_exported_library_takes_its_weights_when_it_is_loaded(detached, weights, tmp_path):
    executable = tvm_nnef.build(detached[1], progress=False)
    executable.export(tmp_path / "model.so")
    loaded = tvm_nnef.load(tmp_path / "model.so").with_parameters(*weights.values())
    x = np.ones((2, 6, 8, 9), "float32")
    np.testing.assert_array_equal(loaded(x)[0], executable(x, *weights.values())[0])


@pytest.mark.slow
def test_wrong_weights_are_reported(detached, weights):
    executable = tvm_nnef.build(detached[1], progress=False)
    with pytest.raises(NnefError, match="w"):
        executable.with_parameters(np.ones(3, "float32"), *list(weights.values())[1:])
    with pytest.raises(NnefError):
        executable.with_parameters(*list(weights.values())[1:])


def test_a_model_with_its_weights_in_it_takes_none(detached):
    model, _ = detached
    with pytest.raises(NnefError, match="no parameters"):
        tvm_nnef.build(model, progress=False).with_parameters()
