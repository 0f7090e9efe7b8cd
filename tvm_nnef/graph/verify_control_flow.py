"""The rules of a single If or Loop, without the contents of its graphs.

Input: a node. Output: the violations. The tensors that its graphs read and compute are checked with
the graphs (:mod:`tvm_nnef.graph.verify`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_nnef.graph.checks import own_symbols
from tvm_nnef.graph.nodes import Graph, If, Loop, Operand, Tensor, flatten
from tvm_nnef.symbolic import dimensions


def problems(node: If | Loop) -> Iterator[str]:
    """Yield the violations of a node's rules (see its class), most basic first."""
    match node:
        case If():
            yield from _branches(node)
        case Loop():
            yield from _locals(node)
            yield from _limits(node)
            yield from _results(node)


def alike(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors have the same type and certainly the same shape."""
    return (
        left.type == right.type
        and left.rank == right.rank
        and all(map(dimensions.equal, left.shape, right.shape))
    )


def _branches(node: If) -> Iterator[str]:
    if not _single(node.condition, "bool"):
        yield f"condition '{node.condition.name}' is not one bool"
    for title, branch in (("consequent", node.consequent), ("alternative", node.alternative)):
        outputs = _outputs(branch)
        if list(map(_arity, outputs)) != list(map(_arity, node.results)):
            yield f"{title} and results differ in number"
            return
    then, otherwise = (flatten(_outputs(each)) for each in (node.consequent, node.alternative))
    for one, other, result in zip(then, otherwise, flatten(node.results), strict=True):
        yield from _unlike(_completed(one, other, result), result)
        yield from _unlike(_completed(other, one, result), result)


def _completed(output: Tensor, other: Tensor, result: Tensor) -> Tensor:
    """Return an output of a branch with the dimensions of the result that may differ from its own.

    These are symbols that the result defines, and dimensions of the other branch, which are equal
    to those of this one if it is taken.
    """
    if not output.rank == other.rank == result.rank:
        return output
    return replace(output, shape=tuple(
        size if own_symbols((replace(result, shape=(size,)),)) or dimensions.equal(theirs, size)
        else extent
        for extent, theirs, size in zip(output.shape, other.shape, result.shape, strict=True)
    ))  # fmt: skip


def _locals(node: Loop) -> Iterator[str]:
    for tensor in node.local:
        if tensor.role != "input":
            yield f"'{tensor.name}' is a {tensor.role}, no input of the body"
    if len(node.carried) != len(node.initial):
        yield "carried and initial tensors differ in number"
    for carried, initial in zip(node.carried, node.initial, strict=False):
        yield from _unlike(initial, carried)
    for scan in node.scans:
        for item in scan.items:
            yield from _unlike(item, scan.item)
    if len({len(scan.items) for scan in node.scans}) > 1:
        yield "scanned packs differ in length"
    if node.index is not None and (node.index.type != "int" or node.index.rank != 0):
        yield f"index '{node.index.name}' is not an int of rank 0"


def _limits(node: Loop) -> Iterator[str]:
    match node.count:
        case Tensor() as count if not _single(count, "int"):
            yield f"count '{count.name}' is not one int"
        case int() as count if count < 0 or isinstance(count, bool):
            yield f"the count is {count}"
        case None if node.condition is None and not node.scans:
            yield "nothing ends the loop"
    if node.condition is not None:
        match _outputs(node.condition):
            case (Tensor() as tensor,) if _single(tensor, "bool"):
                pass
            case _:
                yield "the condition does not give one bool"


def _results(node: Loop) -> Iterator[str]:
    outputs, count = _outputs(node.body), len(node.carried)
    if len(outputs) != len(node.results) or len(outputs) < count:
        yield "body outputs and results differ in number"
        return
    for carried, output, result in zip(node.carried, outputs, node.results, strict=False):
        yield from _unlike(output, carried)
        yield from _unlike(result, carried)
    for output, result in zip(outputs[count:], node.results[count:], strict=True):
        if not isinstance(output, Tensor):
            yield "a scan output of the body is not a tensor"
        elif node.steps is None:
            yield from _stacked(output, result)
        elif not isinstance(result, tuple) or len(result) != node.steps:
            yield f"the results of '{output.name}' are not a pack of {node.steps}"
        else:
            for item in result:
                yield from _unlike(item, output)


def _stacked(output: Tensor, result: Operand) -> Iterator[str]:
    """Return the scan output of a loop whose number of steps is known only at run time."""
    if not isinstance(result, Tensor) or not result.rank:
        yield f"the result of '{output.name}' is not a stacked tensor"
    elif not own_symbols((replace(result, shape=result.shape[:1]),)):
        yield f"the first dimension of '{result.name}' is not a symbol"
    else:
        yield from _unlike(replace(result, shape=result.shape[1:]), output)


def _unlike(found: Operand, wanted: Tensor) -> Iterator[str]:
    if not isinstance(found, Tensor):
        yield f"'{wanted.name}' is not a single tensor"
    elif not alike(found, wanted):
        yield f"'{found.name}' and '{wanted.name}' differ in type or shape"


def _single(tensor: Tensor, type: str) -> bool:
    return tensor.type == type and dimensions.equal(dimensions.product(tensor.shape), 1)


def _outputs(graph: Graph) -> tuple[Operand, ...]:
    return tuple(port.operand for port in graph.outputs)


def _arity(operand: Operand) -> tuple[str, int]:
    match operand:
        case None:
            return ("null", 0)
        case Tensor():
            return ("tensor", 1)
        case pack:
            return ("pack", len(pack))
