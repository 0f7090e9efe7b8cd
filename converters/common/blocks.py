"""Conversion of equal runs of steps into one operator, and an invocation of it for each run.

Input: runs with equal wiring. Output: the operator's steps on separate tensors, which are named
after the common parts of the names in all runs, and the arguments and results of each invocation.
Which runs become operators is decided in ``outlining``; final names are chosen in ``naming``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tvm_nnef.converters.common.common_names import Scopes, common_name, scopes_of, title
from tvm_nnef.converters.common.dimensions import Dimensions, unbound
from tvm_nnef.converters.common.emission import is_literal
from tvm_nnef.converters.common.names import is_path, shows
from tvm_nnef.converters.common.steps import reads, results
from tvm_nnef.converters.common.tensors import (
    Argument,
    Call,
    Invocation,
    Operator,
    Pack,
    Result,
    Run,
    Step,
    Tensor,
)

Group: TypeAlias = "tuple[Tensor, ...]"
"""The tensors of all runs that have the same role in them."""

_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "nn.conv": ("input", "weight", "bias"),
    "nn.deconv": ("input", "weight", "bias"),
    "nn.linear": ("input", "weight", "bias"),
    "nn.batch_norm": ("input", "mean", "variance", "offset", "scale"),
}
"""The names of the arguments of operators that take several weights."""


def invocations(runs: Sequence[Run]) -> list[Invocation]:
    """Return an invocation of a common operator for each of the runs."""
    scopes = scopes_of([_sources(run.steps) for run in runs])
    read: list[Group] = list(zip(*(run.read for run in runs), strict=True))
    computed: list[Group] = list(zip(*(_made(run.steps) for run in runs), strict=True))
    outer = list(zip(*(run.given for run in runs), strict=True))
    outputs = [(group, out) for group, out in zip(computed, outer, strict=True) if any(out)]
    inputs = list(dict.fromkeys(read))
    copy = _copy(read, computed, runs, scopes)
    steps = tuple(copy.steps(runs[0].steps))
    dimensions = Dimensions()
    operator = Operator(
        title(scopes, [_short(step) for step in steps]),
        tuple(copy.inputs[group] for group in inputs),
        tuple(dimensions.of_input(group) for group in inputs),
        tuple(copy.made[id(group[0])] for group, _ in outputs),
        tuple(dimensions.of_output(group) for group, _ in outputs),
        steps,
        tuple(unbound(steps, dimensions)),
    )
    return [
        Invocation(
            operator,
            tuple(group[number] for group in inputs),
            tuple(out[number] for _, out in outputs),
            run.steps,
            "_".join(scopes[number]) or f"{operator.wanted}_{number + 1}",
        )
        for number, run in enumerate(runs)
    ]


def _made(steps: Sequence[Step]) -> list[Tensor]:
    return [each for step in steps for each in results(step) if isinstance(each, Tensor)]


def _sources(steps: Sequence[Step]) -> list[str]:
    """Return the source names that locate the steps."""
    weights = (
        each.source
        for step in steps
        for each in reads(step)
        if isinstance(each, Tensor) and each.value is not None and shows(each.source)
    )
    return [*filter(is_path, map(_source, _made(steps))), *weights]


@dataclass(frozen=True, slots=True)
class _Copy:
    """The copy of the first run's tensors for an operator: computed tensors, and inputs.

    ``read`` has the inputs in the order in which they are read, ``labels`` the labels of the first
    run's invocations, in words that all runs have in common.
    """

    made: dict[int, Tensor]
    inputs: dict[Group, Tensor]
    read: Iterator[Tensor]
    labels: dict[int, str]

    def steps(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Yield copies of the steps of the first run on the new tensors."""
        for step in steps:
            assert isinstance(step, (Call, Invocation))
            arguments: Any = tuple(map(self._argument, step.arguments))
            copied_results: Any = tuple(map(self._result, step.results))
            copied = replace(step, arguments=arguments, results=copied_results)
            if isinstance(copied, Invocation):
                copied.wanted = self.labels[id(step)] or copied.wanted
            yield copied

    def _argument(self, value: Argument) -> Argument:
        match value:
            case Tensor():
                return self._read(value)
            case tuple() | list():
                return tuple(map(self._read, value))
        return value

    def _read(self, tensor: Tensor) -> Tensor:
        if is_literal(tensor):
            return tensor
        return self.made.get(id(tensor)) or next(self.read)

    def _result(self, value: Result) -> Result:
        match value:
            case Tensor():
                return self.made[id(value)]
            case tuple():
                return tuple(self.made[id(each)] for each in value)
        return value


def _copy(
    read: Sequence[Group], made: Sequence[Group], runs: Sequence[Run], scopes: Scopes
) -> _Copy:
    """Return new tensors, named after the common parts of the names in all runs."""
    steps = runs[0].steps
    labels = {
        id(same[0]): common_name([each.wanted for each in same], scopes)
        for same in zip(*(_invoked(run.steps) for run in runs), strict=True)
    }
    tensors: dict[int, Tensor] = {}
    makers = (step for step in steps for _ in _made((step,)))
    for group, step in zip(made, makers, strict=True):
        name = common_name(map(_source, group), scopes) or _short(step)
        tensors[id(group[0])] = replace(group[0], source="", hint=name)
    parts = (
        part
        for step in steps
        for each, part in zip(reads(step), _parts(step, tensors, labels), strict=False)
        if _is_from_outside(each, tensors)
    )
    inputs: dict[Group, Tensor] = {}
    for group, part in zip(read, parts, strict=True):
        if group not in inputs:
            name = _input_name(group, scopes, part, first=not inputs)
            inputs[group] = replace(group[0], source="", value=None, hint=name)
    return _Copy(tensors, inputs, iter([inputs[group] for group in read]), labels)


def _invoked(steps: Sequence[Step]) -> list[Invocation]:
    return [step for step in steps if isinstance(step, Invocation)]


def _parts(step: Step, made: Mapping[int, Tensor], labels: Mapping[int, str]) -> Iterator[str]:
    """Yield names for the arguments of a step, derived from its label or its result."""
    result = made[id(_made((step,))[0])].hint
    match step:
        case Invocation(operator):
            prefix = labels[id(step)] or result
            yield from (f"{prefix}_{each.hint}" for each in operator.inputs)
        case Call(operator):
            yield from (f"{result}_{each}" for each in _ARGUMENTS.get(operator, ()))
    while True:
        yield f"{result}_weight"


def _is_from_outside(tensor: Tensor | Pack, made: Mapping[int, Tensor]) -> bool:
    return isinstance(tensor, Tensor) and id(tensor) not in made and not is_literal(tensor)


def _source(tensor: Tensor) -> str:
    return tensor.source or tensor.hint


def _short(step: Step) -> str:
    """Return a word for the operation of a step."""
    match step:
        case Call(operator):
            return operator.rpartition(".")[2]
        case Invocation(operator):
            return operator.wanted
    return "t"


def _input_name(group: Group, scopes: Scopes, part: str, first: bool) -> str:
    """Return the name of an input: that of a weight, or of its ``part`` in a result."""
    if any(each.value is not None for each in group):
        return common_name(map(_source, group), scopes) or part
    if all(each is group[0] for each in group):
        return common_name(map(_source, group), [()] * len(group)) or "shared"
    return "x" if first else common_name(map(_source, group), scopes) or "x"
