"""Damaged bytecode is a diagnostic, also where it ends the process of MLIR that reads it."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tvm_nnef

pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-nnef[jax]'")

from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tvm_nnef.converters.stablehlo import bytecode

TEXT = """
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.tanh %0 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
"""
VERSION = "1.10.0"
ENDS_MLIR = (0, 1, 42)
REFUSED = (2, 3, 4)
"""Seeds of damage that MLIR notices."""


def written() -> bytes:
    with make_ir_context():
        return bytes(stablehlo.serialize_portable_artifact(ir.Module.parse(TEXT), VERSION))


def flipped(seed: int) -> bytes:
    chosen = random.Random(seed)
    data = bytearray(written())
    for _ in range(3):
        data[chosen.randrange(8, len(data))] ^= 1 << chosen.randrange(8)
    return bytes(data)


def test_sound_bytecode_is_converted() -> None:
    x, w = np.ones((2, 3), np.float32), np.full((3, 4), 0.25, np.float32)
    (found,) = tvm_nnef.evaluate(tvm_nnef.load_model(written()), x, w)
    np.testing.assert_allclose(found, np.tanh(x @ w), rtol=1e-6)


@pytest.mark.parametrize("seed", ENDS_MLIR + REFUSED)
def test_damaged_bytecode_is_a_diagnostic(seed: int) -> None:
    with pytest.raises(tvm_nnef.NnefError, match="not a StableHLO module"):
        tvm_nnef.load_model(flipped(seed))


def test_what_ends_the_reader_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "_PROGRAM", "import os; os.abort()")
    assert bytecode.unreadable(b"") == "reading it ends MLIR with SIGABRT"


def test_reading_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "_PROGRAM", "while True: pass")
    monkeypatch.setattr(bytecode, "_SECONDS", 0.1)
    assert bytecode.unreadable(b"") == "reading it takes more than 0.1 seconds"
