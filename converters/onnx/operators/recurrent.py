"""RNN, GRU and LSTM, and ONNX Runtime's quantized LSTM: a loop over time for each direction.

The products with the inputs are made for all times at once before the loop; only those with
the state are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import matrix_product
from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.common.symbolic import number as number_of
from tvm_nnef.converters.common.tensors import Block, Loop, Pack, Tensor
from tvm_nnef.converters.common.unconvertible import Invalid
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.quantization import (
    centred,
    dynamically_quantized_product,
)
from tvm_nnef.converters.onnx.registry import Converter

Activation: TypeAlias = "Callable[[Tensor, Builder], Tensor]"
Cell: TypeAlias = "Callable[[Direction, Tensor, Sequence[Tensor], Builder], list[Tensor]]"


@dataclass(frozen=True, slots=True)
class Matrix:
    """The right factor of products, ``[inputs, outputs]``: reals, or integers and their scale."""

    values: Tensor
    scale: Tensor | None = None

    def product(self, x: Tensor, builder: Builder) -> Tensor:
        """The product of x and the matrix."""
        if self.scale is None:
            return matrix_product(x, self.values, builder)
        return dynamically_quantized_product(x, self.values, self.scale, builder)


@dataclass(frozen=True, slots=True)
class Direction:
    """The weights of one direction; biases have a row each."""

    hidden: int
    weight: Matrix
    recurrent: Matrix
    input_bias: Tensor | None
    recurrent_bias: Tensor | None
    peepholes: Tensor | None
    activations: tuple[Activation, ...]
    coupled: bool
    reset_late: bool


def _function(name: str, **attributes: float) -> Activation:
    return lambda x, builder: builder.call(name, x, more=attributes)


def _activations(node: Node, default: Sequence[str], direction: int) -> tuple[Activation, ...]:
    names = node.texts("activations") or [*default, *default]
    alphas, betas = (
        list(node.reals("activation_alpha") or []),
        list(node.reals("activation_beta") or []),
    )
    found: list[Activation] = []
    for name in names:
        alpha = alphas.pop(0) if alphas and name.lower() in _WITH_ALPHA else None
        beta = betas.pop(0) if betas and name.lower() in _WITH_BETA else None
        found.append(_activation(name.lower(), alpha, beta))
    count = len(default)
    return tuple(found[direction * count : (direction + 1) * count])


_WITH_ALPHA = ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
_WITH_BETA = ("affine", "scaledtanh", "hardsigmoid")


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    a, b = (0.0 if each is None else each for each in (alpha, beta))
    match name:
        case "relu":
            return _function("nn.relu")
        case "tanh":
            return _function("math.tanh")
        case "sigmoid":
            return _function("nn.sigmoid")
        case "softsign":
            return _function("extra.softsign")
        case "softplus":
            return _function("nn.softplus")
        case "leakyrelu":
            return _function("onnx.leaky_relu", alpha=0.01 if alpha is None else a)
        case "thresholdedrelu":
            return _function("onnx.thresholded_relu", theta=1.0 if alpha is None else a)
        case "hardsigmoid":
            slope, shift = 0.2 if alpha is None else a, 0.5 if beta is None else b
            return _function("onnx.hard_sigmoid", alpha=slope, beta=shift)
        case "elu":
            return _function("nn.elu", alpha=1.0 if alpha is None else a)
        case "affine":
            return lambda x, builder: builder.binary(
                "math.add", builder.binary("math.mul", x, a), b
            )
        case "scaledtanh":
            return lambda x, builder: builder.binary(
                "math.mul", builder.call("math.tanh", builder.binary("math.mul", x, b)), a
            )
    raise Invalid(f"the activation '{name}' is not known")


def _product(x: Tensor, direction: Direction, builder: Builder) -> Tensor:
    found = direction.recurrent.product(x, builder)
    bias = direction.recurrent_bias
    return found if bias is None else builder.binary("math.add", found, bias)


def _gates(x: Tensor, hidden: int, builder: Builder) -> list[Tensor]:
    count = number_of(x.shape[-1]) // hidden
    if count == 1:
        return [x]
    parts = tuple(Tensor(x.dtype, (*x.shape[:-1], hidden)) for _ in range(count))
    builder.add("layout.split", (x,), (parts,), axis=x.rank - 1, count=count)
    return list(parts)


def _rnn_cell(
    direction: Direction, x: Tensor, state: Sequence[Tensor], builder: Builder
) -> list[Tensor]:
    total = builder.binary("math.add", x, _product(state[0], direction, builder))
    return [direction.activations[0](total, builder)]


def _gru_cell(
    direction: Direction, x: Tensor, state: Sequence[Tensor], builder: Builder
) -> list[Tensor]:
    hidden, (h,) = direction.hidden, state
    f, g = direction.activations
    xz, xr, xh = _gates(x, hidden, builder)
    if direction.reset_late:
        hz, hr, hh = _gates(_product(h, direction, builder), hidden, builder)
    else:
        width = 2 * hidden
        both = matrix_product(h, builder.slice(direction.recurrent.values, 1, 0, width), builder)
        bias = direction.recurrent_bias
        if bias is not None:
            both = builder.binary("math.add", both, builder.slice(bias, 0, 0, width))
        hz, hr = _gates(both, hidden, builder)
    z = f(builder.binary("math.add", xz, hz), builder)
    r = f(builder.binary("math.add", xr, hr), builder)
    if direction.reset_late:
        reset = builder.binary("math.mul", r, hh)
    else:
        rows = builder.slice(direction.recurrent.values, 1, 2 * hidden, 3 * hidden)
        reset = matrix_product(builder.binary("math.mul", r, h), rows, builder)
        if direction.recurrent_bias is not None:
            rest = builder.slice(direction.recurrent_bias, 0, 2 * hidden, 3 * hidden)
            reset = builder.binary("math.add", reset, rest)
    new = g(builder.binary("math.add", xh, reset), builder)
    kept = builder.binary("math.mul", z, builder.binary("math.sub", h, new))
    return [builder.binary("math.add", new, kept)]


def _lstm_cell(
    direction: Direction, x: Tensor, state: Sequence[Tensor], builder: Builder
) -> list[Tensor]:
    h, c = state
    f, g, last = direction.activations
    gates = builder.binary("math.add", x, _product(h, direction, builder))
    i, o, forget, new = _gates(gates, direction.hidden, builder)

    def looked(gate: Tensor, cell: Tensor, number: int) -> Tensor:
        if direction.peepholes is None:
            return gate
        begin = number * direction.hidden
        row = builder.slice(direction.peepholes, 0, begin, begin + direction.hidden)
        return builder.binary("math.add", gate, builder.binary("math.mul", row, cell))

    i = f(looked(i, c, 0), builder)
    if direction.coupled:
        forget = builder.binary("math.sub", builder.constant(np.ones((1, 1)), c.dtype), i)
    else:
        forget = f(looked(forget, c, 2), builder)
    kept = builder.binary("math.mul", forget, c)
    cell = builder.binary("math.add", kept, builder.binary("math.mul", i, g(new, builder)))
    o = f(looked(o, cell, 1), builder)
    return [builder.binary("math.mul", o, last(cell, builder)), cell]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Differences between the three operators; ``states`` are the inputs with initial states."""

    cell: Cell
    gates: int
    defaults: tuple[str, ...]
    states: tuple[int, ...]


