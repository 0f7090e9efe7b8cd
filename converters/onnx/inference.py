"""Types and shapes of a node's results, as the ONNX schema of its operator infers them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import onnx
from onnx import numpy_helper, shape_inference

from tvm_nnef.converters.common.symbolic import Symbolic
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import MAX_RANK, PartialSize, Type
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.limits import check_ranks
from tvm_nnef.converters.onnx.types import DTYPE_OF, NUMBER_OF, dimension_name

SMALL = 1 << 10
"""Elements that a known input may have to be shown to the inference: shapes, axes, scales."""

_LENIENT = frozenset(("Range",))
"""Operators that ONNX's own bodies use otherwise than their schemas say."""

UNKNOWN = Type(None, None)


def infer(
    proto: onnx.NodeProto,
    inputs: Sequence[Tensor | None],
    opsets: Mapping[str, int],
    declared: Mapping[str, Type],
    symbols: Mapping[str, Symbolic],
) -> tuple[Type | None, ...]:
    """Return the known type of each result; None for one without a name.

    Declarations of the model complete the schema. ``symbols`` are the dimensions that
    names in the model stand for. Raises Unconvertible for a node that the schema does not allow.
    """
    check_ranks(proto, inputs)
    given = {
        name: each for name, each in zip(proto.input, inputs, strict=False) if each is not None
    }
    types = {name: Type(each.dtype, each.shape) for name, each in given.items()}
    found = by_schema(proto, types, given, opsets)
    texts = {
        str(size): size
        for each in inputs
        if each is not None
        for size in each.shape
        if isinstance(size, Symbolic)
    }
    known = {**symbols, **texts}
    return tuple(
        _named(_merged(found.get(name, UNKNOWN), declared.get(name, UNKNOWN)), known)
        if name
        else None
        for name in proto.output
    )


def _named(found: Type, known: Mapping[str, Symbolic]) -> Type:
    if found.shape is None:
        return found
    return Type(
        found.dtype,
        tuple(known.get(each, each) if isinstance(each, str) else each for each in found.shape),
    )


def declared(graph: onnx.GraphProto) -> dict[str, Type]:
    """The types that a graph says its values have."""
    values = (*graph.input, *graph.value_info, *graph.output)
    return {value.name: type_of(value.type) for value in values if value.name}


def type_of(value: onnx.TypeProto) -> Type:
    """The type of a tensor; of anything else nothing is known."""
    if not value.HasField("tensor_type"):
        return UNKNOWN
    tensor = value.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(
            dim.dim_value
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else dimension_name(dim)
            for dim in tensor.shape.dim
        )
    return Type(DTYPE_OF.get(tensor.elem_type), shape)


def spelled(shape: Sequence[PartialSize]) -> list[int | str | None]:
    """A shape as ONNX writes it: what is known only at run time has a name."""
    return [size if size is None or isinstance(size, int) else str(size) for size in shape]


def by_schema(
    proto: onnx.NodeProto,
    types: Mapping[str, Type],
    tensors: Mapping[str, Tensor],
    opsets: Mapping[str, int],
) -> dict[str, Type]:
    """Return the types of results that the schema of a node infers from those of its inputs.

    ``tensors`` may have values. Raises Unconvertible for a node that the schema does not allow.
    """
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    if proto.op_type == "Constant" and not domain:
        return {}  # its value has type and shape, and the inference would copy it
    try:
        schema = onnx.defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return {}
    known = {
        name: onnx.helper.make_tensor_type_proto(
            NUMBER_OF[each.dtype], None if each.shape is None else spelled(each.shape)
        )
        for name, each in types.items()
        if each.dtype is not None
    }
    if any(name and name not in known for name in proto.input):
        return {}  # of sequences only the conversion knows the types
    data = {
        name: numpy_helper.from_array(each.value)
        for name, each in tensors.items()
        if each.value is not None and each.size <= SMALL
    }
    imports = [onnx.helper.make_opsetid(name, version) for name, version in opsets.items()]
    try:
        found = shape_inference.infer_node_outputs(schema, proto, known, data, {}, imports)
    except shape_inference.InferenceError as cause:
        # Of what is around a subgraph the inference knows nothing here.
        inner = any(attribute.HasField("g") for attribute in proto.attribute)
        if not inner and proto.op_type not in _LENIENT:
            text = _sentence(cause)
            raise Invalid(text, mismatch=True) from cause
        return {}
    except (onnx.checker.ValidationError, RuntimeError, ValueError):
        return {}
    results = {name: type_of(value) for name, value in found.items()}
    for name, each in results.items():
        if each.shape is not None and len(each.shape) > MAX_RANK:
            reason = f"its result '{name}' has {len(each.shape)} dimensions"
            raise Unconvertible(reason, f"the limit is {MAX_RANK}")
    return results


def _sentence(cause: Exception) -> str:
    """Return the error of the inference about a node, without its location."""
    text = re.sub(r"^(\[[^]]*\])?\s*(\(op_type:[^)]*\):)?\s*", "", str(cause)).partition("\n")[0]
    return f"it is not valid ONNX: {text.strip().rstrip('.')}"


def _merged(found: Type, declared: Type) -> Type:
    dtype = found.dtype or declared.dtype
    if found.shape is None or declared.shape is None:
        return Type(dtype, declared.shape if found.shape is None else found.shape)
    if len(found.shape) != len(declared.shape):
        return Type(dtype, found.shape)
    pairs = zip(found.shape, declared.shape, strict=True)
    sizes = tuple(left if isinstance(left, int) else right for left, right in pairs)
    return Type(dtype, sizes)
