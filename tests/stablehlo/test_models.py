"""Networks of JAX, with dynamic dimensions and gradients, on both routes against JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

from .conftest import numpy_of

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")
jnp, lax = jax.numpy, jax.lax
from jax import export  # noqa: E402


def reals(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def normalized(x: Any, scale: Any, offset: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset


def transformer(p: Any, x: Any) -> Any:
    """A block with two heads and a causal mask."""
    batch, length, width = x.shape
    h = normalized(x, p["g1"], p["b1"])
    q, k, v = (
        part.reshape(batch, length, 2, width // 2).transpose(0, 2, 1, 3)
        for part in jnp.split(h @ p["qkv"], 3, -1)
    )
    scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // 2))
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    o = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    x = x + o @ p["o"]
    return x + jax.nn.gelu(normalized(x, p["g2"], p["b2"]) @ p["w1"]) @ p["w2"]


WEIGHTS = {
    "g1": reals(8), "b1": reals(8), "qkv": reals(8, 24), "o": reals(8, 8), "g2": reals(8),
    "b2": reals(8), "w1": reals(8, 16), "w2": reals(16, 8),
}  # fmt: skip


def mlp(x: Any, w: Any, b: Any) -> Any:
    return jax.nn.softmax(jax.nn.relu(x @ w + b))


def convnet(x: Any, w: Any, v: Any) -> Any:
    y = jax.nn.relu(lax.conv_general_dilated(x, w, (2, 2), "SAME"))
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return y.reshape(x.shape[0], -1) @ v


def rnn(w: Any, u: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x @ u)
        return h, h.sum()

    return lax.scan(step, jnp.zeros((2, 4)), xs)


MODELS = {
    "mlp": (mlp, reals(2, 3), reals(3, 4), reals(4)),
    "convnet": (convnet, reals(2, 3, 8, 8), reals(4, 3, 3, 3), reals(16, 5)),
    "rnn": (rnn, reals(4, 4), reals(3, 4), reals(5, 2, 3)),
    "rnn gradient": (
        jax.grad(lambda w, u, x: rnn(w, u, x)[1].sum(), (0, 1)),
        reals(4, 4), reals(3, 4), reals(5, 2, 3),
    ),
    "transformer": (transformer, WEIGHTS, reals(2, 5, 8)),
    "transformer gradient": (
        jax.grad(lambda p, x: (transformer(p, x) ** 2).mean()), WEIGHTS, reals(2, 5, 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_networks_on_the_reference(name: str, against_jax: Any) -> None:
    against_jax(*MODELS[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "name",
    ["mlp", "convnet", "rnn", pytest.param("transformer gradient", marks=pytest.mark.slow)],
)
def test_networks_compiled(name: str, against_jax: Any) -> None:
    against_jax(*MODELS[name], rtol=1e-3, atol=1e-4, compiled=True)


def exported(function: Any, *shapes: str) -> Any:
    specs = [jax.ShapeDtypeStruct(export.symbolic_shape(each), np.float32) for each in shapes]
    return export.export(jax.jit(function))(*specs)


def dynamic(x: Any) -> Any:
    doubled = jnp.concatenate([x, x])[:, :1].sum()
    return jnp.sum(jax.nn.relu(x) @ jnp.ones((3, 4)), 0) + doubled + jnp.arange(x.shape[0]).sum()


FORMS = {
    "an Exported": lambda each: each,
    "its serialized form": lambda each: bytes(each.serialize()),
    "the bytes of its module": lambda each: each.mlir_module_serialized,
    "its text": lambda each: each.mlir_module(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_stays_dynamic(form: str) -> None:
    model = tvm_nnef.load_model(FORMS[form](exported(dynamic, "b, 3")), bounds=8)
    for count in (1, 5, 8):
        x = reals(count, 3)
        (found,) = tvm_nnef.evaluate(model, x)
        np.testing.assert_allclose(found, dynamic(x), rtol=1e-5)


KERNEL = reals(2, 1, 3, 3)
ON_SIZES = {
    "equal": lambda x: jnp.where(jnp.asarray(x.shape[0]) == 5, x, -x),
    "odd": lambda x: jnp.where(jnp.asarray(x.shape[0]) % 2 == 1, x, -x),
    "less": lambda x: jnp.where(jnp.asarray(x.shape[0]) < 5, x, -x),
    "half": lambda x: x[: (x.shape[0] + 1) // 2],
    "turned": lambda x: jnp.roll(x, 1, 0),
    "same padding": lambda x: jax.lax.conv(x.reshape(1, 1, -1, 3), KERNEL, (2, 2), "SAME"),
    "quotient": lambda x: x + (3 - x.shape[0]) // 2 + (3 - x.shape[0]) % 4,
    "scan of a batch": lambda x: jax.lax.scan(
        lambda h, v: (jnp.tanh(h + v), h * v), jnp.zeros(x.shape[0]), x.T
    ),
    "scan": lambda x: jax.lax.scan(lambda h, v: (jnp.tanh(h + v), h * v), jnp.zeros(3), x),
    "cumulative": lambda x: (jnp.cumsum(x, 0), jax.lax.cummax(x, 0, reverse=True)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ON_SIZES)
def test_what_depends_on_a_dynamic_dimension(name: str) -> None:
    model = tvm_nnef.load_model(exported(ON_SIZES[name], "b, 3"), bounds=8)
    for count in (1, 4, 5):
        x = reals(count, 3)
        expected = jax.tree.leaves(ON_SIZES[name](x))
        for ours, theirs in zip(tvm_nnef.evaluate(model, x), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_dynamic_batch_compiled() -> None:
    given = exported(lambda x: transformer(WEIGHTS, x), "b, 5, 8")
    model = tvm_nnef.load_model(given, bounds={"b": 4})
    run = tvm_nnef.build(model)
    for count in (1, 3):
        x = reals(count, 5, 8)
        (found,) = run(x)
        np.testing.assert_allclose(numpy_of(found), transformer(WEIGHTS, x), rtol=1e-3, atol=1e-4)


def test_a_dynamic_batch_without_a_bound() -> None:
    model = tvm_nnef.load_model(exported(dynamic, "b, 3"))
    executable = tvm_nnef.build(model, progress=False)
    for batch in (1, 40):
        x = reals(batch, 3)
        np.testing.assert_allclose(executable(x)[0], dynamic(x), rtol=1e-5)


def test_a_dynamic_batch_becomes_a_number() -> None:
    model = tvm_nnef.load_model(exported(dynamic, "b, 3"), input_shapes={"x": (5, 3)})
    x = reals(5, 3)
    (found,) = tvm_nnef.evaluate(model, x)
    np.testing.assert_allclose(found, dynamic(x), rtol=1e-5)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(jax.jit(jnp.tanh).lower(reals(3)).as_text())
    (found,) = tvm_nnef.evaluate(tvm_nnef.load_model(path), reals(3))
    np.testing.assert_allclose(found, np.tanh(reals(3)), rtol=1e-6)


def test_names_are_those_of_the_function() -> None:
    model = tvm_nnef.load_model(jax.jit(mlp).lower(*MODELS["mlp"][1:]))
    graph = tvm_nnef.compose(model)
    assert [each.name for each in graph.inputs] == ["x", "w", "b"]


@pytest.mark.parametrize("open_", [False, True])
def test_the_source_can_be_compared_with(open_: bool) -> None:
    def function(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w).sum(0)

    x, w = reals(3, 4), reals(4, 2)
    source = exported(function, "b, 4", "4, 2") if open_ else jax.jit(function).lower(x, w)
    report = tvm_nnef.compare(source, x, w, routes=("reference", "jax"), bounds=8 if open_ else 0)
    assert report.agrees
    if not open_:
        assert len(report.rows) >= 3
