"""Rewrites of convolutions: what is padded in front of one is its own padding.

Enters: a call of a convolution, its operands already rewritten. Leaves: a simpler one, or None.
"""

from __future__ import annotations

from typing import Any

from tvm import relax

from tvm_nnef.schedules.graph.rewriting import Operands, operator_name
from tvm_nnef.tvm_support.compat import RelaxExpression

_CONVOLUTIONS = {
    "nn.conv1d": relax.op.nn.conv1d,
    "nn.conv2d": relax.op.nn.conv2d,
    "nn.conv3d": relax.op.nn.conv3d,
}


def with_padding(operands: Operands, call: Any) -> RelaxExpression | None:
    """A convolution of something padded with zeros, as one that pads; None where there is none."""
    pad = operands.call(call.args[0], "nn.pad")
    attributes = call.attrs
    layout = str(attributes.data_layout)
    if pad is None or layout[:2] != "NC":
        return None
    widths = [int(width) for width in pad.attrs.pad_width]
    if str(pad.attrs.pad_mode) != "constant" or float(pad.attrs.pad_value) != 0:
        return None
    if any(widths[:4]) or min(widths) < 0:
        return None
    spatial = len(layout) - 2
    wider = [
        int(own) + widths[4 + 2 * (n % spatial) + n // spatial]
        for n, own in enumerate(attributes.padding)
    ]
    return _CONVOLUTIONS[operator_name(call)](
        pad.args[0],
        call.args[1],
        strides=list(attributes.strides),
        padding=wider,
        dilation=list(attributes.dilation),
        groups=int(attributes.groups),
        data_layout=layout,
        kernel_layout=str(attributes.kernel_layout),
        out_layout=str(attributes.out_layout),
        out_dtype=attributes.out_dtype,
    )
