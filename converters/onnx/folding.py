"""Nodes whose inputs are all known: their results, computed now.

What would be much larger than its inputs is left to be computed at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.converters.common.symbolic import largest, product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Array, Type
from tvm_nnef.converters.onnx.types import DTYPE_OF

LARGEST = 1 << 16
"""Elements that a folded tensor may have, unless its inputs have as many."""

_FOLDED = frozenset(
    ("Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
     "BitwiseXor", "BlackmanWindow", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat",
     "ConstantOfShape", "Cos", "CumSum", "DepthToSpace", "DequantizeLinear", "Div", "Equal", "Erf",
     "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND",
     "Greater", "GreaterOrEqual", "HammingWindow", "HannWindow", "Identity", "IsInf", "IsNaN",
     "Less", "LessOrEqual", "Log", "MatMul", "Max", "Mean", "MelWeightMatrix", "Min", "Mod", "Mul",
     "Neg", "NonZero", "Not", "OneHot", "Or", "Pad", "Pow", "QuantizeLinear", "Range",
     "Reciprocal", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
     "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Round", "ScatterElements", "ScatterND",
     "Shape", "Sigmoid", "Sign", "Sin", "Size", "Slice", "SpaceToDepth", "Split", "Sqrt",
     "Squeeze", "Sub", "Sum", "Tan", "Tanh", "Tile", "TopK", "Transpose", "Trilu", "Unique",
     "Unsqueeze", "Where", "Xor")
)  # fmt: skip
"""Operators that exporters apply to constants: arithmetic, and tensors put together.

Layers are not among them: the evaluator of ``onnx`` computes some otherwise than ONNX defines, such
as BatchNormalization before opset 14, whose statistics it mixes with those of the batch.
"""
_SIZED = frozenset(
    ("BlackmanWindow", "ConstantOfShape", "Expand", "HammingWindow", "HannWindow",
     "MelWeightMatrix", "OneHot", "Pad", "Tile")
)  # fmt: skip
"""Operators whose values say how large the result is: not computed before its size is known."""


def fold(
    proto: onnx.NodeProto,
    inputs: Sequence[Tensor | None],
    expected: Sequence[Type | None],
    opsets: Mapping[str, int],
) -> list[Array] | None:
    """The values of a node's results, None if they are not known now or better computed later.

    Never raises: what the evaluator of ``onnx`` cannot do is converted like any other node.
    """
    if proto.domain not in ("", "ai.onnx") or proto.op_type not in _FOLDED:
        return None
    if any(attribute.HasField("g") for attribute in proto.attribute):
        return None
    if _is_of_codes(proto, inputs):
        return None
    arrays = [each.value for each in inputs if each is not None]
    values = [array for array in arrays if array is not None]
    if len(values) < len(arrays) or _too_large(proto, values, expected):
        return None
    if proto.op_type == "DequantizeLinear" and values[0].ndim > 1:
        return None  # Weights stay integers, which are multiplied as such.
    results = _evaluate(proto, inputs, opsets)
    if results is None or not all(map(_fits, results, expected)):
        return None
    return results


def _is_of_codes(proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> bool:
    """Whether a node dequantizes codes of few bits, or in blocks: weights that stay small."""
    if proto.op_type != "DequantizeLinear":
        return False
    few = inputs[0] is not None and inputs[0].dtype in FORMATS
    return few or any(each.name == "block_size" and each.i for each in proto.attribute)


def _fits(value: Array, expected: Type | None) -> bool:
    """Whether a result has the shape that ONNX infers, if it does."""
    shape = None if expected is None else expected.shape
    return shape is None or (
        len(shape) == value.ndim
        and all(
            size == actual
            for size, actual in zip(shape, value.shape, strict=True)
            if isinstance(size, int)
        )
    )


def _too_large(
    proto: onnx.NodeProto, values: Sequence[Array], expected: Sequence[Type | None]
) -> bool:
    room = max(LARGEST, *(value.size for value in values), 0) if values else LARGEST
    for each in expected:
        shape = None if each is None else each.static
        if shape is not None and largest(product(shape)) > room:
            return True
        if shape is None and proto.op_type in _SIZED:
            return True
    return proto.op_type == "Range" and not _steps(values) <= room


def _steps(values: Sequence[Array]) -> float:
    """The elements of a range; NaN if there is no such number."""
    start, limit, delta = (float(value.reshape(-1)[0]) if value.size else 0.0 for value in values)
    return (limit - start) / delta if delta else np.nan


def _evaluate(
    proto: onnx.NodeProto, inputs: Sequence[Tensor | None], opsets: Mapping[str, int]
) -> list[Array] | None:
    names = [name for name in proto.input if name]
    feeds = {
        name: each.value
        for name, each in zip(proto.input, inputs, strict=False)
        if each is not None
    }
    untyped = onnx.TypeProto()
    graph = onnx.helper.make_graph(
        [proto],
        "fold",
        [onnx.helper.make_value_info(name, untyped) for name in dict.fromkeys(names)],
        [onnx.helper.make_value_info(name, untyped) for name in proto.output if name],
    )  # fmt: skip
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, feeds)
    except Exception:
        # Whatever the evaluator raises means that the node is not folded.
        return None
    results = [np.asarray(each) for each in found]
    # The evaluator takes infinity for NaN there, ONNX for the largest number.
    known = set(DTYPE_OF.values()) - {"float8_e8m0fnu"}
    return results if all(str(each.dtype) in known for each in results) else None
