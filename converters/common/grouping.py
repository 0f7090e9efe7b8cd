"""Conversion of the groups of steps of a source into operators of the model.

Input: a converted graph and the group of each tensor. Output: a graph with an
:class:`~tvm_nnef.converters.common.tensors.Invocation` for each group. Groups of one name with
equal steps share an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from tvm_nnef.converters.common.blocks import invocations
from tvm_nnef.converters.common.outlining import is_dynamic, letter, run_of
from tvm_nnef.converters.common.steps import reads, results
from tvm_nnef.converters.common.tensors import (
    Call,
    ConvertedGraph,
    Invocation,
    Run,
    Step,
    Tensor,
)


@dataclass(frozen=True, eq=False)
class Group:
    """Steps that become an invocation of an operator called ``name``, labelled ``label``.

    ``names`` are the names of inputs and outputs inside, by the identity of the tensor.
    """

    name: str
    label: str
    names: dict[int, str] = field(default_factory=dict, repr=False)


Groups = Mapping[int, Sequence[Group]]
"""The groups of a tensor's step, outermost first, by the identity of the tensor."""


def grouped(graph: ConvertedGraph, groups: Groups) -> ConvertedGraph:
    """Return the graph with an operator for the steps of each group.

    Steps of a group are adjacent.
    """
    steps: list[Step] = list(graph.steps)
    for level in range(max(map(len, groups.values()), default=0) - 1, -1, -1):
        steps = _grouped_at(steps, graph.kept, groups, level)
    return replace(graph, steps=tuple(steps))


def _grouped_at(
    steps: Sequence[Step], kept: Sequence[Tensor], groups: Groups, level: int
) -> list[Step]:
    last_read = {id(each): number for number, step in enumerate(steps) for each in reads(step)}
    last_read |= dict.fromkeys(map(id, kept), len(steps))
    found: list[tuple[Group | None, tuple[Step, ...]]] = []
    alike: dict[Hashable, list[tuple[int, Group, Run]]] = {}
    end = 0
    for group, run_steps in _segments(steps, lambda step: _group(step, groups, level)):
        end += len(run_steps)
        if group is not None and all(map(_is_plain, run_steps)):
            run = run_of(run_steps, _reader(last_read, end))
            key = (group.name, run.wiring, *(letter((step,)) for step in run_steps))
            alike.setdefault(key, []).append((len(found), group, run))
        found.append((group, run_steps))
    replaced: dict[int, Invocation] = {}
    for same in alike.values():
        made = invocations([run for _, _, run in same])
        for (number, group, _), invocation in zip(same, made, strict=True):
            invocation.wanted = group.label
            replaced[number] = invocation
        _name_operator(made[0], same[0][1])
    return [
        step
        for number, (_, run_steps) in enumerate(found)
        for step in ((replaced[number],) if number in replaced else run_steps)
    ]


def _name_operator(invocation: Invocation, group: Group) -> None:
    operator = invocation.operator
    operator.wanted = group.name
    pairs = (
        *zip(invocation.arguments, operator.inputs, strict=True),
        *zip(invocation.results, operator.outputs, strict=True),
    )
    for outside, inside in pairs:
        inside.hint = group.names.get(id(outside), inside.hint)


def _segments(
    steps: Sequence[Step], group: Callable[[Step], Group | None]
) -> Iterator[tuple[Group | None, tuple[Step, ...]]]:
    return ((key, tuple(segment)) for key, segment in groupby(steps, group))


def _reader(last_read: Mapping[int, int], end: int) -> Callable[[Tensor], bool]:
    return lambda each: last_read.get(id(each), -1) >= end


def _group(step: Step, groups: Groups, level: int) -> Group | None:
    for each in results(step):
        path = groups.get(id(each), ())
        return path[level] if level < len(path) else None
    return None


def _is_plain(step: Step) -> bool:
    return isinstance(step, (Call, Invocation)) and not is_dynamic(step)
