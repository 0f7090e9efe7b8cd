"""Simulated quantization, as statements or as lines of ``graph.quant``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.operators.elementwise import binary, leading, rounded
from tvm_nnef.converters.nnef1.export.values import Argument, Value, written
from tvm_nnef.graph.nodes import Attribute, Operation

_MAX_BITS = 32

_QUANTIZERS: Mapping[str, tuple[str, str]] = {
    "quant.min_max_linear_quantize": ("min", "max"),
    "quant.zero_point_linear_quantize": ("zero_point", "scale"),
}
"""The operations of ``graph.quant`` by operator, with their numeric parameters."""


def _by_channel(values: list[float], invocation: Invocation) -> Value:
    """Return numbers of the channels, aligned from the left."""
    if len(set(values)) == 1:
        return invocation.emitter.number(values[0])
    vector = invocation.emitter.constant(np.asarray(values, np.float32))
    return leading(vector, invocation.axis("channel_axis"), invocation.emitter)


def _min_max(invocation: Invocation) -> Exported:
    if invocation.number("bits") > _MAX_BITS:
        return None
    low, high = (_by_channel(invocation.reals(name), invocation) for name in ("min", "max"))
    flags = {name: invocation.flag(name) for name in ("signed", "symmetric")}
    return invocation.call(
        "min_max_linear_quantize", invocation.value(0), low, high,
        bits=invocation.number("bits"), **flags,
    )  # fmt: skip


def _zero_point(invocation: Invocation) -> Exported:
    """Export by statements, as the operation of NNEF 1 rounds halves up instead of away from
    zero.
    """
    x, emitter = invocation.value(0), invocation.emitter
    bits, signed = invocation.number("bits"), invocation.flag("signed")
    largest = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    smallest = 0 if not signed else -largest if invocation.flag("symmetric") else -largest - 1
    zeros = invocation.numbers("zero_point")
    scale = _by_channel(invocation.reals("scale"), invocation)
    low, high = (
        _by_channel([float(limit - zero) for zero in zeros], invocation)
        for limit in (smallest, largest)
    )
    codes = rounded(binary("div", x, scale, emitter), emitter)
    return invocation.call("mul", emitter.call("clamp", codes, low, high, shape=x.shape), scale)


def _scaled(invocation: Invocation) -> Exported:
    """Export as the operation of NNEF 1, with limits that ``nnef1.sknd`` has computed."""
    codes = _codes(invocation.real("least") or 0.0, invocation.real("most") or 0.0)
    if codes is None:
        return None
    scale = invocation.real("scale")
    return invocation.call("zero_point_linear_quantize", invocation.value(0), scale=scale, **codes)


def _codes(least: float, most: float) -> dict[str, int | bool] | None:
    """Return the zero point and the bits of codes with such limits; None if there are none."""
    count = int(most - least) + 1
    bits = count.bit_length()
    if count == 1 << bits - 1 and bits > 1:
        signed = -least == count // 2
        zero = 0 if signed else int(-least)
        return {"zero_point": zero, "bits": bits - 1, "signed": signed, "symmetric": False}
    if count == (1 << bits) - 1:
        zero = int(-least) - count // 2
        return {"zero_point": zero, "bits": bits, "signed": True, "symmetric": True}
    return None


def quantizer(operation: Operation, operator: str) -> str | None:
    """Return the call in ``graph.quant`` that is equal to an operation; None if there is none.

    ``operator`` is the name of the operator if it is a known one.
    """
    attributes = dict(operation.attributes)
    if operator == "nnef1.zero_point_linear_quantize":
        least, most = (attributes[name] for name in ("least", "most"))
        assert isinstance(least, float) and isinstance(most, float)
        attributes |= _codes(least, most) or {"bits": _MAX_BITS + 1}
    elif operator not in _QUANTIZERS:
        return None
    bits = attributes["bits"]
    if not isinstance(bits, int) or bits > _MAX_BITS:
        return None
    name = operator.rpartition(".")[2]
    numbers = {each: _single(attributes[each]) for each in _QUANTIZERS[f"quant.{name}"]}
    named: dict[str, Argument] = {key: each for key, each in numbers.items() if each is not None}
    if len(named) < len(numbers):
        return None
    named["bits"] = bits
    named |= {each: bool(attributes[each]) for each in ("signed", "symmetric")}
    return f"{name}({', '.join(f'{key} = {written(each)}' for key, each in named.items())})"


def _single(attribute: Attribute) -> int | float | None:
    """Return the number of a pack of equal ones."""
    items = attribute if isinstance(attribute, tuple) else (attribute,)
    numbers = [each for each in items if isinstance(each, (int, float))]
    return numbers[0] if len(set(numbers)) == 1 else None


TABLE: Mapping[str, ExportFunction] = {
    "quant.min_max_linear_quantize": _min_max,
    "quant.zero_point_linear_quantize": _zero_point,
    "nnef1.zero_point_linear_quantize": _scaled,
}