_KINDS = {
    "RNN": _Kind(_rnn_cell, 1, ("Tanh",), (5,)),
    "GRU": _Kind(_gru_cell, 3, ("Sigmoid", "Tanh"), (5,)),
    "LSTM": _Kind(_lstm_cell, 4, ("Sigmoid", "Tanh", "Tanh"), (5, 6)),
}
_QUANTIZED = "DynamicQuantizeLSTM"
_GATE_ACTIVATIONS = 2
"""Activations of gates come first; an LSTM has a third, of the cell state."""


def _recurrent(node: Node, builder: Builder) -> Sequence[Tensor]:
    """All outputs over time, and the last state of each kind."""
    kind = _KINDS["LSTM" if node.operator == _QUANTIZED else node.operator]
    x, lengths = node.input(0), node.optional(4)
    batch_first = node.flag("layout")
    if batch_first:
        x = builder.transpose(x, [1, 0, 2])
    which = node.text("direction", "forward")
    count = 2 if which == "bidirectional" else 1
    results = [
        _direction(
            node, kind, x, number, which == "reverse" or number == 1, lengths, batch_first, builder
        )
        for number in range(count)
    ]  # fmt: skip
    outputs = builder.concat([builder.unsqueeze(each[0], [1]) for each in results], 1)
    finals = [
        builder.concat([builder.unsqueeze(each[1 + state], [0]) for each in results], 0)
        for state in range(len(kind.states))
    ]
    if batch_first:
        outputs = builder.transpose(outputs, [2, 0, 1, 3])
        finals = [builder.transpose(each, [1, 0, 2]) for each in finals]
    return [outputs, *finals]


def _weights(node: Node, kind: _Kind, number: int, builder: Builder) -> Direction:
    def row(position: int) -> Tensor | None:
        found = node.optional(position)
        if found is None:
            return None
        return builder.squeeze(builder.slice(found, 0, number, number + 1), [0])

    def matrix(position: int) -> Matrix:
        values = row(position)
        if values is None:
            raise Invalid("its weights are missing")
        if node.operator != _QUANTIZED:
            return Matrix(builder.transpose(values, [1, 0]))
        # The scale and the zero point, of all columns or for each, follow the inputs of an LSTM.
        scale = row(6 + 2 * position)
        return Matrix(centred(values, row(7 + 2 * position), False, builder), scale)

    weight, recurrent, bias = matrix(1), matrix(2), row(3)
    hidden = number_of(recurrent.values.shape[0])
    width = kind.gates * hidden
    own = None if bias is None else builder.slice(bias, 0, 0, width)
    other = None if bias is None else builder.slice(bias, 0, width, 2 * width)
    return Direction(
        hidden, weight, recurrent, own, other,
        row(7) if kind.gates == 4 else None,
        _clipped(node, _activations(node, kind.defaults, number)),
        node.flag("input_forget"), node.flag("linear_before_reset"),
    )  # fmt: skip


