"""Steps as a graph: their results and operands, needed steps, and hints for names.

Input: steps. Output: tensors, or other steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tvm_nnef.converters.common.symbolic import Symbolic
from tvm_nnef.converters.common.tensors import (
    Attribute,
    Block,
    Branch,
    Call,
    Invocation,
    Loop,
    Pack,
    Result,
    Step,
    Tensor,
)


def results(step: Step) -> Iterator[Tensor | Pack]:
    """Return the tensors and packs that a step computes."""
    for each in step.results:
        if isinstance(each, (Tensor, Pack)):
            yield each
        elif each is not None:
            yield from each


def reads(step: Step) -> Iterator[Tensor | Pack]:
    """Yield everything that a step reads, also results of its inner blocks."""
    match step:
        case Call(arguments=arguments, attributes=attributes):
            yield from _deciding(attributes.values())
            for each in arguments:
                if isinstance(each, (Tensor, Pack)):
                    yield each
                elif isinstance(each, Sequence):
                    yield from each
        case Invocation(arguments=read):
            yield from read
        case Branch(condition, consequent, alternative):
            yield condition
            for block in (consequent, alternative):
                yield from block.yields
                for inner in block.steps:
                    yield from reads(inner)
        case Loop():
            yield from (start for _, start in step.carried if isinstance(start, Tensor))
            yield from _deciding(inside.shape for inside, _ in step.carried)
            yield from (pack for _, pack in step.scans)
            if isinstance(step.count, Tensor):
                yield step.count
            yield from step.body.yields
            for inner in step.body.steps:
                yield from reads(inner)


def _deciding(attributes: Iterable[Attribute]) -> Iterator[Tensor]:
    """Yield the tensors whose data-dependent dimensions occur in attributes."""
    for value in attributes:
        items = value if isinstance(value, (list, tuple)) else (value,)
        for item in items:
            if isinstance(item, Symbolic):
                symbols = item.symbols.values()
                yield from (s.tensor for s in symbols if isinstance(s.tensor, Tensor))


def needed(steps: Sequence[Step], wanted: Iterable[Tensor]) -> list[Step]:
    """Return the needed steps; results of these that are not read are None."""
    read = {id(each) for each in wanted}
    needed_steps: list[Step] = []
    for step in reversed(steps):
        if any(id(each) in read for each in results(step)):
            needed_steps.append(_pruned(step, read))
            read |= {id(each) for each in reads(needed_steps[-1])}
    return needed_steps[::-1]


def _pruned(step: Step, read: set[int]) -> Step:
    match step:
        case Call(results=results):
            return replace(step, results=_wanted(results, read))
        case Branch(_, consequent, alternative):
            return replace(step, consequent=_needed(consequent), alternative=_needed(alternative))
        case Loop(body, results=results):
            return replace(step, body=_needed(body), results=_wanted(results, read))
        case Invocation():
            return step


def _wanted(results: Sequence[Result], read: set[int]) -> tuple[Result, ...]:
    """Return the results with None instead of tensors that are not read."""
    unread = (isinstance(each, (Tensor, Pack)) and id(each) not in read for each in results)
    return tuple(None if skip else each for skip, each in zip(unread, results, strict=True))


def _needed(block: Block) -> Block:
    return Block(tuple(needed(block.steps, block.yields)), block.yields)


def hint(steps: Sequence[Step], name: str) -> None:
    """Name results and constants that have no name in the source after their node."""
    for step in steps:
        match step:
            case Call(operator):
                short = operator.rpartition(".")[2]
                for operand in reads(step):
                    operand.hint = operand.hint or f"{name}_constant"
            case Branch(_, consequent, alternative):
                short = "if"
                hint((*consequent.steps, *alternative.steps), name)
            case Loop(body):
                short = "loop"
                hint(body.steps, name)
                for _, start in step.carried:
                    if isinstance(start, Tensor):
                        start.hint = start.hint or f"{name}_start"
        for each in results(step):
            each.hint = each.hint or f"{name}_{short}"
