"""Long short-term memories over whole sequences; single steps are opened."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation

_GATES = (0, 3, 1, 2)
"""Input, output, forget and cell, in the order of ONNX, among input, forget, cell and output."""


def _ordered(invocation: Invocation, operand: int) -> str:
    """Weights or biases of the gates in ONNX's order, for one direction."""
    emitter, size = invocation.emitter, invocation.shape(operand)[0]
    if not isinstance(size, int):
        raise Inexpressible("the number of its units is known at run time only")
    sizes = emitter.integers([size // 4] * 4)
    parts = emitter.nodes_of("Split", [invocation.value(operand), sizes], 4, axis=0)
    return emitter.node("Concat", *(parts[gate] for gate in _GATES), axis=0)


def _lengths(invocation: Invocation) -> str:
    """The number of steps for each item of the batch, none beyond the sequence; or nothing."""
    steps = invocation.operands[6]
    if not isinstance(steps, str):
        return ""
    emitter, (length, batch, _) = invocation.emitter, invocation.shape(0)
    wide = emitter.cast(steps, invocation.dtypes["int"], "int64")
    most = emitter.node("Min", wide, emitter.dimension(length))
    limited = emitter.node("Max", most, emitter.constant(0, "int64"))
    return emitter.cast(emitter.expand(limited, [batch]), "int64", "int32")


def _lstm(invocation: Invocation) -> Exported:
    """LSTM in one direction; ONNX has a dimension for directions, and a second bias."""
    emitter = invocation.emitter
    units = invocation.shape(4)[1]
    weights, recurrences, bias = (_ordered(invocation, position) for position in (1, 2, 3))
    rows = invocation.shape(3)[0]
    assert isinstance(rows, int)
    both = emitter.pad(bias, [0], [rows], invocation.scalar(0))
    lengths = _lengths(invocation)
    made = emitter.nodes_of(
        "LSTM",
        [
            invocation.value(0),
            *(emitter.unsqueeze(each, [0]) for each in (weights, recurrences, both)),
            lengths,
            *(emitter.unsqueeze(invocation.value(position), [0]) for position in (4, 5)),
        ],
        3,
        hidden_size=units if isinstance(units, int) else rows // 4,
    )
    sequence = emitter.squeeze(made[0], [1])
    if lengths:
        # ONNX has an output for each input, ours ends with the longest item.
        zero = emitter.integers([0])
        longest = emitter.cast(emitter.node("ReduceMax", lengths, zero), "int32", "int64")
        sequence = emitter.node("Slice", sequence, zero, longest, zero)
    hidden, cell = (
        _kept(invocation, lengths, emitter.squeeze(state, [0]), position)
        for state, position in zip(made[1:], (4, 5), strict=True)
    )
    return sequence, hidden, cell


def _kept(invocation: Invocation, lengths: str, state: str, position: int) -> str:
    """A last state, which is the first one if there is no step; ONNX Runtime gives 0."""
    if not lengths:
        return state
    emitter = invocation.emitter
    runs = emitter.node("Greater", lengths, emitter.constant(0, "int32"))
    return emitter.node("Where", emitter.unsqueeze(runs, [1]), state, invocation.value(position))


COMPUTING: Mapping[str, ExportFunction] = {"nn.lstm": _lstm, "nn.lstm_loop": _lstm}
