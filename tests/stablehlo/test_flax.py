"""Small models of Flax, without downloads, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

nn = pytest.importorskip("flax.linen", reason="Flax is not installed: pip install flax")
import jax  # noqa: E402


class MLP(nn.Module):  # type: ignore[misc, name-defined]
    """Dense layers between normalizations."""

    @nn.compact  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        x = nn.gelu(nn.LayerNorm()(nn.Dense(16)(x)))
        return nn.log_softmax(nn.Dense(3)(nn.RMSNorm()(x)))


class ConvNet(nn.Module):  # type: ignore[misc, name-defined]
    """Convolutions with batch normalization, grouped and strided, and pooling."""

    @nn.compact  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(8, (3, 3), strides=2)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True)(x))
        x = nn.relu(nn.GroupNorm(num_groups=4)(nn.Conv(8, (3, 3), feature_group_count=8)(x)))
        x = nn.max_pool(x, (2, 2), strides=(2, 2)) + nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.ConvTranspose(4, (2, 2), strides=(2, 2))(x)
        return nn.Dense(5)(x.mean((1, 2)))


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    """Causal attention of embedded tokens, and a recurrent layer."""

    @nn.compact  # type: ignore[untyped-decorator]
    def __call__(self, tokens: Any) -> Any:
        x = nn.Embed(11, 8)(tokens)
        h = nn.MultiHeadDotProductAttention(num_heads=2)(
            nn.LayerNorm()(x), mask=nn.make_causal_mask(tokens)
        )
        return nn.RNN(nn.GRUCell(4))(x + h)


MODELS = {
    "mlp": (MLP(), np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)),
    "cnn": (ConvNet(), np.random.default_rng(2).standard_normal((2, 9, 8, 3)).astype(np.float32)),
    "attention": (Attention(), np.random.default_rng(3).integers(0, 11, (2, 5)).astype(np.int32)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("module", "x"), MODELS.values(), ids=MODELS)
def test_models_of_flax(module: Any, x: Any, against_jax: Callable[..., Any]) -> None:
    generator = np.random.default_rng(4)
    weights = jax.tree.map(
        lambda each: generator.uniform(0.1, 0.5, each.shape).astype(each.dtype),
        jax.eval_shape(module.init, jax.random.key(0), x),
    )
    model = against_jax(lambda x: module.apply(weights, x), x, rtol=1e-4, atol=1e-5, compiled=True)
    assert len(model.inputs) == 1
