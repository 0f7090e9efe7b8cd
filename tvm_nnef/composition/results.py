"""Result tensors of operations, named as the left-hand side declares (section 2.10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tvm_nnef.composition.declarations import concrete_type
from tvm_nnef.composition.frame import Frame
from tvm_nnef.composition.naming import item_names, plain_name
from tvm_nnef.composition.shapes import Shape
from tvm_nnef.composition.values import Environment
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.syntax import nodes


def results_like(
    name: Callable[[str], str],
    operands: Sequence[Operand],
    frame: Frame,
    targets: Sequence[nodes.Target],
) -> tuple[Operand, ...]:
    """Return results with the types and shapes of other operands, named by the targets."""

    def like(base: str, tensor: Tensor) -> Tensor:
        full = name(f"{frame.scope}.{base}")
        return replace(tensor, name=full, role="result", value=None)

    results: list[Operand] = []
    padded = [*targets, *([None] * (len(operands) - len(targets)))]
    for operand, target in zip(operands, padded, strict=False):
        assert operand is not None
        if isinstance(operand, tuple):
            names = item_names(target, len(operand), frame.env)
            results.append(tuple(map(like, names, operand)))
        else:
            results.append(like((target and plain_name(target)) or ".T1", operand))
    return tuple(results)


def declared_result(
    name: Callable[[str], str],
    parameter: nodes.Parameter,
    shapes: list[Shape] | Shape,
    env: Environment,
    frame: Frame,
    target: nodes.Target | None,
) -> Operand:
    """Return the result that an output declares: one tensor, or a pack if ``shapes`` is a list."""
    type_, span = concrete_type(parameter, env), parameter.span

    def made(base: str, shape: Shape) -> Tensor:
        return Tensor(name(f"{frame.scope}.{base}"), type_, shape, "result", None, span)

    if isinstance(shapes, list):
        return tuple(map(made, item_names(target, len(shapes), frame.env), shapes))
    return made((target and plain_name(target)) or ".T1", shapes)
