"""Recurrent layers of PyTorch, compared with PyTorch at several lengths from one build."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
nn, Dim = torch.nn, torch.export.Dim
HIDDEN, INPUTS = 6, 5

Arguments = dict[str, Any]
LAYERS: dict[str, tuple[str, Arguments]] = {
    "lstm": ("LSTM", {}),
    "lstm, batch first": ("LSTM", {"batch_first": True}),
    "lstm, three layers": ("LSTM", {"num_layers": 3}),
    "lstm, two layers both ways": (
        "LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "lstm, projected": ("LSTM", {"proj_size": 3}),
    "lstm, projected, two layers both ways": (
        "LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}),
    "lstm without biases": ("LSTM", {"bias": False, "proj_size": 4, "bidirectional": True}),
    "gru": ("GRU", {"batch_first": True}),
    "gru, two layers both ways": ("GRU", {"num_layers": 2, "bidirectional": True}),
    "gru without biases": ("GRU", {"bias": False, "num_layers": 2}),
    "rnn": ("RNN", {}),
    "rnn, two layers both ways": (
        "RNN", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "rnn of relu without biases": ("RNN", {"nonlinearity": "relu", "bias": False}),
}  # fmt: skip


class Flat(nn.Module):
    """A recurrent layer whose states are separate inputs and outputs, if they are given."""

    def __init__(self, kind: str, arguments: Arguments) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(INPUTS, HIDDEN, **arguments)

    def forward(self, x: Any, *states: Any) -> Any:
        pair = isinstance(self.layer, nn.LSTM)
        given = (states if pair else states[0]) if states else None
        y, last = self.layer(x, given)
        return (y, *last) if pair else (y, last)


def states_of(layer: Any, batch: int) -> tuple[Any, ...]:
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    widths = [layer.proj_size or HIDDEN, HIDDEN] if isinstance(layer, nn.LSTM) else [HIDDEN]
    return tuple(torch.randn(count, batch, width) for width in widths)


def inputs_of(layer: Any, time: int, batch: int, given: bool) -> tuple[Any, ...]:
    shape = (batch, time, INPUTS) if layer.batch_first else (time, batch, INPUTS)
    return (torch.randn(shape), *(states_of(layer, batch) if given else ()))


def close(found: Any, expected: Any) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        ours, theirs = np.asarray(ours), theirs.detach().numpy()
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def built(module: Any, inputs: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    axes = (1, 0) if module.layer.batch_first else (0, 1)
    states = ({1: dims[1]},) * (len(inputs) - 1)
    # The states are the second argument, as a tuple, if there are any.
    shapes = (dict(zip(axes, dims, strict=True)), *([states] if states else []))
    return tvm_nnef.build(module, example_inputs=inputs, dynamic_shapes=shapes, progress=False)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_takes_any_length_and_batch(name: str, given: bool) -> None:
    torch.manual_seed(1)
    module = Flat(*LAYERS[name]).eval()
    dims = Dim("time"), Dim("batch")
    executable = built(module, inputs_of(module.layer, 7, 3, given), dims)
    for time, batch in ((7, 3), (1, 1), (2, 4), (19, 2)):
        inputs = inputs_of(module.layer, time, batch, given)
        close(executable(*inputs), module(*inputs))


def test_a_length_is_dynamic_and_a_batch_is_not() -> None:
    module = Flat("LSTM", {"num_layers": 2, "bidirectional": True}).eval()
    executable = built(module, inputs_of(module.layer, 1, 2, False), ("time", None))
    for time in (1, 5, 12):
        inputs = inputs_of(module.layer, time, 2, False)
        close(executable(*inputs), module(*inputs))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", LAYERS)
def test_a_program_is_not_unrolled_for_its_length(name: str) -> None:
    torch.manual_seed(1)
    module = Flat(*LAYERS[name]).eval()
    counts = []
    for time in (2, 9):
        inputs = inputs_of(module.layer, time, 2, True)
        model = tvm_nnef.convert(torch.export.export(module, inputs))
        close(tvm_nnef.evaluate(model, *(each.numpy() for each in inputs)), module(*inputs))
        counts.append(len(tvm_nnef.compose(model).operations))
    assert counts[0] == counts[1]
