"""Nodes whose inputs are all known: their results, computed now.

What would be much larger than its inputs is left to be computed at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tvm_nnef.converters.onnx.symbolic import largest, product
from tvm_nnef.converters.onnx.tensors import Tensor
from tvm_nnef.converters.onnx.types import DTYPE_OF, Array, Type

LARGEST = 1 << 16
"""Elements that a folded tensor may have, unless its inputs have as many."""

_RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
     "Bernoulli", "Dropout")
)  # fmt: skip


def fold(
    proto: onnx.NodeProto,
    inputs: Sequence[Tensor | None],
    expected: Sequence[Type | None],
    opsets: Mapping[str, int],
) -> list[Array] | None:
    """The values of a node's results, None where they are not known now or better computed later.

    Never raises: what the evaluator of ``onnx`` cannot do is converted like any other node.
    """
    if proto.domain not in ("", "ai.onnx") or proto.op_type in _RANDOM:
        return None
    if any(attribute.HasField("g") for attribute in proto.attribute):
        return None
    arrays = [each.value for each in inputs if each is not None]
    values = [array for array in arrays if array is not None]
    if len(values) < len(arrays) or _too_large(values, expected):
        return None
    return _evaluate(proto, inputs, opsets)


def _too_large(values: Sequence[Array], expected: Sequence[Type | None]) -> bool:
    room = max(LARGEST, *(value.size for value in values), 0) if values else LARGEST
    for each in expected:
        shape = None if each is None else each.static
        if shape is not None and largest(product(shape)) > room:
            return True
    return False


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
    known = set(DTYPE_OF.values())
    return results if all(str(each.dtype) in known for each in results) else None
