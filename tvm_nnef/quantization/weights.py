"""The variables of a graph that products and embeddings read as weights.

Input: a composed graph. Output: the variables, each with the axis that a product sums over (or
along which a row of an embedding lies), and the labels of the operators that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tvm_nnef.graph.nodes import Graph, Operation, operations, updated_variables
from tvm_nnef.graph.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Weight:
    """A variable of rank 2 with the axis of its blocks, and labels of operators."""

    variable: Tensor
    axis: int
    operators: tuple[str, ...]


def weights(graph: Graph) -> list[Weight]:
    """The weights of products and embeddings, in the order in which they are read first.

    What an operator that has no place for blocks reads as well is among them, as it gets the reals.
    A weight of a product has blocks for that, even if it is that of an embedding, too.
    """
    axes: dict[Tensor, list[tuple[str, int]]] = {}
    labels: dict[Tensor, list[str]] = {}
    changed = set(updated_variables(graph))
    for node in operations(graph):
        if not isinstance(node, Operation):
            continue
        for tensor, kind, axis in _read(node):
            plain = tensor.role == "variable" and tensor.rank == 2 and tensor.type == "real"
            if plain and tensor not in changed:
                axes.setdefault(tensor, []).append((kind, axis))
                labels.setdefault(tensor, []).append(node.label or node.operator)
    return [
        Weight(tensor, min(found)[1], tuple(dict.fromkeys(labels[tensor])))
        for tensor, found in axes.items()
    ]


_PRODUCT, _ROWS = "a product", "rows"
"""Kinds of use; of two, the first in the alphabet decides."""


def _read(node: Operation) -> Iterator[tuple[Tensor, str, int]]:
    """The weights that an operation may read, how, and along which axis blocks lie."""
    name = node.operator.rpartition(".")[2]
    find = _READERS.get(node.operator if node.standard else f"extra.{name}")
    if find is None:
        return
    for position, kind, axis in find(node):
        operand = node.operands[position]
        if isinstance(operand, Tensor):
            yield operand, kind, axis


def _of_matmul(node: Operation) -> Iterator[tuple[int, str, int]]:
    yield 1, _PRODUCT, 1 if node.attributes.get("transB") else 0
    yield 0, _PRODUCT, 0 if node.attributes.get("transA") else 1


def _of_linear(node: Operation) -> Iterator[tuple[int, str, int]]:
    yield 1, _PRODUCT, 1


def _of_gather(node: Operation) -> Iterator[tuple[int, str, int]]:
    if node.attributes.get("axis") == 0:
        yield 0, _ROWS, 1


_READERS: Mapping[str, Callable[[Operation], Iterator[tuple[int, str, int]]]] = {
    "linalg.matmul": _of_matmul,
    "nn.linear": _of_linear,
    "layout.gather": _of_gather,
    "extra.gather": _of_gather,
}
"""By operator: positions of operands, kinds of use, axes of blocks."""
