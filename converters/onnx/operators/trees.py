"""Ensembles of decision trees: TreeEnsemble, and what was before it for targets and classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import largest
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator
from tvm_nnef.converters.onnx.scores import (
    TRANSFORMS,
    Labels,
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
    two_columns,
)
from tvm_nnef.converters.onnx.trees import (
    EQ,
    GT,
    GTE,
    LEQ,
    LT,
    MEMBER,
    NEQ,
    Branches,
    Flags,
    Forest,
    Ints,
    Reals,
    Votes,
    forest,
)

DOMAIN = "ai.onnx.ml"
_MODES = {b"BRANCH_LEQ": LEQ, b"BRANCH_LT": LT, b"BRANCH_GTE": GTE, b"BRANCH_GT": GT,
          b"BRANCH_EQ": EQ, b"BRANCH_NEQ": NEQ, b"LEAF": -1}  # fmt: skip
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_STEPS = 3
"""Steps that are written out in a round of ``tree_leaves``: more are slower."""


@dataclass(frozen=True, slots=True)
class _Ensemble:
    """The trees that the attributes of a node describe."""

    tests: Branches
    roots: Ints
    votes: Votes


@operator("TreeEnsemble", since=5, domain=DOMAIN)
def tree_ensemble(node: Node, builder: Builder) -> Tensor:
    """Sums, or other aggregates, of the weights of the leaves that rows lead to."""
    aggregate = _named(node, "aggregate_function", _AGGREGATES, 1)
    transform = _named(node, "post_transform", TRANSFORMS, 0)
    scores, _ = _scores(node, _numbered(node), aggregate, builder)
    found = transformed_targets(scores, transform, builder)
    return builder.cast(found, node.input(0).dtype)


@operator("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(node: Node, builder: Builder) -> Tensor:
    """The same of trees whose nodes are named by the number of a tree and their own."""
    aggregate = node.text("aggregate_function", "SUM")
    if aggregate not in _AGGREGATES:
        raise Invalid(f"'aggregate_function' is '{aggregate}'")
    targets = node.integer("n_targets", 1)
    scores, _ = _scores(node, _identified(node, "target", targets), aggregate, builder)
    base = _base_values(node, scores.dtype)
    if base.size not in (0, targets):
        raise Invalid(f"it has {base.size} base values for {targets} targets")
    scores = _with_base(scores, base, builder)
    return transformed_targets(builder.cast(scores, "float32"), transform_of(node), builder)


@operator("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(node: Node, builder: Builder) -> list[Tensor]:
    """The classes with the largest scores, and the scores."""
    labels, transform = labels_of(node, "classlabels_int64s"), transform_of(node)
    ensemble = _identified(node, "class", len(labels.values))
    voted_for = np.unique(ensemble.votes.target)
    base = _base_values(node, "float64")
    if len(labels.values) == 1 or (len(labels.values) == 2 and len(voted_for) == 1):
        return _one_score(node, ensemble, labels, base, transform, builder)
    if base.size not in (0, len(labels.values)):
        raise Invalid(f"it has {base.size} base values for {len(labels.values)} classes")
    scores, voted = _scores(node, ensemble, "SUM", builder)
    scores = _with_base(scores, base.astype(scores.dtype), builder)
    candidates = scores
    if voted is not None and not base.size and len(labels.values) > 2:
        # A class without votes is not the top one, even if all others have negative scores.
        candidates = builder.select(voted, scores, -np.inf)
    label = top_class(candidates, labels, builder)
    return [label, transformed(builder.cast(scores, "float32"), transform, builder)]


def _one_score(
    node: Node,
    ensemble: _Ensemble,
    labels: Labels,
    base: Reals,
    transform: str,
    builder: Builder,
) -> list[Tensor]:
    """The labels and scores if all votes are for one class: ONNX Runtime defines what they mean."""
    votes = ensemble.votes
    second = bool((votes.target == 1).any())
    if base.size > 1 or (base.size and second):
        reason = f"it has votes for one class only, and {base.size} base values"
        raise Unconvertible(reason, "give one base value, and let the leaves vote for class 0")
    only = Votes(votes.leaf, np.zeros_like(votes.target), votes.weight, votes.leaves, 1)
    one = _Ensemble(ensemble.tests, ensemble.roots, only)
    scores, _ = _scores(node, one, "SUM", builder)
    scores = _with_base(scores, base.astype(scores.dtype), builder)
    score = builder.squeeze(scores, [1])
    if len(labels.values) == 1:
        if labels.values != (1,) or labels.texts:
            hint = "add the class that a row has otherwise"
            raise Unconvertible("it has a single class", hint)
        found = transformed_targets(builder.cast(scores, "float32"), transform, builder)
        return [above(score, 0.0, Labels((0, 1)), builder), found]
    positive = bool((votes.weight >= 0).all())
    label = above(score, 0.5 if positive else 0.0, labels, builder)
    if second:
        other = builder.full(0.0, score.shape, score.dtype)
        pair = two_columns(other, score, builder)
        return [label, transformed(builder.cast(pair, "float32"), transform, builder)]
    return [label, of_one_score(score, transform, positive, builder)]


def _named(node: Node, name: str, names: tuple[str, ...], default: int) -> str:
    """Return the name that the number in an attribute stands for."""
    number = node.integer(name, default)
    if not 0 <= number < len(names):
        raise Invalid(f"'{name}' is {number}, not a number from 0 to {len(names) - 1}")
    return names[number]


def _scores(
    node: Node, ensemble: _Ensemble, aggregate: str, builder: Builder
) -> tuple[Tensor, Tensor | None]:
    """Return the votes of trees, by row and target, and whether they vote, None if always."""
    rows = real_rows(node.input(0), builder)
    dtype = np.result_type(
        np.float32,
        rows.dtype if rows.kind == "real" else np.float32,
        ensemble.tests.split.dtype,
        ensemble.votes.weight.dtype,
    )
    found = forest(ensemble.tests, ensemble.roots, ensemble.votes, aggregate, dtype)
    if found.columns > largest(rows.shape[1]):
        reason = f"its trees read feature {found.columns - 1}, and its input has {rows.shape[1]}"
        raise Invalid(reason)
    tables = _Tables(found, next(filter(None, node.proto.output)), builder)
    leaf = _leaves(found, tables, builder.cast(rows, str(dtype)), builder)
    scores = _aggregated(leaf, tables.weight, aggregate, builder)
    if aggregate == "AVERAGE":
        scores = builder.call("math.div", scores, float(len(ensemble.roots)))
    if found.voted is None:
        return scores, None
    count = _aggregated(leaf, builder.constant(found.voted), "MAX", builder)
    voted = builder.call("math.gt", count, 0.0, as_type="bool")
    if aggregate in ("MIN", "MAX"):
        scores = builder.select(voted, scores, 0.0)
    return scores, voted


class _Tables:
    """The arrays of a forest as constants, called after the result of its node."""

    def __init__(self, found: Forest, result: str, builder: Builder) -> None:
        def table(name: str, values: NDArray[np.generic], dtype: str | None = None) -> Tensor:
            made = builder.constant(values, dtype)
            made.hint = f"{result}/{name}"
            return made

        self.root = table("root", found.root, "int32")
        self.column = table("column", found.column, "int32")
        self.split = table("split", found.split)
        self.child = table("child", found.child, "int32")
        self.weight = table("weight", found.weight)


def _leaves(found: Forest, tables: _Tables, rows: Tensor, builder: Builder) -> Tensor:
    """The positions of the leaves that rows lead to, by group and tree."""
    shape = (rows.shape[0], *tables.root.shape)
    if not found.depth:
        return builder.expand(tables.root, shape)
    if found.filled or not isinstance(rows.shape[1], int):
        columns = found.columns * (2 if found.filled else 1)
        rows = builder.call(
            "ml.tree_columns", rows, as_shape=(rows.shape[0], columns), count=found.columns,
            filled=found.filled,
        )  # fmt: skip
    rounds = -(-found.depth // _STEPS)
    return builder.call(
        "ml.tree_leaves", rows, tables.root, tables.column, tables.split, tables.child,
        as_type="int32", as_shape=shape, steps=-(-found.depth // rounds), rounds=rounds,
    )  # fmt: skip


def _aggregated(leaf: Tensor, weight: Tensor, aggregate: str, builder: Builder) -> Tensor:
    """The weights at leaves, over the trees of each target."""
    name = {"MIN": "minima", "MAX": "maxima"}.get(aggregate, "sums")
    rows, groups, _ = leaf.shape
    shape = (rows, groups, weight.shape[1])
    found = builder.call(f"ml.tree_{name}", leaf, weight, as_type=weight.dtype, as_shape=shape)
    return builder.squeeze(found, [1] if groups == 1 else [2])


def _with_base(scores: Tensor, base: Reals, builder: Builder) -> Tensor:
    if not base.any():
        return scores
    return builder.binary("math.add", scores, builder.constant(base))


def _base_values(node: Node, dtype: str) -> Reals:
    """The base values of a node, those of ``base_values_as_tensor`` included."""
    return _real_list(node, "base_values").reshape(-1).astype(dtype)


def _real_list(node: Node, name: str) -> Reals:
    """A list of floats, or the tensor that may be given instead of it."""
    tensor = node.attributes.get(f"{name}_as_tensor")
    if tensor is None:
        return floats(node, name)
    if node.has(name) and node.attributes[name]:
        raise Invalid(f"it has both '{name}' and '{name}_as_tensor'")
    return _vector(tensor, f"{name}_as_tensor")


def _vector(tensor: object, name: str) -> Reals:
    found = np.asarray(tensor).reshape(-1)
    if found.dtype not in (np.float16, np.float32, np.float64):
        raise Invalid(f"'{name}' has elements of type {found.dtype}")
    return found


def _numbered(node: Node) -> _Ensemble:
    """The trees of TreeEnsemble, whose tests and leaves are separate lists."""
    splits = _vector(node.attributes["nodes_splits"], "nodes_splits")
    modes = np.asarray(node.attributes["nodes_modes"]).reshape(-1).astype(np.int64)
    names = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    ids = {name: integers(node, f"nodes_{name}") for name in names}
    check_lengths(splits=len(splits), modes=len(modes), **{n: len(i) for n, i in ids.items()})
    weights = _vector(node.attributes["leaf_weights"], "leaf_weights")
    targets = integers(node, "leaf_targetids")
    check_lengths(leaf_weights=len(weights), leaf_targetids=len(targets))
    members = np.asarray(node.attributes.get("membership_values", ())).reshape(-1)
    ends = np.flatnonzero(np.isnan(members))
    if len(ends) and ends[-1] + 1 == len(members):
        ends = ends[:-1]
    sets = np.split(members, ends) if len(members) else []
    if len(sets) != (modes == MEMBER).sum():
        raise Invalid(f"it has {len(sets)} sets of members for {(modes == MEMBER).sum()} tests")

    def named(side: str) -> Ints:
        node_ids = ids[f"{side}nodeids"]
        if (node_ids < 0).any():
            raise Invalid(f"'nodes_{side}nodeids' has a negative number")
        return np.where(ids[f"{side}leafs"] != 0, ~node_ids, node_ids)

    roots = integers(node, "tree_roots")
    if (roots < 0).any():
        raise Invalid("'tree_roots' has a negative number")
    missing = _missing(node, len(splits))
    tests = Branches(ids["featureids"], modes, splits, missing, named("true"), named("false"), sets)
    leaf, count = np.arange(len(weights)), node.integer("n_targets", 1)
    return _Ensemble(tests, roots, Votes(leaf, targets, weights, len(weights), count))


def _missing(node: Node, count: int) -> Flags:
    """Whether tests hold for NaN."""
    found = integers(node, "nodes_missing_value_tracks_true")
    if not len(found):
        return np.zeros(count, np.bool_)
    check_lengths(nodes=count, nodes_missing_value_tracks_true=len(found))
    flags: Flags = found == 1
    return flags


def _identified(node: Node, voters: str, targets: int) -> _Ensemble:
    """The trees of the older operators, whose nodes are named by their tree and number."""
    values = _real_list(node, "nodes_values")
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    ids = {name: integers(node, f"nodes_{name}") for name in names}
    try:
        given = node.attributes.get("nodes_modes", ())
        modes = np.array([_MODES[each] for each in given], np.int64)
    except KeyError as unknown:
        name = unknown.args[0].decode(errors="replace")
        raise Invalid(f"'nodes_modes' has '{name}'") from None
    check_lengths(modes=len(modes), values=len(values), **{n: len(i) for n, i in ids.items()})
    trees, find = ids["treeids"], _finder(ids["treeids"], ids["nodeids"])
    starts = np.flatnonzero(np.append(True, trees[1:] != trees[:-1]))[: len(trees)]
    if len(starts) > len(np.unique(trees)):
        raise Invalid("the nodes of a tree are not one after the other")
    is_test = modes >= 0
    number = np.where(is_test, np.cumsum(is_test) - 1, ~(np.cumsum(~is_test) - 1))

    def child(side: str) -> Ints:
        return number[find(trees[is_test], ids[f"{side}nodeids"][is_test])]

    missing = _missing(node, len(modes))[is_test]
    feature, mode = ids["featureids"][is_test], modes[is_test]
    tests = Branches(feature, mode, values[is_test], missing, child("true"), child("false"))
    voting = {name: integers(node, f"{voters}_{name}") for name in ("treeids", "nodeids", "ids")}
    weights = _real_list(node, f"{voters}_weights")
    check_lengths(weights=len(weights), **{name: len(each) for name, each in voting.items()})
    leaf = number[find(voting["treeids"], voting["nodeids"])]
    # What old exporters say about tests does not count.
    counts = leaf < 0
    leaves, chosen = int((~is_test).sum()), voting["ids"][counts]
    votes = Votes(~leaf[counts], chosen, weights[counts], leaves, targets)
    return _Ensemble(tests, number[starts], votes)


def _finder(trees: Ints, nodes: Ints) -> Callable[[Ints, Ints], Ints]:
    """A function from the numbers of trees and nodes to positions in the lists of nodes."""
    if not len(trees):
        raise Invalid("it has no trees")
    known_trees, known_nodes = np.unique(trees), np.unique(nodes)

    def keys(tree: Ints, node: Ints) -> Ints:
        return _ranks(known_trees, tree) * len(known_nodes) + _ranks(known_nodes, node)

    order = np.argsort(keys(trees, nodes), kind="stable")
    known = keys(trees, nodes)[order]
    if (known[1:] == known[:-1]).any():
        raise Invalid("a node is given twice")
    return lambda tree, node: order[_ranks(known, keys(tree, node))]


def _ranks(known: Ints, values: Ints) -> Ints:
    """The positions of values in a sorted list, which must have them."""
    found = np.minimum(np.searchsorted(known, values), len(known) - 1)
    if (known[found] != values).any():
        raise Invalid("a node that it names does not exist")
    return found