def _clipped(node: Node, activations: tuple[Activation, ...]) -> tuple[Activation, ...]:
    """The activations of gates after the limits of ``clip``; that of a cell state has none."""
    if not node.has("clip"):
        return activations
    limit = node.real("clip")
    if not limit >= 0.0:
        raise Invalid(f"its 'clip' is {limit}", "give a limit that is at least 0, or leave it out")

    def limited(activation: Activation, x: Tensor, builder: Builder) -> Tensor:
        low = builder.binary("math.max", x, -limit)
        return activation(builder.binary("math.min", low, limit), builder)

    gates = (partial(limited, each) for each in activations[:_GATE_ACTIVATIONS])
    return (*gates, *activations[_GATE_ACTIVATIONS:])


def _direction(
    node: Node,
    kind: _Kind,
    x: Tensor,
    number: int,
    backward: bool,
    lengths: Tensor | None,
    batch_first: bool,
    builder: Builder,
) -> list[Tensor]:
    """The outputs of one direction (time, batch, hidden), then its last states."""
    direction = _weights(node, kind, number, builder)
    time, batch, _ = x.shape
    x = _turned(x, lengths, builder) if backward else x
    gates = direction.weight.product(x, builder)
    if direction.input_bias is not None:
        gates = builder.binary("math.add", gates, direction.input_bias)
    pack = Pack(x.dtype, gates.shape[1:], time)
    builder.add("layout.unstack", (gates,), (pack,), axis=0)
    starts = [_start(node, position, number, batch, direction, batch_first, builder)
              for position in kind.states]  # fmt: skip
    if time == 0:
        return [builder.full(0.0, (time, batch, direction.hidden), x.dtype), *starts]
    carried = [Tensor(x.dtype, (batch, direction.hidden)) for _ in starts]
    item, index, inner = Tensor(x.dtype, pack.shape), None, Builder(builder)
    for tensor, name in zip((*carried, item), (*"hc"[: len(carried)], "x"), strict=True):
        tensor.hint = f"{node.proto.output[0] or node.operator}_{name}"
    new = kind.cell(direction, item, carried, inner)
    shown = new[0]
    if lengths is not None:
        index = Tensor("int32", (), hint=f"{node.operator}_step")
        new, shown = _masked(new, carried, lengths, index, inner)
    finals = [Tensor(x.dtype, each.shape) for each in carried]
    outputs = Pack(x.dtype, (batch, direction.hidden), time)
    block = Block(tuple(inner.steps), (*new, shown))
    builder.steps.append(
        Loop(
            block, tuple(zip(carried, starts, strict=True)), ((item, pack),), index, None, None,
            (*finals, outputs),
        )
    )  # fmt: skip
    stacked = builder.call(
        "layout.stack", outputs, as_type=x.dtype, as_shape=(time, *outputs.shape), axis=0
    )
    return [_turned(stacked, lengths, builder) if backward else stacked, *finals]


def _turned(x: Tensor, lengths: Tensor | None, builder: Builder) -> Tensor:
    if lengths is None:
        return builder.slice(x, 0, x.shape[0] - 1, -1, -1)
    return builder.call("extra.reverse_sequence", x, lengths, batch_axis=1, time_axis=0)


def _start(
    node: Node,
    position: int,
    number: int,
    batch: Size,
    direction: Direction,
    batch_first: bool,
    builder: Builder,
) -> Tensor:
    given = node.optional(position)
    if given is None:
        dtype = node.input(0).dtype
        if not isinstance(batch, int):
            return builder.full(0.0, (batch, direction.hidden), dtype)
        return builder.constant(np.zeros((batch, direction.hidden)), dtype)
    if batch_first:
        given = builder.transpose(given, [1, 0, 2])
    start = builder.squeeze(builder.slice(given, 0, number, number + 1), [0])
    # A state for a static batch asks for that batch; a reshape checks it at run time.
    return builder.reshape(start, (batch, direction.hidden))


def _masked(
    new: Sequence[Tensor],
    old: Sequence[Tensor],
    lengths: Tensor,
    index: Tensor,
    builder: Builder,
) -> tuple[list[Tensor], Tensor]:
    """States that stay, and outputs of zero, where a sequence has ended."""
    going = builder.binary("math.gt", builder.cast(lengths, "int32"), index, "bool")
    column = builder.unsqueeze(going, [1])
    kept = [builder.select(column, each, before) for each, before in zip(new, old, strict=True)]
    return kept, builder.select(column, new[0], 0.0)


RECURRENT = (
    *(Converter(name, 1, _recurrent) for name in _KINDS),
    Converter(_QUANTIZED, 1, _recurrent, "com.microsoft"),
)
