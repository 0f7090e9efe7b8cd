"""Scores of classes and targets as operators of ai.onnx.ml return them, and labels of classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import Node

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Transformations of scores, as TreeEnsemble numbers them."""


def transform_of(node: Node) -> str:
    """The attribute ``post_transform`` of a node."""
    found = node.text("post_transform", "NONE")
    if found not in TRANSFORMS:
        raise Invalid(f"'post_transform' is '{found}'", f"it may be: {', '.join(TRANSFORMS)}")
    return found


def transformed(scores: Tensor, transform: str, builder: Builder) -> Tensor:
    """The scores of several classes or targets, in rows, after a transform."""
    match transform:
        case "LOGISTIC":
            return builder.call("nn.sigmoid", scores)
        case "SOFTMAX":
            return builder.call("nn.softmax", scores, axes=[1])
        case "SOFTMAX_ZERO":
            return builder.call("ml.softmax_zero", scores)
        case "PROBIT":
            return builder.call("ml.probit", scores)
    return scores


def transformed_targets(scores: Tensor, transform: str, builder: Builder) -> Tensor:
    """The scores of targets after a transform.

    That of a single one is refused but for PROBIT: ONNX defines it, and ONNX Runtime leaves it out.
    """
    if scores.shape[1] == 1 and transform not in ("NONE", "PROBIT"):
        reason = f"'post_transform' is {transform} for a single target"
        hint = "ONNX Runtime ignores it: set it to NONE, and add what is meant as a node"
        raise Unconvertible(reason, hint)
    return transformed(scores, transform, builder)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of classes: integers, or texts, instead of which results have their indices."""

    values: tuple[int, ...]
    texts: tuple[str, ...] = ()

    def at(self, position: Tensor, builder: Builder) -> Tensor:
        """The labels of classes at positions."""
        if self.values == tuple(range(len(self.values))):
            found = builder.cast(position, "int64")
        else:
            table = builder.constant(self.values, "int64")
            found = builder.call("layout.gather", table, position, as_shape=position.shape, axis=0)
        found.texts = self.texts
        return found


def labels_of(node: Node, integers: str = "classlabels_ints") -> Labels:
    """The labels in the attributes of a classifier."""
    values, texts = node.integers(integers) or [], node.texts("classlabels_strings") or []
    if bool(values) == bool(texts):
        raise Invalid(f"one of '{integers}' and 'classlabels_strings' must be given")
    return Labels(tuple(values or range(len(texts))), tuple(texts))


def top_class(scores: Tensor, labels: Labels, builder: Builder) -> Tensor:
    """The label of the largest score in each row, of equal ones the first."""
    shape = scores.shape[:1]
    best = builder.call(
        "math.argmax", scores, as_type="int32", as_shape=shape, axis=1, squeeze=True
    )
    return labels.at(best, builder)


def above(score: Tensor, threshold: float, labels: Labels, builder: Builder) -> Tensor:
    """The second label where a score is above a threshold, else the first one."""
    passed = builder.call("math.gt", score, threshold, as_type="bool")
    position = builder.call("layout.cast", passed, as_type="int32", generics=("int",))
    return labels.at(position, builder)


def two_columns(left: Tensor, right: Tensor, builder: Builder) -> Tensor:
    """Two scores of each row side by side."""
    return builder.concat([builder.unsqueeze(each, [1]) for each in (left, right)], 1)


def of_one_score(score: Tensor, transform: str, is_probability: bool, builder: Builder) -> Tensor:
    """The scores of two classes, of which only that of the second is computed.

    As ONNX Runtime defines them: that of the first is the opposite, or what a probability leaves.
    """
    if transform == "PROBIT":
        hint = "ONNX Runtime leaves one of them undefined: use another transform"
        raise Unconvertible("'post_transform' is PROBIT for two classes with one score", hint)
    other = builder.call("math.neg", score)
    if transform == "LOGISTIC":
        pair = builder.cast(two_columns(other, score, builder), "float32")
        return transformed(pair, transform, builder)
    if is_probability:
        other = builder.call("math.add", other, 1.0)
    return builder.cast(two_columns(other, score, builder), "float32")


def real_rows(x: Tensor, builder: Builder) -> Tensor:
    """A batch of rows of features, in which a vector is one row."""
    if x.rank not in (1, 2):
        raise Invalid(f"its input has {x.rank} dimensions, not rows of features")
    return builder.reshape(x, (1, *x.shape)) if x.rank == 1 else x


def floats(node: Node, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """An attribute of type floats, or none."""
    return np.asarray(node.attributes.get(name, ()), np.float32)


def integers(node: Node, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """An attribute of type ints, or none."""
    return np.asarray(node.attributes.get(name, ()), np.int64)


def check_lengths(**lengths: int) -> None:
    """Raises Invalid for lists that are not equally long."""
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise Invalid(f"lists differ in length: {shown}")
