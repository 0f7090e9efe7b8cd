"""Converters of loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Block, Branch, Loop, Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.operation import Operation
from tvm_nnef.converters.stablehlo.operators.reductions import completed
from tvm_nnef.converters.stablehlo.registry import operation


@operation("while")
def while_(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Convert a region that is repeated as long as the condition of another region holds."""
    condition_of, body_of = each.regions
    state = [builder.computed(one) for one in each.inputs]
    inner = Builder(builder)
    carried = [Tensor(one.dtype, one.shape, hint="state") for one in state]
    (first,) = each.run(condition_of, state, builder)
    results = each.run(body_of, carried, inner)
    yields = [completed(one, old.shape, inner) for one, old in zip(results, carried, strict=True)]
    for old, new in zip(carried, yields, strict=True):
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            reason = f"it carries {old.dtype}{list(old.shape)}, and gives {list(new.shape)}"
            raise Unconvertible(reason, "keep the shapes of what the loop carries")
    (again,) = each.run(condition_of, yields, inner)
    condition = Tensor("bool", (), hint="goes_on")
    finals = [Tensor(one.dtype, one.shape) for one in carried]
    builder.steps.append(
        Loop(
            Block(tuple(inner.steps), (completed(again, (), inner), *yields)),
            ((condition, builder.computed(first)), *zip(carried, state, strict=True)),
            (), None, None, condition, (None, *finals),
        )
    )  # fmt: skip
    return finals


@operation("if")
def if_(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Convert a selection of one of two regions."""
    (condition,) = each.inputs
    if condition.value is not None:
        region = each.regions[0 if bool(condition.value.reshape(())) else 1]
        return each.run(region, (), builder)
    return _branch(each, condition, _block(each, each.regions[0], builder),
                   _block(each, each.regions[1], builder), builder)  # fmt: skip


@operation("case")
def case(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Convert a selection of a region by number; the last one if there is none with that number."""
    (index,) = each.inputs
    if index.value is not None:
        number = int(index.value.reshape(()))
        last = len(each.regions) - 1
        return each.run(each.regions[number if 0 <= number <= last else last], (), builder)
    return _cases(each, index, 0, builder)


def _cases(each: Operation, index: Tensor, first: int, builder: Builder) -> list[Tensor]:
    if first == len(each.regions) - 1:
        return each.run(each.regions[first], (), builder)
    condition = builder.binary("math.eq", index, first, "bool")
    inner = Builder(builder)
    others = [completed(one, one.shape, inner) for one in _cases(each, index, first + 1, inner)]
    taken = _block(each, each.regions[first], builder)
    return _branch(each, condition, taken, (inner, others), builder)


def _block(each: Operation, region: Any, builder: Builder) -> tuple[Builder, list[Tensor]]:
    inner = Builder(builder)
    return inner, [completed(one, one.shape, inner) for one in each.run(region, (), inner)]


def _branch(
    each: Operation,
    condition: Tensor,
    consequent: tuple[Builder, list[Tensor]],
    alternative: tuple[Builder, list[Tensor]],
    builder: Builder,
) -> list[Tensor]:
    results = [Tensor(one.dtype, one.shape) for one in consequent[1]]
    blocks = [
        Block(tuple(inner.steps), tuple(yields)) for inner, yields in (consequent, alternative)
    ]
    builder.steps.append(Branch(condition, blocks[0], blocks[1], tuple(results)))
    return results
