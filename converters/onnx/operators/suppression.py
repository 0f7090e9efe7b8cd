"""Non-maximum suppression of boxes."""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import decided
from tvm_nnef.converters.common.ranking import first_in_order
from tvm_nnef.converters.common.symbolic import decided_by_data, minimum
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator


@operator("NonMaxSuppression", since=10)
def non_max_suppression(node: Node, builder: Builder) -> Tensor:
    """The boxes, by score, that overlap no better one of their class."""
    boxes, scores = node.input(0), node.input(1)
    shape = node.known_shape()

    def scalar(position: int, default: float | int | None) -> Tensor | float | int | None:
        found = node.optional(position)
        return default if found is None or not found.size else builder.reshape(found, ())

    limit = scalar(2, 0)
    centered = node.flag("center_point_box")
    batch, classes, count = scores.shape
    thresholds = scalar(3, 0.0), scalar(4, None)
    given = [node.optional(position) for position in (2, 3, 4)]
    if shape is None and not any(each and each.size and each.value is None for each in given):
        return _suppressed(node, boxes, scores, centered, builder)
    overlap = builder.call(
        "onnx.box_overlap", boxes, as_shape=(batch, count, count), centered=centered
    )
    _, order = first_in_order(scores, 2, count, builder, dtype="int32")
    kept = builder.call(
        "onnx.suppress", overlap, scores, order, limit, *thresholds,
        as_type="bool", as_shape=(batch, classes, count),
    )  # fmt: skip
    flat = builder.reshape(kept, (batch * classes * count,))
    if shape is None:
        found = builder.call("layout.nonzero", flat, as_type="int64")
        positions = builder.squeeze(decided(found, (1,), 1, batch * classes * count, builder), [0])
        return builder.call(
            "onnx.chosen_boxes", order, positions, as_type="int64", as_shape=(*positions.shape, 3)
        )
    location = builder.reshape(
        builder.call("extra.positions_of_true", flat, as_type="int32"), kept.shape
    )
    return builder.call(
        "onnx.box_rows", kept, order, location, as_type="int64", as_shape=shape, count=shape[0]
    )


def _suppressed(
    node: Node, boxes: Tensor, scores: Tensor, centered: bool, builder: Builder
) -> Tensor:
    """The boxes that are chosen, if limit and thresholds are known before a run."""
    batch, classes, count = scores.shape

    def number_at(position: int) -> float | None:
        found = node.value(position)
        return None if found is None or not found.size else found.item()

    limit = minimum(max(0, int(number_at(2) or 0)), count)
    found = builder.call(
        "algo.nonmax_suppress", boxes, scores, as_type="int64",
        box_format="CENTER" if centered else "CORNERS", max_outputs_per_class=limit,
        iou_threshold=number_at(3) or 0.0, score_threshold=number_at(4),
    )  # fmt: skip
    most = decided_by_data(found, 0, batch * classes * limit, next(builder.numbers))
    found.shape = (most, 3)
    return found
