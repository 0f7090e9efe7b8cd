"""Models exported to NNEF 1, and read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

Exported = Callable[..., tuple[str, tvm_nnef.Model]]


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    """The text of an exported model, and the model that it is when it is read back.

    Both must give the same results for the inputs, and have the same inputs and outputs.
    """

    def run(model: Any, *inputs: np.ndarray, rtol: float = 2e-5, **options: Any) -> Any:
        loaded = tvm_nnef.load_model(model, **options)
        path = tmp_path / "out.nnef1"
        tvm_nnef.convert(loaded, path)
        back = tvm_nnef.convert(path)
        assert names(back) == names(loaded)
        found, expected = (flat(tvm_nnef.evaluate(each, *inputs)) for each in (back, loaded))
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-6)
        return (path / "graph.nnef").read_text(), back

    return run


def flat(results: Any) -> list[np.ndarray]:
    return [item for each in results for item in (each if isinstance(each, list) else [each])]


def names(model: tvm_nnef.Model) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs, as NNEF 1 has them: items of packs are numbered."""
    graph = tvm_nnef.compose(model)
    inputs, outputs = (
        [
            name
            for port in ports
            for name in (
                [f"{port.name}_{n}" for n in range(1, len(port.operand) + 1)]
                if isinstance(port.operand, tuple)
                else [port.name]
            )
        ]
        for ports in (graph.inputs, graph.outputs)
    )
    return inputs, outputs
