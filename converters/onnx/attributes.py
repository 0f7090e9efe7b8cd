"""Whether a standard node is written as the schema of its operator says, before it is converted.

A node and its opsets enter; what is not as the schema says leaves as :class:`Unconvertible`, with
what is allowed. Values of numbers are left to the converters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.diagnostics import did_you_mean

_POSITIONS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
           "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn")  # fmt: skip

_BY_ATTRIBUTE: Mapping[str, Sequence[str]] = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "padding_mode": ("zeros", "border", "reflection"),
    "coordinate_transformation_mode": _POSITIONS,
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "approximate": ("none", "tanh"),
}
_BY_OPERATOR: Mapping[tuple[str, str], Sequence[str]] = {
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("CausalConvWithState", "activation"): ("none", "silu", "swish"),
    ("LinearAttention", "update_rule"): ("linear", "gated", "delta", "gated_delta"),
    **{(name, "direction"): ("forward", "reverse", "bidirectional")
       for name in ("RNN", "GRU", "LSTM")},
    **{(name, "mode"): ("DCR", "CRD") for name in ("DepthToSpace", "SpaceToDepth")},
    **{(name, "mode"): ("nearest", "linear", "bilinear", "cubic")
       for name in ("Resize", "Upsample")},
    **{(name, "reduction"): ("none", "add", "mul", "max", "min")
       for name in ("ScatterElements", "ScatterND")},
    **{(name, "reduction"): ("none", "sum", "mean")
       for name in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")},
    ("GridSample", "mode"): ("linear", "bilinear", "nearest", "cubic", "bicubic"),
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("RoiAlign", "mode"): ("avg", "max"),
    ("RoiAlign", "coordinate_transformation_mode"): ("half_pixel", "output_half_pixel"),
    ("TensorScatter", "mode"): ("linear", "circular"),
    ("TfIdfVectorizer", "mode"): ("TF", "IDF", "TFIDF"),
}  # fmt: skip
"""The texts that an attribute may be; the schemas of ``onnx`` say so in words only."""


def check_node(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> None:
    """Raises Unconvertible for attributes, inputs and outputs that a schema does not allow.

    What has no schema, an operator of a custom domain, may have any.
    """
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema = onnx.defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return
    _check_counts(proto, schema)
    seen: set[str] = set()
    for attribute in proto.attribute:
        if attribute.name in seen:
            raise Invalid(f"it has the attribute '{attribute.name}' twice")
        seen.add(attribute.name)
        _check_attribute(proto.op_type, attribute, schema)
        if attribute.name == "num_outputs" and attribute.i != len(proto.output):
            reason = f"'num_outputs' is {attribute.i}, but it has {len(proto.output)} outputs"
            raise Invalid(reason)
        if attribute.ref_attr_name:
            reason = f"its attribute '{attribute.name}' refers to one of a function"
            raise Invalid(reason)
    for name, each in schema.attributes.items():
        if each.required and name not in seen:
            raise Invalid(f"its attribute '{name}' is missing")


def _check_counts(proto: onnx.NodeProto, schema: onnx.defs.OpSchema) -> None:
    for what, names, least, most in (
        ("input", proto.input, schema.min_input, schema.max_input),
        ("output", proto.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            allowed = f"{least}" if least == most else f"{least} to {most}"
            raise Invalid(f"it has {len(names)} {what}s, not {allowed}")


def _check_attribute(
    operator: str, attribute: onnx.AttributeProto, schema: onnx.defs.OpSchema
) -> None:
    name, known = attribute.name, schema.attributes
    if name not in known:
        listed = ", ".join(known) or "none"
        hint = did_you_mean(name, known) or f"attributes that it has: {listed}"
        raise Unconvertible(
            f"it has no attribute '{name}' since opset {schema.since_version}", hint
        )
    given = onnx.AttributeProto.AttributeType.Name(attribute.type)
    wanted = known[name].type.name
    if attribute.type and given != wanted:
        reason = f"its attribute '{name}' is {_kind(given)}, not {_kind(wanted)}"
        raise Invalid(reason)
    allowed = _BY_OPERATOR.get((operator, name), _BY_ATTRIBUTE.get(name))
    if wanted == "STRING" and allowed is not None:
        text = attribute.s.decode(errors="replace")
        if text not in allowed:
            hint = f"it may be: {', '.join(allowed)}"
            raise Unconvertible(f"its attribute '{name}' is '{text}'", hint)


def _kind(name: str) -> str:
    """A type of attributes in words: ``an int``, ``a list of floats``."""
    plural = name.endswith("S")
    word = name.lower().removesuffix("s").replace("_", " ")
    if plural:
        return f"a list of {word}s"
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
