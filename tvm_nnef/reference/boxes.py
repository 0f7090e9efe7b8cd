"""Non-maximum suppression in NumPy.

Input: boxes and scores. Output: the chosen boxes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.graph.nodes import Operation
from tvm_nnef.reference.arithmetic import Array


def nonmax_suppress(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    """Return rows of batch, class and box of ``algo.nonmax_suppress``, int64[~,3] (section 4.7).

    For each class, in the order of scores, these are the boxes whose intersection over union with
    those chosen before does not exceed the threshold, and whose score does.
    """
    boxes, scores = (each.astype(np.result_type(each, np.float32)) for each in operands)
    attributes = operation.attributes
    corners = _corners(boxes, attributes["box_format"] == "CENTER")
    limit, overlap = attributes["max_outputs_per_class"], attributes["iou_threshold"]
    least = attributes["score_threshold"]
    assert isinstance(limit, int) and isinstance(overlap, (int, float))
    rows: list[tuple[int, int, int]] = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        score = scores[batch, kind]
        order = np.argsort(-score, kind="stable")
        if least is not None:
            order = order[score[order] > least]
        chosen: list[int] = []
        for box in order[: None if limit else 0]:
            ratios = _intersection_over_union(corners[batch, box], corners[batch, chosen])
            if not (ratios > overlap).any():
                chosen.append(int(box))
            if len(chosen) == limit:
                break
        rows += [(batch, kind, box) for box in chosen]
    return (np.array(rows, np.int64).reshape(-1, 3),)


def _corners(boxes: Array, center: bool) -> Array:
    """Return the smallest and the largest corner of each box: [..., 2, 2]."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if center:
        half = second * boxes.dtype.type(0.5)
        return np.stack([first - half, first + half], -2)
    return np.stack([np.minimum(first, second), np.maximum(first, second)], -2)


def _intersection_over_union(box: Array, others: Array) -> Array:
    low = np.maximum(box[0], others[:, 0])
    high = np.minimum(box[1], others[:, 1])
    common = np.maximum(high - low, 0).prod(-1)
    areas = (box[1] - box[0]).prod(-1) + (others[:, 1] - others[:, 0]).prod(-1)
    ratios: Array = common / (areas - common)
    return ratios
