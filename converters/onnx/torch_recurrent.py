"""LSTM, GRU and RNN layers of PyTorch, exported for any number of time steps.

PyTorch computes the shapes of their results by a loop over the time of the example inputs, which
fixes it. In a module that is exported, operators with the same arguments replace these layers, of
which PyTorch knows the shapes of results alone. Those and PyTorch's become operators of ONNX.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Layer:
    """An operator of PyTorch, the one of ONNX, and the order of ONNX's gates in PyTorch's."""

    name: str
    operator: str
    gates: tuple[int, ...]
    attributes: Mapping[str, Any]
    states: int = 1


_LAYERS = (
    _Layer("lstm", "LSTM", (0, 3, 1, 2), {}, states=2),
    _Layer("gru", "GRU", (1, 0, 2), {"linear_before_reset": 1}),
    _Layer("rnn_tanh", "RNN", (0,), {"activations": ["Tanh"]}),
    _Layer("rnn_relu", "RNN", (0,), {"activations": ["Relu"]}),
)
_REST = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
_REST += "bool bidirectional, bool batch_first"


def of_any_length() -> AbstractContextManager[Any]:
    """A block in which calls of the layers are exported without a fixed time."""
    functions = {getattr(importlib.import_module("torch"), each.name): each for each in _LAYERS}
    operators = _operators()

    class Recurrent(importlib.import_module("torch.overrides").TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            layer = functions.get(function)
            # The third argument of calls with packed sequences is a state.
            if layer is not None and len(args) > 2 and isinstance(args[2], (list, tuple)):
                function = operators[layer.name]
            return function(*args, **(kwargs or {}))

    made: AbstractContextManager[Any] = Recurrent()
    return made


def translations() -> dict[Any, Callable[..., Any]]:
    """Return the functions that write the layers as operators of ONNX, for PyTorch's exporter."""
    ours, theirs = _operators(), importlib.import_module("torch").ops.aten
    return {
        operator: functools.partial(_translate, layer)
        for layer in _LAYERS
        for operator in (ours[layer.name], getattr(theirs, layer.name).input)
    }


@functools.cache
def _operators() -> dict[str, Any]:
    """The operators that replace PyTorch's, by its names."""
    torch = importlib.import_module("torch")
    library = torch.library.Library("tvm_nnef", "FRAGMENT")
    found = {}
    for layer in _LAYERS:
        state = "Tensor[]" if layer.states > 1 else "Tensor"
        results = ", ".join(["Tensor"] * (1 + layer.states))
        library.define(f"{layer.name}(Tensor input, {state} hx, {_REST}) -> ({results})")
        torch.library.register_fake(f"tvm_nnef::{layer.name}", _shapes, lib=library)
        found[layer.name] = getattr(torch.ops.tvm_nnef, layer.name).default
    # The operators exist as long as the library does.
    found[""] = library
    return found


def _shapes(input: Any, hx: Any, *rest: Any) -> tuple[Any, ...]:
    """Tensors of the shapes of the results."""
    states = hx if isinstance(hx, (list, tuple)) else [hx]
    bidirectional = rest[5]
    width = states[0].shape[2] * (2 if bidirectional else 1)
    output = input.new_empty((*input.shape[:2], width))
    return (output, *(each.new_empty(each.shape) for each in states))


def _translate(
    layer: _Layer,
    x: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """The results in ONNX."""
    op = importlib.import_module("onnxscript").opset18
    states = [hx] if layer.states == 1 else list(hx)
    directions = 2 if bidirectional else 1
    count = len(params) // (num_layers * directions)
    x = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    finals: list[list[Any]] = []
    for number in range(num_layers):
        if number and train and dropout:
            x, _ = op.Dropout(x, dropout, True)
        outputs = []
        for position in range(number * directions, (number + 1) * directions):
            weights = params[position * count : (position + 1) * count]
            starts = [op.Slice(each, [position], [position + 1], [0]) for each in states]
            backward = position % directions == 1
            output, *last = _direction(layer, op, x, starts, weights, has_biases, backward)
            outputs.append(output)
            finals.append(last)
        x = _joined(op, outputs, 2)
    x = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    return (x, *(_joined(op, each, 0) for each in zip(*finals, strict=True)))


def _direction(
    layer: _Layer,
    op: Any,
    x: Any,
    starts: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    backward: bool,
) -> list[Any]:
    """One direction of one layer: all outputs ``[time, batch, hidden]``, and the last states."""
    input_weight, weight, *rest = params
    hidden = input_weight.shape[0] // len(layer.gates)
    projection = rest.pop() if len(params) % 2 else None
    starts = list(starts)
    if projection is not None:
        x, input_weight = _with_first_state(op, x, starts[0], input_weight, weight, backward)
        # A projected state is linear in the one before the projection, which ONNX's LSTM has.
        weight = op.MatMul(weight, projection)
        starts[0] = _zeros_like(op, starts[1])
    order = [gate * hidden + row for gate in layer.gates for row in range(hidden)]
    rows = op.Constant(value_ints=order)
    matrices = [op.Unsqueeze(op.Gather(each, rows), [0]) for each in (input_weight, weight)]
    bias = None
    if has_biases:
        bias = op.Unsqueeze(op.Concat(*(op.Gather(each, rows) for each in rest), axis=0), [0])
    attributes = {**layer.attributes, "direction": "reverse" if backward else "forward"}
    call = getattr(op, layer.operator)
    output, *last = call(x, *matrices, bias, None, *starts, hidden_size=hidden, **attributes)
    output = op.Squeeze(output, [1])
    if projection is not None:
        transposed = op.Transpose(projection, perm=[1, 0])
        output, last[0] = (op.MatMul(each, transposed) for each in (output, last[0]))
    return [output, *last]


def _with_first_state(
    op: Any, x: Any, start: Any, input_weight: Any, weight: Any, backward: bool
) -> tuple[Any, Any]:
    """The inputs and their weight with columns for a given state, which is that of one step."""
    time = op.Squeeze(op.Shape(x, start=0, end=1), [0])
    first = op.Sub(time, 1) if backward else op.Constant(value_int=0)
    is_first = op.CastLike(op.Equal(op.Range(0, time, 1), first), x)
    states = op.Mul(op.Unsqueeze(is_first, [1, 2]), start)
    return op.Concat(x, states, axis=2), op.Concat(input_weight, weight, axis=1)


def _zeros_like(op: Any, x: Any) -> Any:
    return op.Expand(op.CastLike(0.0, x), op.Shape(x))


def _joined(op: Any, parts: Sequence[Any], axis: int) -> Any:
    """Tensors along an axis."""
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)
