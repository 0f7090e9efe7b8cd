"""Random numbers, which follow from a seed alone."""

from __future__ import annotations

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.operation import Operation, extents_of
from tvm_nnef.converters.stablehlo.registry import operation


@operation("rng")
def rng(each: Operation, builder: Builder) -> Tensor:
    """Numbers between two, or around one; the same in every run, others for each operation."""
    low, high, shape_of = each.inputs
    shape, dtype = tuple(extents_of(shape_of)), each.dtype()
    if np.dtype(dtype).kind == "b":
        raise Unconvertible("there are no random truth values", "compare random numbers")
    kind = "uniform" if each.text("rng_distribution") == "UNIFORM" else "normal"
    drawn = builder.call(
        f"rand.{kind}", as_type="float32", as_shape=shape, shape=shape, seed=each.seed
    )
    real = dtype if np.dtype(dtype).kind not in "iu" else "float64"
    a, b = (builder.cast(one, real) for one in (low, high))
    factor = builder.binary("math.sub", b, a) if kind == "uniform" else b
    wide = builder.binary("math.mul", builder.cast(drawn, real), factor)
    return builder.cast(builder.binary("math.add", wide, a), dtype)
