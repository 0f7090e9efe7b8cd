"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.operators.elementwise import binary, leading


def _plain(operation: str, invocation: Invocation) -> Exported:
    return invocation.call(operation, invocation.value(0))


def _relu(invocation: Invocation) -> Exported:
    x, emitter = invocation.value(0), invocation.emitter
    alpha, limit = invocation.real("alpha"), invocation.real("max")
    if limit is None:
        return (
            invocation.call("leaky_relu", x, alpha=alpha) if alpha else invocation.call("relu", x)
        )
    if not alpha:
        return invocation.call("clamp", x, emitter.number(0.0), emitter.number(limit))
    slope = emitter.call("mul", x, emitter.number(alpha), shape=x.shape)
    return invocation.call("max", binary("min", x, emitter.number(limit), emitter), slope)


def _prelu(invocation: Invocation) -> Exported:
    alpha = leading(invocation.value(1), invocation.axis(), invocation.emitter)
    return invocation.call("prelu", invocation.value(0), alpha)


def _left_prelu(invocation: Invocation) -> Exported:
    return invocation.call("prelu", invocation.value(0), invocation.value(1))


def _thresholded(invocation: Invocation) -> Exported:
    x, emitter = invocation.value(0), invocation.emitter
    theta = emitter.number(invocation.real("theta") or 0.0)
    is_greater = emitter.call("gt", x, theta, shape=x.shape)
    return invocation.call("select", is_greater, x, emitter.number(0.0))


def _elu(invocation: Invocation) -> Exported:
    return invocation.call("elu", invocation.value(0), alpha=invocation.real("alpha"))


def _selu(invocation: Invocation) -> Exported:
    attributes = {name: invocation.real(name) for name in ("alpha", "lambda")}
    return invocation.call("selu", invocation.value(0), **attributes)


def _gelu(invocation: Invocation) -> Exported:
    x, emitter = invocation.value(0), invocation.emitter
    match invocation.attribute("approximate"):
        case "SIGMOID":
            return invocation.call("gelu", x)
        case "TANH":
            cube = emitter.call("pow", x, emitter.number(3.0), shape=x.shape)
            part = emitter.call("mul", cube, emitter.number(0.044715), shape=x.shape)
            total = emitter.call("add", x, part, shape=x.shape)
            factor = emitter.number(2.0 * math.sqrt(2.0 / math.pi))
            scaled = emitter.call("mul", total, factor, shape=x.shape)
            return invocation.call("mul", x, emitter.call("sigmoid", scaled, shape=x.shape))
    hint = "use {approximate='SIGMOID'} or {approximate='TANH'}"
    raise Inexpressible("NNEF 1 has no error function", hint)


def _softmax(invocation: Invocation) -> Exported:
    return invocation.call("softmax", invocation.value(0), axes=invocation.axes())


TABLE: Mapping[str, ExportFunction] = {
    **{f"nn.{name}": partial(_plain, name) for name in ("sigmoid", "silu", "softplus")},
    "nn.relu": _relu,
    "nn.prelu": _prelu,
    "nnef1.prelu": _left_prelu,
    "nn.thresholded_relu": _thresholded,
    "nn.elu": _elu,
    "nn.selu": _selu,
    "nn.gelu": _gelu,
    "nn.softmax": _softmax,
}
