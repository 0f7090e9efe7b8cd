"""Ensembles of decision trees against ONNX Runtime and against a walk from node to node.

Random trees have all comparisons, thresholds that are infinite, zeros of both signs and the least
positive number, and rows have NaN and the thresholds themselves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.trees import EQ, LEQ, MEMBER, NEQ, Branches, Votes, forest
from tvm_nnef.diagnostics import NnefError

from .classical import DOUBLE, FLOAT, INT64, ROUTES, agrees, found, helper, model, singles

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
SPECIAL = np.array([-np.inf, -1.5, -0.0, 0.0, 1e-45, 0.5, 1, 2, np.inf], np.float32)


def rows(random: np.random.Generator, features: int, count: int = 17) -> np.ndarray:
    """Rows that hit thresholds, and have NaN."""
    x = random.choice(SPECIAL, (count, features))
    others = random.random(x.shape) < 0.4
    x[others] = random.standard_normal(others.sum())
    x[random.random(x.shape) < 0.15] = np.nan
    return x.astype(np.float32)


class Grown:
    """Random trees as attributes of the older operators; ``leaves`` are pairs of tree and node."""

    def __init__(self, random: np.random.Generator, trees: int, depth: int, features: int) -> None:
        names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                 "falsenodeids", "missing_value_tracks_true")  # fmt: skip
        self.random, self.features, self.nodes = random, features, {name: [] for name in names}
        self.leaves: list[tuple[int, int]] = []
        for tree in range(trees):
            self._node(tree, [0], depth)

    def _node(self, tree: int, count: list[int], depth: int) -> int:
        number, place = count[0], len(self.nodes["modes"])
        count[0] += 1
        leaf = {"treeids": tree, "nodeids": number, "modes": "LEAF", "values": 0.0}
        for name, values in self.nodes.items():
            values.append(leaf.get(name, 0))
        if depth == 0 or self.random.random() < 0.15:
            self.leaves.append((tree, number))
            return number
        special = self.random.random() < 0.7
        value = self.random.choice(SPECIAL) if special else self.random.standard_normal()
        chosen = {
            "modes": str(self.random.choice(MODES)),
            "featureids": int(self.random.integers(self.features)),
            "values": float(np.float32(value)),
            "missing_value_tracks_true": int(self.random.integers(2)),
            "truenodeids": self._node(tree, count, depth - 1),
            "falsenodeids": self._node(tree, count, depth - 1),
        }
        for name, each in chosen.items():
            self.nodes[name][place] = each
        return number

    def attributes(self, voters: str, classes: Callable[[int], Sequence[int]],
                   weight: Callable[[], float]) -> dict[str, Any]:  # fmt: skip
        """The attributes with votes of each leaf for some classes, by the number of its tree."""
        votes = [(*leaf, each) for leaf in self.leaves for each in classes(leaf[0])]
        return {
            **{f"nodes_{name}": values for name, values in self.nodes.items()},
            f"{voters}_treeids": [tree for tree, _, _ in votes],
            f"{voters}_nodeids": [node for _, node, _ in votes],
            f"{voters}_ids": [each for _, _, each in votes],
            f"{voters}_weights": singles([weight() for _ in votes]),
        }


def grown(random: np.random.Generator) -> Grown:
    sizes = random.integers((1, 0, 1), (6, 5, 5))
    return Grown(random, *map(int, sizes))


def regressor(random: np.random.Generator) -> tuple[Any, np.ndarray]:
    trees, targets = grown(random), int(random.integers(1, 4))
    classes = random.choice(("all", "by tree", "any"))
    every: dict[str, Callable[[int], Sequence[int]]] = {
        "all": lambda tree: range(targets),
        "by tree": lambda tree: [tree % targets],
        "any": lambda tree: [int(random.integers(targets))],
    }
    more: dict[str, Any] = {
        "aggregate_function": str(random.choice(("SUM", "AVERAGE", "MIN", "MAX")))
    }
    if targets > 1:
        more["post_transform"] = str(random.choice(("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")))
    if classes == "all":
        more["base_values"] = singles(random.standard_normal(targets))
    made = trees.attributes("target", every[classes], random.standard_normal)
    proto = model("TreeEnsembleRegressor", trees.features, {"y": FLOAT}, n_targets=targets,
                  **made, **more)  # fmt: skip
    return proto, rows(random, trees.features)


def classifier(random: np.random.Generator) -> tuple[Any, np.ndarray]:
    trees, classes = grown(random), int(random.integers(2, 5))
    kind = random.choice(("all", "by tree", "any") if classes > 2 else ("first", "second"))
    every: dict[str, Callable[[int], Sequence[int]]] = {
        "all": lambda tree: range(classes),
        "by tree": lambda tree: [tree % classes],
        "any": lambda tree: [int(random.integers(classes))],
        "first": lambda tree: [0],
        "second": lambda tree: [1],
    }
    positive = random.integers(2)
    more: dict[str, Any] = {"post_transform": str(random.choice(("NONE", "LOGISTIC", "SOFTMAX")))}
    if kind in ("all", "first"):
        count = classes if kind == "all" else 1
        more["base_values"] = singles(random.standard_normal(count))
    made = trees.attributes(
        "class", every[kind],
        lambda: random.uniform(0, 0.5) if positive else random.standard_normal(),
    )  # fmt: skip
    labels = [[0, 1, 2, 3], [5, -7, 9, 2]][random.integers(2)][:classes]
    proto = model("TreeEnsembleClassifier", trees.features, {"label": INT64, "y": FLOAT},
                  classlabels_int64s=labels, **made, **more)  # fmt: skip
    return proto, rows(random, trees.features)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_random_ensembles_agree_on_the_evaluator(make: Any) -> None:
    for seed in range(3):
        agrees(*make(np.random.default_rng(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("make", [regressor, classifier])
def test_many_random_ensembles_agree_on_the_evaluator(make: Any) -> None:
    for seed in range(3, 60):
        agrees(*make(np.random.default_rng(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
@pytest.mark.parametrize("make", [regressor, classifier])
def test_random_ensembles_agree_on_three_routes(make: Any, seed: int) -> None:
    agrees(*make(np.random.default_rng(seed)), ROUTES)


COMPARISONS = (operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne)


def walked(tests: Branches, root: int, row: np.ndarray) -> int:
    """The leaf that a row leads to."""
    members = dict(zip(np.flatnonzero(tests.mode == MEMBER), tests.members, strict=True))
    node = root
    while node >= 0:
        value, mode = row[tests.feature[node]], tests.mode[node]
        holds = value in members[node] if mode == MEMBER else COMPARISONS[mode](
            value, tests.split[node])  # fmt: skip
        holds = holds or (tests.missing[node] and np.isnan(value))
        node = int(tests.yes[node] if holds else tests.no[node])
    return ~node


def random_tests(random: np.random.Generator) -> tuple[Branches, np.ndarray]:
    """Branches of every mode whose children come later, some of them with two parents."""
    count = int(random.integers(1, 12))
    mode = random.integers(0, MEMBER + 1, count)
    split = random.choice(np.append(SPECIAL, np.nan), count).astype(np.float32)
    sets = [random.choice(SPECIAL, random.integers(1, 6)) for _ in range((mode == MEMBER).sum())]

    def children() -> np.ndarray:
        later = [random.integers(number + 1, count + 3) for number in range(count)]
        return np.array([each if each < count else ~random.integers(6) for each in later])

    tests = Branches(random.integers(0, 3, count), mode, split, random.random(count) < 0.5,
                  children(), children(), sets)  # fmt: skip
    return tests, np.array([0, *random.integers(-6, count, 2)])


def test_the_leaves_of_a_forest_are_those_of_a_walk() -> None:
    for seed in range(60):
        random = np.random.default_rng(seed)
        tests, roots = random_tests(random)
        ids = np.arange(6)
        votes = Votes(ids, ids, np.ones(6, np.float32), 6, 6)
        made = forest(tests, roots, votes, "SUM", np.dtype(np.float32))
        x = rows(random, 3)
        columns = x[:, : made.columns]
        if made.filled:
            filled = np.where(np.isnan(columns), -np.inf, columns)
            columns = np.concatenate([columns, filled], axis=1)
        for row, wide in zip(x, columns, strict=True):
            wanted = np.zeros(6)
            np.add.at(wanted, [walked(tests, int(root), row) for root in roots], 1)
            at = made.root.reshape(-1)
            for _ in range(made.depth):
                at = made.child[at] + (wide[made.column[at]] <= made.split[at])
            weights = made.weight[at]
            got = weights.sum(axis=0) if len(made.root) == 1 else weights[:, 0].reshape(
                made.root.shape).sum(axis=1)  # fmt: skip
            np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")


def numbered(**changes: Any) -> dict[str, Any]:
    """The attributes of a TreeEnsemble of one tree: x0 <= 0.5, then x1 in {1, 3.5}."""
    tensor = helper.make_tensor
    kind = changes.pop("kind", FLOAT)
    return {
        "tree_roots": [0], "n_targets": 2, "nodes_featureids": [0, 1],
        "nodes_modes": tensor("m", 2, [2], [LEQ, MEMBER]),
        "nodes_splits": tensor("s", kind, [2], [0.5, 0.0]),
        "nodes_truenodeids": [1, 0], "nodes_trueleafs": [0, 1],
        "nodes_falsenodeids": [2, 1], "nodes_falseleafs": [1, 1],
        "membership_values": tensor("v", kind, [3], [1.0, 3.5, np.nan]),
        "leaf_targetids": [0, 1, 1], "leaf_weights": tensor("w", kind, [3], [1.0, 2.0, 4.0]),
        **changes,
    }  # fmt: skip


X = np.array([[0, 1], [0, 3.5], [0, 2], [1, 1], [np.nan, 1], [0, np.nan]], np.float32)
LEAVES = np.array([[1, 0], [1, 0], [0, 2], [0, 4], [0, 4], [0, 2]])


def numbered_model(columns: int | None = 2, dtype: int = FLOAT, **changes: Any) -> Any:
    return model("TreeEnsemble", columns, {"y": dtype}, dtype=dtype, version=5,
                 **numbered(kind=dtype, **changes))  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "name"), [(FLOAT, "float32"), (DOUBLE, "float64"), (10, "float16")]
)
def test_members_of_sets(dtype: int, name: str) -> None:
    x = X.astype(name)
    (y,) = found(numbered_model(dtype=dtype), x, "reference")
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, LEAVES)


def test_missing_values_follow_the_branch_that_is_named() -> None:
    proto = numbered_model(nodes_missing_value_tracks_true=[1, 1])
    (y,) = found(proto, X, "reference")
    np.testing.assert_array_equal(y, [*LEAVES[:4], [1, 0], [1, 0]])


def test_a_transform_has_the_number_of_the_specification() -> None:
    """ONNX Runtime exchanges 1 and 2."""
    (y,) = found(numbered_model(post_transform=1), X, "reference")
    powers = np.exp(LEAVES)
    np.testing.assert_allclose(y, powers / powers.sum(axis=1, keepdims=True), rtol=1e-6)
    (y,) = found(numbered_model(post_transform=2), X, "reference")
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-LEAVES)), rtol=1e-6)


def test_thresholds_of_double_are_not_rounded() -> None:
    value = np.nextafter(0.5, 1)
    changes = {"nodes_splits": helper.make_tensor("s", DOUBLE, [2], [value, 0.0])}
    x = np.array([[value, 1], [np.nextafter(value, 1), 1]])
    (y,) = found(numbered_model(dtype=DOUBLE, **changes), x, "reference")
    np.testing.assert_array_equal(y, [[1, 0], [0, 4]])


@pytest.mark.slow
def test_a_model_reads_as_many_columns_as_its_trees_need() -> None:
    converted = tvm_nnef.convert(numbered_model(None), bounds=8)
    compiled = tvm_nnef.build(converted, progress=False)
    for count in (2, 5):
        x = np.concatenate([X, np.zeros((len(X), count - 2), np.float32)], axis=1)
        np.testing.assert_array_equal(compiled(x)[0], LEAVES)
    with pytest.raises(NnefError, match="the trees read 2 columns, but there are 1"):
        compiled(X[:, :1])


def test_a_tree_that_is_a_leaf() -> None:
    tensor = helper.make_tensor
    proto = numbered_model(
        nodes_featureids=[0], nodes_modes=tensor("m", 2, [1], [0]), membership_values=None,
        nodes_splits=tensor("s", 1, [1], [0.0]), nodes_truenodeids=[2], nodes_trueleafs=[1],
        nodes_falsenodeids=[2], nodes_falseleafs=[1],
    )  # fmt: skip
    (y,) = found(proto, X, "reference")
    np.testing.assert_array_equal(y, [[0, 4]] * len(X))


TREE = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
VOTES = {"treeids": [0, 0], "nodeids": [1, 2], "ids": [0, 0], "weights": [1.0, 2.0]}


def identified(**changes: Any) -> Any:
    """A TreeEnsembleRegressor of one test."""
    votes = {f"target_{name}": each for name, each in VOTES.items()}
    return model("TreeEnsembleRegressor", 1, {"y": FLOAT},
                 **{**TREE, **votes, "n_targets": 1, **changes})  # fmt: skip


def classified(**changes: Any) -> Any:
    """A TreeEnsembleClassifier of one test and two classes."""
    votes = {f"class_{name}": each for name, each in VOTES.items()}
    return model("TreeEnsembleClassifier", 1, {"label": INT64, "y": FLOAT},
                 **{**TREE, **votes, "classlabels_int64s": [0, 1], **changes})  # fmt: skip


def deep(depth: int) -> dict[str, Any]:
    """A tree whose every test leads to a leaf and to the next test."""
    nodes = list(range(2 * depth + 1))
    return {
        "nodes_treeids": [0] * len(nodes), "nodes_nodeids": nodes,
        "nodes_featureids": [0] * len(nodes), "nodes_values": [0.5] * len(nodes),
        "nodes_modes": ["BRANCH_LEQ"] * depth + ["LEAF"] * (depth + 1),
        "nodes_truenodeids": [*range(depth, 2 * depth), *[0] * (depth + 1)],
        "nodes_falsenodeids": [*range(1, depth), 2 * depth, *[0] * (depth + 1)],
    }  # fmt: skip


def many_targets() -> Any:
    """Votes of one node each for many targets, in trees of many nodes."""
    tree = deep(1000)
    votes = {
        "treeids": [0, 0],
        "nodeids": [1000, 1001],
        "ids": [0, 10**6 - 1],
        "weights": [1.0, 1.0],
    }
    return identified(**tree, **{f"target_{n}": v for n, v in votes.items()}, n_targets=10**6)


HOSTILE = {
    "a circle": (lambda: identified(nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
                                    nodes_falsenodeids=[2, 1, 0]), "leads back to itself"),
    "its own child": (lambda: identified(nodes_truenodeids=[0, 0, 0]), "leads back to itself"),
    "no such child": (lambda: identified(nodes_truenodeids=[7, 0, 0]), "does not exist"),
    "no such leaf": (lambda: identified(target_nodeids=[1, 9]), "does not exist"),
    "a node twice": (lambda: identified(nodes_nodeids=[0, 1, 1]), "given twice"),
    "nodes apart": (lambda: identified(nodes_treeids=[0, 1, 0]), "not one after the other"),
    "lists of other lengths": (lambda: identified(nodes_featureids=[0]), "differ in length"),
    "votes of other lengths": (lambda: identified(target_ids=[0]), "differ in length"),
    "no nodes": (lambda: identified(**dict.fromkeys(TREE)), "no trees"),
    "an unknown mode": (lambda: identified(nodes_modes=["BRANCH", "LEAF", "LEAF"]), "'BRANCH'"),
    "a target too many": (lambda: identified(target_ids=[0, 1]), "not one of 1"),
    "no targets": (lambda: identified(n_targets=0), "0 targets"),
    "a negative feature": (lambda: identified(nodes_featureids=[-1, 0, 0]), "negative"),
    "a feature too many": (lambda: identified(nodes_featureids=[9, 0, 0]), "read feature 9"),
    "a huge feature": (lambda: identified(nodes_featureids=[2**63 - 1, 0, 0]), "too large"),
    "an unknown aggregate": (lambda: identified(aggregate_function="MEDIAN"), "MEDIAN"),
    "an unknown transform": (lambda: identified(post_transform="TANH"), "TANH"),
    "a transform of one target": (lambda: identified(post_transform="LOGISTIC"), "single target"),
    "base values": (lambda: identified(base_values=[1.0, 2.0]), "2 base values"),
    "deep trees": (lambda: identified(**deep(10**4)), "more than 4096 levels"),
    "many targets": (many_targets, "1000000 targets"),
    "a class too many": (lambda: classified(class_ids=[7, 7]), "not one of 2"),
    "a negative class": (lambda: classified(class_ids=[-1, -1]), "not one of 2"),
    "targets without end": (lambda: identified(n_targets=2**62), "targets each"),
    "two kinds of labels": (lambda: classified(classlabels_strings=["a", "b"]), "one of"),
    "no labels": (lambda: classified(classlabels_int64s=None), "classlabels_strings is set"),
    "one undefined score": (lambda: classified(post_transform="PROBIT"), "PROBIT"),
    "a lost base value": (lambda: classified(base_values=[1.0, 2.0]), "2 base values"),
    "a root too many": (lambda: numbered_model(tree_roots=[5]), "does not exist"),
    "a negative root": (lambda: numbered_model(tree_roots=[-1]), "negative"),
    "a leaf too many": (lambda: numbered_model(nodes_falsenodeids=[3, 1]), "does not exist"),
    "no members": (lambda: numbered_model(membership_values=None), "0 sets of members"),
    "a mode too many": (lambda: numbered_model(
        nodes_modes=helper.make_tensor("m", 2, [2], [0, 7]), membership_values=None), "mode"),
    "an aggregate too many": (lambda: numbered_model(aggregate_function=4), "from 0 to 3"),
    "weights that are integers": (lambda: numbered_model(
        leaf_weights=helper.make_tensor("w", INT64, [3], [1, 2, 4])), "same type"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_are_no_trees_is_refused(name: str) -> None:
    make, words = HOSTILE[name]
    with pytest.raises(NnefError, match=words) as caught:
        tvm_nnef.convert(make(), bounds=8)
    assert "cannot be converted with these inputs" not in str(caught.value)


def test_depth_is_limited_to_what_a_row_may_take() -> None:
    count = 4096
    ids = np.arange(count)
    tests = Branches(np.zeros(count, int), np.full(count, LEQ), np.zeros(count, np.float32),
                  np.zeros(count, bool), np.full(count, ~0), np.append(ids[1:], ~0))  # fmt: skip
    votes = Votes(np.zeros(1, int), np.zeros(1, int), np.ones(1, np.float32), 1, 1)
    made = forest(tests, np.zeros(1, int), votes, "SUM", np.dtype(np.float32))
    assert made.depth == count
    doubled = replace(tests, mode=np.full(count, EQ))
    with pytest.raises(Unconvertible, match="more than 4096 levels"):
        forest(doubled, np.zeros(1, int), votes, "SUM", np.dtype(np.float32))


def test_two_classes_with_their_own_votes() -> None:
    """The top class is that of the larger score, which is not what ONNX Runtime returns."""
    votes = {"class_treeids": [0] * 4, "class_nodeids": [1, 1, 2, 2], "class_ids": [0, 1, 0, 1],
             "class_weights": singles([0.8, 0.2, 0.3, 0.7])}  # fmt: skip
    proto = classified(**votes, classlabels_int64s=[5, 7], base_values=[0.0, 0.25])
    label, y = found(proto, np.array([[0.0], [1.0]], np.float32), "reference")
    assert label.tolist() == [5, 7]
    np.testing.assert_allclose(y, [[0.8, 0.45], [0.3, 0.95]], rtol=1e-6)


def test_not_equal_holds_for_nan() -> None:
    ids = np.zeros(1, int)
    tests = Branches(
        ids, np.full(1, NEQ), np.ones(1, np.float32), np.zeros(1, bool), ids + ~0, ids + ~1
    )
    votes = Votes(np.arange(2), np.zeros(2, int), np.array([1, 2], np.float32), 2, 1)
    made = forest(tests, ids, votes, "SUM", np.dtype(np.float32))
    at = made.child[0] + (np.nan <= made.split[0])
    at = made.child[at] + (np.nan <= made.split[at])
    assert made.weight[at] == 1
