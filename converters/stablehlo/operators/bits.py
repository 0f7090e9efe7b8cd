"""Converters of operations on bits: reinterpretation, and reduced precision."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.operation import Operation
from tvm_nnef.converters.stablehlo.operators.elementwise import shifted
from tvm_nnef.converters.stablehlo.registry import operation


@operation("bitcast_convert")
def bitcast(each: Operation, builder: Builder) -> Tensor:
    """Reinterpret the bits as another type; for another width, the last dimension is split or
    joined.
    """
    x, dtype = each.inputs[0], each.dtype()
    if x.dtype == dtype:
        return x
    if "bool" in (x.dtype, dtype):
        raise Unconvertible(f"bits of {x.dtype} cannot be seen as {dtype}", "compare with 0")
    if x.value is not None:
        wanted = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        flat = np.ascontiguousarray(x.value).reshape(-1).view(wanted)
        return builder.constant(flat.reshape(each.static_shape()))
    source, target = _width(x.dtype), _width(dtype)
    whole = _as_integers(x, builder)
    if source < target:
        whole = _joined(whole, source, target, builder)
    elif source > target:
        whole = _split(whole, source, target, builder)
    return _from_integers(whole, dtype, builder)


def _width(dtype: str) -> int:
    return 16 if dtype == "bfloat16" else np.dtype(dtype).itemsize * 8


def _as_integers(x: Tensor, builder: Builder) -> Tensor:
    """Return the bits as unsigned integers."""
    bits = _width(x.dtype)
    if x.dtype == "bfloat16":
        upper = shifted(
            _as_integers(builder.cast(x, "float32"), builder),
            builder.constant(16, "uint32"), builder,
        )  # fmt: skip
        return builder.cast(upper, "uint16")
    if x.kind == "real":
        x = builder.call(f"extra.bits_of_float{bits}", x, as_type=f"int{bits}")
    return builder.cast(x, f"uint{bits}")


def _from_integers(x: Tensor, dtype: str, builder: Builder) -> Tensor:
    bits = _width(dtype)
    if dtype == "bfloat16":
        # Through int16, which keeps the sign: the product then lies in int32.
        wide = builder.cast(builder.cast(x, "int16"), "int32")
        upper = builder.binary("math.mul", wide, builder.constant(1 << 16, "int32"))
        return builder.cast(_from_integers(upper, "float32", builder), dtype)
    if np.dtype(dtype).kind != "f":
        return builder.cast(x, dtype)
    signed = builder.cast(builder.cast(x, f"int{bits}"), "int64")
    return builder.call(f"extra.float{bits}_of_bits", signed, as_type=dtype)


def _joined(x: Tensor, source: int, target: int, builder: Builder) -> Tensor:
    """Join the elements of the last dimension into one, the first one in the lowest bits."""
    wide = builder.cast(x, f"uint{target}")
    scale = np.array([1 << k * source for k in range(target // source)], f"uint{target}")
    scaled = builder.binary("math.mul", wide, builder.constant(scale))
    return builder.call(
        "math.sum_reduce", scaled, as_shape=x.shape[:-1], axes=[x.rank - 1], squeeze=True
    )


def _split(x: Tensor, source: int, target: int, builder: Builder) -> Tensor:
    """Split each element along a new last dimension, the lowest bits first."""
    parts = [
        shifted(x, builder.constant(k * target, x.dtype), builder) if k else x
        for k in range(source // target)
    ]
    narrow = [builder.cast(one, f"uint{target}") for one in parts]
    return builder.concat([builder.unsqueeze(one, [x.rank]) for one in narrow], x.rank)


_MANTISSAS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


@operation("reduce_precision")
def reduce_precision(each: Operation, builder: Builder) -> Tensor:
    """Round elements to fewer bits; those that are too small become 0."""
    x = each.inputs[0]
    exponent, mantissa = each.integer("exponent_bits"), each.integer("mantissa_bits")
    own = _MANTISSAS[x.dtype]
    if exponent >= own[0] and mantissa >= own[1]:
        return x
    # Numbers above the largest exponent become infinite; subnormal ones stay if the range does.
    limit = (1 << min(exponent, own[0]) - 1) - 1
    return builder.call(
        "xla.reduce_precision", x, mantissa=min(mantissa, own[1]), limit=limit,
        least=2 - (1 << own[0] - 1), flush=exponent < own[0],
    )  # fmt: skip
