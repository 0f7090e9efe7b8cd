"""Operations without a meaning on one device, collectives of one replica, and custom calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.ranking import first_in_order
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.operation import Operation
from tvm_nnef.converters.stablehlo.registry import operation

_ONE_DEVICE = "export the function for one device"
_IDENTITIES = frozenset(
    ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
     "AllocateBuffer", "MoveToDevice", "MoveToHost")
)  # fmt: skip


@operation("infeed", "outfeed", "send", "recv", "create_token", "after_all", "async_start",
           "async_done")  # fmt: skip
def no_stream(each: Operation, builder: Builder) -> Tensor:
    """Reject data transfer to or from elsewhere, which a function of its inputs does not have."""
    hint = "make the data an argument or a result of the exported function"
    raise Unconvertible("a model reads its inputs alone, and gives its results alone", hint)


@operation("all_reduce", "cross-replica-sum", "all_gather", "all_to_all", "reduce_scatter",
           "collective_broadcast")  # fmt: skip
def collective(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Return the operands themselves for one replica; reject more replicas."""
    widest = max(np.array(each.attribute("replica_groups")).shape[-1:], default=1)
    if widest > 1:
        raise Unconvertible(
            f"it joins {widest} replicas, and a model runs on one device", _ONE_DEVICE
        )
    return each.inputs


@operation("collective_permute")
def permuted(each: Operation, builder: Builder) -> Tensor:
    """Return the data that the only replica sends to itself; zeros if it sends none."""
    pairs = np.array(each.attribute("source_target_pairs"))
    if pairs.any():
        text = f"it sends between {pairs.max() + 1} replicas, and a model runs on one device"
        raise Unconvertible(text, _ONE_DEVICE)
    (x,) = each.inputs
    return x if pairs.size else builder.expand(builder.constant(0, x.dtype), x.shape)


@operation("partition_id", "replica_id")
def one_device(each: Operation, builder: Builder) -> Tensor:
    """Return the number of the only device."""
    return builder.constant(0, each.dtype())


@operation("custom_call")
def custom_call(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Convert a call of foreign code; some calls only annotate the placement of data."""
    target = each.text("call_target_name")
    if target in _IDENTITIES:
        return each.inputs
    if target == "shape_assertion":
        return []
    if target in ("mhlo.topk", "TopK") and len(each.op.results) == 2:
        x = each.inputs[0]
        k = each.op.results[0].type.get_dim_size(x.rank - 1)
        return first_in_order(x, x.rank - 1, k, builder, dtype="int32")
    hint = f"give a function that converts it: converters={{'{target}': function}}"
    raise Unconvertible(f"it calls '{target}', of which nothing is known here", hint)


@operation("complex", "real", "imag", "fft")
def complex_numbers(each: Operation, builder: Builder) -> Tensor:
    """Reject complex numbers, which SkriptND does not have."""
    hint = "split complex numbers into real and imaginary parts in the source"
    raise Unconvertible("complex numbers cannot be converted", hint)


@operation("uniform_quantize", "uniform_dequantize", "set_dimension_size", "torch_index_select",
           "einsum", "unary_einsum")  # fmt: skip
def not_yet(each: Operation, builder: Builder) -> Tensor:
    """Reject operations that JAX's networks do not use."""
    name = each.op.operation.name
    hint = f"give a function that converts it: converters={{'{name}': function}}"
    raise Unconvertible("there is no converter for it", hint)
