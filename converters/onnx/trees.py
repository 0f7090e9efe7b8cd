"""Ensembles of decision trees as arrays of nodes that a formula can walk.

Input: tests, leaves and votes, as attributes of an operator describe them, whatever its version.
Output: a :class:`Forest`, whose nodes are in breadth-first order and all ask the same question:
whether a column of a row is at most a number. Every other comparison, and what happens with NaN,
becomes one or several such nodes here, without rounding.

A comparison with NaN fails. Where NaN is to pass, a node reads a second set of columns, which have
minus infinity instead. A node is named by its position among the tests, or by ``~`` of its position
among the leaves. Builds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible

Ints: TypeAlias = "NDArray[np.int64]"
Reals: TypeAlias = "NDArray[np.floating]"
Flags: TypeAlias = "NDArray[np.bool_]"

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
"""The comparisons, as TreeEnsemble numbers them."""

MOST_STEPS = 1 << 12
"""The longest path from a root to a leaf: each row takes as many steps in every tree."""

MOST_BYTES = 2**31 - 1
"""Upper limit of the size of a table of weights: for all targets, or all pairs of classes."""

_MOST_COLUMNS = 2**30
"""Upper limit of a number that fits twice into 32 bits."""

_AGGREGATES: Mapping[str, tuple[np.ufunc, float]] = {
    "SUM": (np.add, 0.0),
    "AVERAGE": (np.add, 0.0),
    "MIN": (np.minimum, np.inf),
    "MAX": (np.maximum, -np.inf),
}
"""Functions that combine votes, and their neutral elements."""


@dataclass(frozen=True, slots=True)
class Branches:
    """The nodes with two children; ``missing`` ones hold for NaN.

    A test compares a feature with ``split``, or asks whether ``members`` has it, which are the sets
    of the tests of mode MEMBER, in order.
    """

    feature: Ints
    mode: Ints
    split: Reals
    missing: Flags
    yes: Ints
    no: Ints
    members: Sequence[Reals] = ()


@dataclass(frozen=True, slots=True)
class Votes:
    """Weights of leaves for targets, and how many leaves and targets there are."""

    leaf: Ints
    target: Ints
    weight: Reals
    leaves: int
    targets: int

    def __post_init__(self) -> None:
        """Raises Invalid for a target that there is not."""
        if self.targets < 1:
            raise Invalid(f"it has {self.targets} targets")
        if ((self.target < 0) | (self.target >= self.targets)).any():
            raise Invalid(f"a leaf votes for a target that is not one of {self.targets}")


@dataclass(frozen=True, slots=True)
class Forest:
    """The tables for ``tree_leaves`` in ``ml.sknd``, and the ``weight`` of each node.

    ``root`` has the trees of each group. Either a group is a target, or there is one group and the
    targets are the columns of ``weight``. ``voted`` has 1 where a weight is from votes, else 0; it
    is None if there are votes for every target whatever the row. ``columns`` is how many columns of
    a row are read; twice, if ``filled``: then with minus infinity instead of NaN.
    """

    root: Ints
    column: Ints
    split: Reals
    child: Ints
    weight: Reals
    voted: Reals | None
    depth: int
    columns: int
    filled: bool


def forest(
    tests: Branches, roots: Ints, votes: Votes, aggregate: str, dtype: np.dtype[np.floating]
) -> Forest:
    """The trees with these roots; reals are compared and aggregated in ``dtype``.

    Raises Unconvertible for nodes that are not trees, and for trees that are too large.
    """
    _check(tests, roots, votes)
    steps = _steps(tests, dtype)
    levels = _levels(steps, roots)
    root, votes = _grouped(steps, levels, roots, votes)
    order, position = _breadth_first(steps, root.reshape(-1))
    size = max(len(order), len(steps.split) + votes.leaves + 1)
    if size * votes.targets * dtype.itemsize > MOST_BYTES:
        reason = f"its {size} nodes have weights for {votes.targets} targets each"
        raise Unconvertible(reason, f"the limit is {MOST_BYTES} bytes: use fewer nodes or targets")
    combine, neutral = _AGGREGATES[aggregate]
    leaf = np.where(order < 0, ~order, votes.leaves)
    weight = np.full((votes.leaves + 1, votes.targets), neutral, dtype)
    combine.at(weight, (votes.leaf, votes.target), votes.weight.astype(dtype))
    voted = np.zeros(weight.shape, np.bool_)
    voted[votes.leaf, votes.target] = True
    complete = _always(voted, steps, levels, root).any(axis=1).all()
    test = np.where(order < 0, len(steps.split), order)
    start = np.arange(len(order))
    return Forest(
        np.arange(root.size).reshape(root.shape),
        np.append(steps.column, 0)[test],
        np.append(steps.split, dtype.type(np.nan))[test],
        np.where(order < 0, start, np.append(position, 0)[test]),
        weight[leaf],
        None if complete else voted[leaf].astype(dtype),
        len(levels),
        steps.columns,
        steps.filled,
    )


def _check(tests: Branches, roots: Ints, votes: Votes) -> None:
    """Raises Invalid for nodes, features and modes that there are not."""
    count = len(tests.split)
    named = np.concatenate([tests.yes, tests.no, roots])
    if not len(roots):
        raise Invalid("it has no trees")
    if ((named >= count) | (~named >= votes.leaves)).any():
        raise Invalid("a node that it names does not exist")
    if ((tests.feature < 0) | (tests.feature >= _MOST_COLUMNS)).any():
        raise Invalid("the index of a feature is negative, or too large")
    if ((tests.mode < LEQ) | (tests.mode > MEMBER)).any():
        raise Invalid(f"the mode of a node is not a number from {LEQ} to {MEMBER}")


@dataclass(frozen=True, slots=True)
class _Steps:
    """Branches that all ask whether a column is at most ``split``: ``high`` is next if so."""

    column: Ints
    split: Reals
    low: Ints
    high: Ints
    columns: int
    filled: bool


def _below(values: Reals) -> Reals:
    """The largest number less than each; NaN, with which every comparison fails, if none is."""
    with np.errstate(all="ignore"):
        lower: Reals = np.nextafter(values, values.dtype.type(-np.inf))
    return np.where(values == -np.inf, np.nan, lower).astype(values.dtype)


def _steps(tests: Branches, dtype: np.dtype[np.floating]) -> _Steps:
    """The tests by ``x <= split`` alone; each keeps its number, and others are added after them."""
    mode, value = tests.mode, tests.split.astype(dtype)
    opposite = np.isin(mode, (GTE, GT, NEQ))
    yes, no = np.where(opposite, tests.no, tests.yes), np.where(opposite, tests.yes, tests.no)
    split = np.where(np.isin(mode, (LT, GTE)), _below(value), value)
    # Nothing is at least NaN.
    split[np.isnan(value) & np.isin(mode, (GTE, GT))] = np.inf
    # NaN differs from every number, so it makes NEQ hold either way.
    passes = np.where(np.isin(mode, (GTE, GT)), ~tests.missing, tests.missing) & (mode != NEQ)
    equal = np.flatnonzero(np.isin(mode, (EQ, NEQ)))
    high = yes.copy()
    high[equal] = len(mode) + np.arange(len(equal))
    made = _Made(
        [tests.feature, tests.feature[equal]],
        [split, _below(value[equal])],
        [passes, np.zeros(len(equal), np.bool_)],
        [no, yes[equal]],
        [high, no[equal]],
    )
    for test, members in zip(np.flatnonzero(mode == MEMBER), tests.members, strict=True):
        made.add_member(int(test), members.astype(dtype), bool(tests.missing[test]))
    return made.steps()


class _Made:
    """Branches that are added one after the other, as pieces of arrays."""

    def __init__(
        self,
        feature: list[Ints],
        split: list[Reals],
        passes: list[Flags],
        low: list[Ints],
        high: list[Ints],
    ) -> None:
        self.feature, self.split, self.passes = feature, split, passes
        self.low, self.high = low, high
        self.count = sum(map(len, feature))

    def add(self, feature: int, split: float, low: int, high: int) -> int:
        """The number of a new test that fails for NaN."""
        self.feature.append(np.array([feature]))
        self.split.append(np.array([split], self.split[0].dtype))
        self.passes.append(np.zeros(1, np.bool_))
        self.low.append(np.array([low]))
        self.high.append(np.array([high]))
        self.count += 1
        return self.count - 1

    def add_member(self, test: int, members: Reals, missing: bool) -> None:
        """Makes a test find its number in a set by halving; NaN takes the last branch, to no."""
        feature, yes, no = (int(each[0][test]) for each in (self.feature, self.high, self.low))
        values = np.unique(members[~np.isnan(members)])
        below = _below(values)

        def among(first: int, last: int) -> int:
            if first == last:
                return no
            middle = (first + last) // 2
            inside = self.add(feature, below[middle], yes, among(first, middle))
            return self.add(feature, values[middle], among(middle + 1, last), inside)

        self.high[0][test] = among(0, len(values))
        self.low[0][test] = yes if missing else no
        self.split[0][test], self.passes[0][test] = np.inf, False

    def steps(self) -> _Steps:
        """All tests; those that NaN passes read the second set of columns."""
        feature, split = np.concatenate(self.feature), np.concatenate(self.split)
        low, high = np.concatenate(self.low), np.concatenate(self.high)
        passes = np.concatenate(self.passes)
        # What only NaN passes is what every number fails.
        turned = passes & np.isnan(split)
        low, high = np.where(turned, high, low), np.where(turned, low, high)
        split[turned], passes[turned] = np.inf, False
        columns = int(feature.max(initial=0)) + 1
        return _Steps(
            np.where(passes, feature + columns, feature),
            split,
            low,
            high,
            columns,
            bool(passes.any()),
        )


def _levels(steps: _Steps, roots: Ints) -> list[Ints]:
    """The tests that can be reached, by the longest path to them.

    Raises Unconvertible for paths that are too long, or that end nowhere.
    """
    parents = _reached(steps, roots)
    waiting = np.bincount(_children(steps, parents), minlength=len(steps.split))
    levels: list[Ints] = []
    frontier = parents[waiting[parents] == 0]
    while frontier.size:
        levels.append(frontier)
        _check_depth(len(levels))
        children = _children(steps, frontier)
        np.subtract.at(waiting, children, 1)
        children = np.unique(children)
        frontier = children[waiting[children] == 0]
    if sum(map(len, levels)) < len(parents):
        raise Invalid("a node leads back to itself")
    return levels


def _reached(steps: _Steps, roots: Ints) -> Ints:
    reached = np.zeros(len(steps.split), np.bool_)
    frontier = roots[roots >= 0]
    depth = 0
    while frontier.size:
        reached[frontier] = True
        depth += 1
        _check_depth(depth)
        children = _children(steps, frontier)
        frontier = np.unique(children[~reached[children]])
    return np.flatnonzero(reached)


def _children(steps: _Steps, parents: Ints) -> Ints:
    """The children of tests that are tests."""
    found = np.concatenate([steps.low[parents], steps.high[parents]])
    return found[found >= 0]


def _check_depth(depth: int) -> None:
    if depth > MOST_STEPS:
        reason = f"it has trees of more than {MOST_STEPS} levels"
        raise Unconvertible(reason, "limit the depth of the trees when they are trained")


def _upwards(
    leaves: NDArray[Any], steps: _Steps, levels: Sequence[Ints], combine: np.ufunc
) -> NDArray[Any]:
    """Return a property of the leaves below each test, then of each leaf, at ``~leaf``."""
    count = len(steps.split)
    found = np.concatenate([np.zeros((count, *leaves.shape[1:]), leaves.dtype), leaves[::-1]])
    for level in reversed(levels):
        found[level] = combine(found[steps.low[level]], found[steps.high[level]])
    return found


def _grouped(
    steps: _Steps, levels: Sequence[Ints], roots: Ints, votes: Votes
) -> tuple[Ints, Votes]:
    """The roots by target if each tree votes for one, else in one group; and votes within groups.

    A group that is shorter than others is filled up with an additional leaf that has no votes.
    """
    if votes.targets == 1 or votes.targets > 2 * len(roots):
        return roots[None], votes
    least, most = np.full(votes.leaves + 1, votes.targets), np.full(votes.leaves + 1, -1)
    np.minimum.at(least, votes.leaf, votes.target)
    np.maximum.at(most, votes.leaf, votes.target)
    first = _upwards(least, steps, levels, np.minimum)[roots]
    last = _upwards(most, steps, levels, np.maximum)[roots]
    target = np.where(last < 0, 0, first)
    counts = np.bincount(target, minlength=votes.targets)
    width = int(counts.max())
    if (first < last).any() or votes.targets * width > 2 * len(roots):
        return roots[None], votes
    order = np.argsort(target, kind="stable")
    place = np.arange(len(roots)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.full((votes.targets, width), ~votes.leaves)
    found[target[order], place] = roots[order]
    own = Votes(votes.leaf, np.zeros_like(votes.target), votes.weight, votes.leaves, 1)
    return found, own


def _always(voted: Flags, steps: _Steps, levels: Sequence[Ints], root: Ints) -> NDArray[Any]:
    """Whether each leaf that a tree may end at has a vote, by group, tree and target."""
    return _upwards(voted, steps, levels, np.logical_and)[root]


def _breadth_first(steps: _Steps, roots: Ints) -> tuple[Ints, Ints]:
    """The nodes in their final order, and for each test the position of its first child.

    The children of a test are neighbours, so a node with several parents has several positions.
    """
    position = np.full(len(steps.split), -1)
    pieces, size = [roots], len(roots)
    while True:
        tests = pieces[-1][pieces[-1] >= 0]
        tests = tests[position[tests] < 0]
        _, first = np.unique(tests, return_index=True)
        if not first.size:
            return np.concatenate(pieces), position
        new = tests[np.sort(first)]
        position[new] = size + 2 * np.arange(len(new))
        pieces.append(np.stack([steps.low[new], steps.high[new]], axis=1).reshape(-1))
        size += 2 * len(new)
