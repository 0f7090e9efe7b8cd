"""Linear models and support vector machines of ai.onnx.ml."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import matrix_product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.trees import DOMAIN
from tvm_nnef.converters.onnx.registry import operator
from tvm_nnef.converters.onnx.scores import (
    above,
    check_lengths,
    floats,
    integers,
    labels_of,
    of_one_score,
    real_rows,
    top_class,
    transform_of,
    transformed,
    transformed_targets,
)
from tvm_nnef.converters.onnx.trees import MOST_BYTES

_Matrix = NDArray[np.float32]
_ROUNDS = 100
"""Upper limit of the fits of probabilities of pairs of classes, as in LIBSVM."""


def _rows(node: Node, builder: Builder) -> Tensor:
    return builder.cast(real_rows(node.input(0), builder), "float32")


def _affine(x: Tensor, weights: _Matrix, bias: _Matrix, builder: Builder) -> Tensor:
    """The products of rows with the rows of a matrix, and a bias added."""
    size = x.shape[1]
    if isinstance(size, int) and size != weights.shape[1]:
        raise Invalid(f"its input has {size} features, and it has coefficients for "
                      f"{weights.shape[1]}")  # fmt: skip
    found = matrix_product(x, builder.constant(weights.T), builder)
    return builder.binary("math.add", found, builder.constant(bias)) if bias.any() else found


def _split(values: _Matrix, rows: int, name: str) -> _Matrix:
    """Values as so many rows."""
    if rows < 1 or not len(values) or len(values) % rows:
        raise Invalid(f"'{name}' has {len(values)} values, not equally many in {rows} rows")
    return values.reshape(rows, -1)


@operator("LinearRegressor", domain=DOMAIN)
def linear_regressor(node: Node, builder: Builder) -> Tensor:
    """Sums of weighted features, one for each target."""
    targets, bias = node.integer("targets", 1), floats(node, "intercepts")
    if len(bias) not in (0, targets):
        raise Invalid(f"it has {len(bias)} intercepts for {targets} targets")
    weights = _split(floats(node, "coefficients"), targets, "coefficients")
    scores = _affine(_rows(node, builder), weights, bias, builder)
    return transformed_targets(scores, transform_of(node), builder)


@operator("LinearClassifier", domain=DOMAIN)
def linear_classifier(node: Node, builder: Builder) -> list[Tensor]:
    """The classes with the largest sums of weighted features, and the sums."""
    labels, transform = labels_of(node), transform_of(node)
    x, coefficients = _rows(node, builder), floats(node, "coefficients")
    bias, classes = floats(node, "intercepts"), len(labels.values)
    features = x.shape[1]
    count = len(bias)
    if not count:
        count = len(coefficients) // features if isinstance(features, int) and features else classes
    weights = _split(coefficients, count, "coefficients")
    scores = _affine(x, weights, bias, builder)
    if count == 1 and classes == 2:
        score = builder.squeeze(scores, [1])
        label = above(score, 0.0, labels, builder)
        return [label, of_one_score(score, transform, True, builder)]
    if count != classes or classes == 1:
        raise Invalid(f"it has coefficients of {count} classes, and {classes} labels")
    return [top_class(scores, labels, builder), transformed(scores, transform, builder)]


def _kernel(node: Node, x: Tensor, vectors: _Matrix, builder: Builder) -> Tensor:
    """Return the similarities of rows to support vectors."""
    kind, parameters = node.text("kernel_type", "LINEAR"), floats(node, "kernel_params")
    size = x.shape[1]
    if isinstance(size, int) and size != vectors.shape[1]:
        raise Invalid(f"its input has {size} features, and its vectors have {vectors.shape[1]}")
    if kind == "LINEAR":
        return matrix_product(x, builder.constant(vectors.T), builder)
    if kind not in ("POLY", "RBF", "SIGMOID"):
        raise Invalid(f"'kernel_type' is '{kind}'", "it may be: LINEAR, POLY, RBF, SIGMOID")
    if len(parameters) != 3:
        raise Invalid(f"'kernel_params' has {len(parameters)} values, not gamma, coef0 and degree")
    gamma, offset, degree = (float(str(each)) for each in parameters)
    if kind == "RBF":
        shape = (x.shape[0], len(vectors))
        far = builder.call("ml.squared_distances", x, builder.constant(vectors), as_shape=shape)
        return builder.call("math.exp", builder.call("math.mul", far, -gamma))
    product = matrix_product(x, builder.constant(vectors.T), builder)
    scaled = builder.call("math.add", builder.call("math.mul", product, gamma), offset)
    if kind == "SIGMOID":
        return builder.call("math.tanh", scaled)
    return builder.call("math.pow", scaled, degree)


@operator("SVMRegressor", domain=DOMAIN)
def svm_regressor(node: Node, builder: Builder) -> Tensor:
    """Weighted similarities to support vectors, or of features, added up."""
    if transform_of(node) != "NONE":
        reason = f"'post_transform' is {transform_of(node)}"
        hint = "ONNX Runtime ignores it: set it to NONE, and add what is meant as a node"
        raise Unconvertible(reason, hint)
    x, coefficients = _rows(node, builder), floats(node, "coefficients")
    rho, supports = floats(node, "rho"), node.integer("n_supports")
    if len(rho) < 1 or not len(coefficients):
        raise Invalid("'rho' and 'coefficients' must be given")
    if supports > 0:
        check_lengths(supports=supports, coefficients=len(coefficients))
        vectors = _split(floats(node, "support_vectors"), supports, "support_vectors")
        x = _kernel(node, x, vectors, builder)
    score = _affine(x, coefficients[None], rho[:1], builder)
    if not node.flag("one_class"):
        return score
    inside = builder.call("math.gt", score, 0.0, as_type="bool")
    return builder.call("math.select", inside, 1.0, -1.0, as_type="float32")


@operator("SVMClassifier", domain=DOMAIN)
def svm_classifier(node: Node, builder: Builder) -> list[Tensor]:
    """The classes that win against most others, and scores of classes or of pairs of them."""
    labels, transform = labels_of(node), transform_of(node)
    classes, counts = len(labels.values), integers(node, "vectors_per_class")
    if classes < 2:
        raise Unconvertible("it has a single class", "give two or more classes")
    x, rho = _rows(node, builder), floats(node, "rho")
    coefficients = floats(node, "coefficients")
    first, second = floats(node, "prob_a"), floats(node, "prob_b")
    check_lengths(prob_a=len(first), prob_b=len(second))
    if not counts.sum():
        if classes == 2 or not len(rho):
            reason = "it has no support vectors, and rows of coefficients for two classes"
            raise Unconvertible(reason, "use a LinearClassifier")
        weights = _split(coefficients, classes, "coefficients")
        scores = _affine(x, weights, np.repeat(rho[:1], classes), builder)
        return [top_class(scores, labels, builder), transformed(scores, transform, builder)]
    if (counts < 0).any():
        raise Invalid("'vectors_per_class' has a negative number")
    check_lengths(vectors_per_class=len(counts), labels=classes)
    pairs, vectors = classes * (classes - 1) // 2, int(counts.sum())
    lengths = {"coefficients": (classes - 1) * vectors, "rho": pairs}
    lengths |= {"prob_a": pairs} if len(first) else {}
    for name, wanted in lengths.items():
        if len(floats(node, name)) != wanted:
            raise Invalid(f"'{name}' has {len(floats(node, name))} values, not {wanted}")
    if pairs * vectors * 4 > MOST_BYTES:
        raise Unconvertible(f"it has {pairs} pairs of classes and {vectors} support vectors",
                            f"the limit is {MOST_BYTES} bytes of coefficients")  # fmt: skip
    support = _split(floats(node, "support_vectors"), vectors, "support_vectors")
    similar = _kernel(node, x, support, builder)
    weights = _of_pairs(coefficients.reshape(classes - 1, vectors), counts)
    scores = _affine(similar, weights, rho, builder)
    label = top_class(_votes(scores, classes, builder), labels, builder)
    if len(first):
        chances = _chances(scores, first, second, classes, builder)
        return [label, transformed(chances, transform, builder)]
    if classes > 2:
        return [label, transformed(scores, transform, builder)]
    score = builder.squeeze(scores, [1])
    return [label, of_one_score(score, transform, transform != "NONE", builder)]


def _pairs(classes: int) -> list[tuple[int, int]]:
    """The pairs of classes, in their order."""
    return [(left, right) for left in range(classes) for right in range(left + 1, classes)]


def _of_pairs(coefficients: _Matrix, counts: NDArray[np.int64]) -> _Matrix:
    """The coefficients of all support vectors for each pair of classes, 0 for those of others."""
    ends = np.cumsum(counts)
    parts = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    pairs = _pairs(len(counts))
    found = np.zeros((len(pairs), coefficients.shape[1]), np.float32)
    for row, (left, right) in zip(found, pairs, strict=True):
        row[parts[left]] = coefficients[right - 1, parts[left]]
        row[parts[right]] = coefficients[left, parts[right]]
    return found


def _votes(scores: Tensor, classes: int, builder: Builder) -> Tensor:
    """Return the number of pairs that each class wins: its first one by a score above 0."""
    pairs = _pairs(classes)
    signs = np.zeros((len(pairs), classes), np.float32)
    places = np.arange(len(pairs))
    signs[places, [left for left, _ in pairs]] = 1.0
    signs[places, [right for _, right in pairs]] = -1.0
    won = builder.call("math.gt", scores, 0.0, as_type="bool")
    won = builder.call("layout.cast", won, as_type="float32", generics=("real",))
    lost = np.maximum(-signs, 0.0).sum(axis=0)
    return _affine(won, signs.T, lost, builder)


def _chances(
    scores: Tensor, first: _Matrix, second: _Matrix, classes: int, builder: Builder
) -> Tensor:
    """The probabilities of classes that fit best to those of pairs of them (Wu, Lin and Weng)."""
    scaled = builder.binary("math.mul", scores, builder.constant(first))
    shifted = builder.binary("math.add", scaled, builder.constant(second))
    # 1 - sigmoid(x), which is sigmoid(-x)
    wins = builder.call("nn.sigmoid", builder.call("math.neg", shifted))
    wins = builder.call("math.clamp", wins, 1e-7, 1.0 - 1e-7)
    rows = scores.shape[0]
    index = np.zeros((classes, classes), np.int32)
    for number, (left, right) in enumerate(_pairs(classes)):
        index[left, right], index[right, left] = number, number + scores.shape[1]
    loses = builder.call("math.sub", builder.constant(1.0, "float32"), wins, as_shape=wins.shape)
    both = builder.concat([wins, loses], 1)
    matrix = builder.call(
        "layout.gather", both, builder.constant(index), as_shape=(rows, classes, classes), axis=1
    )
    return builder.call("ml.coupled", matrix, as_shape=(rows, classes), rounds=_ROUNDS)
