"""Operators that ONNX defines by a function body: a node becomes the nodes of that body."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.inference import spelled
from tvm_nnef.converters.onnx.reading import opsets_of
from tvm_nnef.converters.onnx.types import NUMBER_OF
from tvm_nnef.converters.onnx.values import Items, Stacked, Value

TAKEN_OVER: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "CausalConvWithState": (27, {"channels_last": 0, "dilation": 1, "ndim": 1, "state_window": 0}),
    "LinearAttention": (27, {"state_window": 0}),
    "QuantizeLinear": (21, {}),
    "DequantizeLinear": (21, {}),
}
"""Operators of ONNX Runtime's domain that ONNX has, since an opset, with the same inputs; and
attributes that it has not, with the values of an operator without them."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The nodes that stand for one node, and the operator sets that they are written in."""

    nodes: tuple[onnx.NodeProto, ...]
    opsets: Mapping[str, int]


def expand(
    proto: onnx.NodeProto,
    inputs: Sequence[Tensor | None],
    opsets: Mapping[str, int],
    prefix: str,
    sequences: Mapping[str, Items | Stacked],
) -> Expansion | None:
    """The body of a node's operator instead of it, None if ONNX defines none.

    Inner values get names that begin with ``prefix``. ``sequences`` are those among the inputs, by
    name.
    """
    types = [
        _type(sequences.get(name, each)) for name, each in zip(proto.input, inputs, strict=True)
    ]
    function = _body(proto, types, opsets)
    if function is None:
        return None
    names = {**_bound(function.input, proto.input), **_bound(function.output, proto.output)}
    fresh = (f"{prefix}/{number}" for number in itertools.count())
    given = {attribute.name: attribute for attribute in proto.attribute}
    defaults = {attribute.name: attribute for attribute in function.attribute_proto}
    known = {**_defaults(proto, opsets), **defaults, **given}
    nodes = tuple(_renamed(function.node, names, fresh, prefix, known))
    return Expansion(nodes, {**opsets, **opsets_of(function.opset_import)})


def as_standard(
    proto: onnx.NodeProto, opsets: Mapping[str, int]
) -> tuple[onnx.NodeProto, Mapping[str, int]]:
    """A node of an operator that ONNX has taken over as one of ONNX; any other as it is."""
    if proto.domain != "com.microsoft" or proto.op_type not in TAKEN_OVER:
        return proto, opsets
    since, without = TAKEN_OVER[proto.op_type]
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    made.domain = ""
    del made.attribute[:]
    made.attribute.extend(each for each in proto.attribute if without.get(each.name) != each.i)
    return made, {**opsets, "": max(since, opsets.get("", since))}


def has_body(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether ONNX defines an operator by a body, for some types of its inputs at least."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema = onnx.defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _body(
    proto: onnx.NodeProto, types: Sequence[onnx.TypeProto], opsets: Mapping[str, int]
) -> onnx.FunctionProto | None:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema = onnx.defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return None
    version = opsets.get("", schema.since_version)
    if schema.has_context_dependent_function:
        usable = [
            each for each in schema.context_dependent_function_opset_versions if each <= version
        ]
        if not usable:
            return None
        text = schema.get_context_dependent_function_with_opset_version(
            max(usable), proto.SerializeToString(), [each.SerializeToString() for each in types]
        )
        return onnx.FunctionProto.FromString(text) if text else None
    if schema.has_function:
        usable = [each for each in schema.function_opset_versions if each <= version]
        text = schema.get_function_with_opset_version(max(usable)) if usable else b""
        return onnx.FunctionProto.FromString(text) if text else None
    return None


def _type(value: Value | None) -> onnx.TypeProto:
    """The type of an input; the items of a sequence without any count as float32."""
    match value:
        case None:
            return onnx.TypeProto()
        case Tensor():
            number = NUMBER_OF[value.dtype]
            return onnx.helper.make_tensor_type_proto(number, spelled(value.shape))
        case Stacked():
            dtype = value.tensor.dtype
        case _:
            dtype = value[0].dtype if value else "float32"
    item = onnx.helper.make_tensor_type_proto(NUMBER_OF[dtype], None)
    return onnx.helper.make_sequence_type_proto(item)


def _defaults(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> dict[str, onnx.AttributeProto]:
    """The attributes that an operator has by default."""
    schema = onnx.defs.get_schema(proto.op_type, opsets.get(proto.domain, 1), proto.domain)
    return {
        name: each.default_value
        for name, each in schema.attributes.items()
        if each.default_value.name
    }


def _bound(formal: Sequence[str], actual: Sequence[str]) -> dict[str, str]:
    padded = [*actual, *([""] * (len(formal) - len(actual)))]
    return dict(zip(formal, padded, strict=False))


def _renamed(
    body: Sequence[onnx.NodeProto],
    names: dict[str, str],
    fresh: Iterator[str],
    prefix: str,
    attributes: Mapping[str, onnx.AttributeProto],
) -> Iterator[onnx.NodeProto]:
    for node in body:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}/{node.op_type}"
        for position, name in enumerate(node.input):
            copy.input[position] = names.get(name, name) if name else ""
        for position, name in enumerate(node.output):
            # An output of the function that is not used may still be read inside.
            if name and not names.get(name):
                names[name] = next(fresh)
            copy.output[position] = names[name] if name else ""
        del copy.attribute[:]
        copy.attribute.extend(_attributes(node, names, fresh, prefix, attributes))
        yield copy


def _attributes(
    node: onnx.NodeProto,
    names: Mapping[str, str],
    fresh: Iterator[str],
    prefix: str,
    attributes: Mapping[str, onnx.AttributeProto],
) -> Iterator[onnx.AttributeProto]:
    for attribute in node.attribute:
        copy = onnx.AttributeProto()
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in attributes:
                continue
            copy.CopyFrom(attributes[attribute.ref_attr_name])
            copy.name = attribute.name
        else:
            copy.CopyFrom(attribute)
        if copy.HasField("g"):
            inner = dict(names)
            inside = tuple(_renamed(copy.g.node, inner, fresh, prefix, attributes))
            del copy.g.node[:]
            copy.g.node.extend(inside)
            for value in copy.g.output:
                value.name = inner.get(value.name, value.name)
        yield copy
