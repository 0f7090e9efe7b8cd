"""Names for the tensors of a converted graph, and its machine types under these names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tvm_nnef.converters.onnx.conversion import ConvertedGraph
from tvm_nnef.converters.onnx.emission import is_literal
from tvm_nnef.converters.onnx.names import Namer, without_suffix
from tvm_nnef.converters.onnx.steps import reads, results
from tvm_nnef.converters.onnx.symbolic import Extent, Symbolic
from tvm_nnef.converters.onnx.tensors import Block, Branch, Call, Loop, Pack, Step, Tensor
from tvm_nnef.converters.onnx.types import is_default


def give_names(graph: ConvertedGraph, scope: str = "") -> list[Tensor]:
    """Names every tensor; gives the variables: tensors of known value that steps read.

    ``scope`` is left out where a name of the source begins with it.
    """
    namer = Namer()

    def plain(name: str) -> str:
        return without_suffix(name.removeprefix(scope))

    for tensor in (*graph.inputs, *graph.outputs):
        tensor.name = namer.name(tensor.source)
    for tensor in graph.inputs:
        for extent in tensor.shape:
            _name_symbols(extent, namer)
    variables = list(_variables(graph))
    for number, tensor in enumerate(variables, 1):
        tensor.name = namer.name(plain(tensor.source or tensor.hint or f"constant_{number}"))
    for each in _made(graph.steps):
        if each.name is None:
            each.name = namer.name(plain(each.source or each.hint or "t"))
    return variables


def _name_symbols(extent: Extent, namer: Namer) -> None:
    if isinstance(extent, Symbolic):
        for each in extent.symbols.values():
            each.name = each.name or namer.name(each.wanted)


def inner_blocks(step: Step) -> tuple[Block, ...]:
    """The blocks inside a step."""
    match step:
        case Branch(_, consequent, alternative):
            return (consequent, alternative)
        case Loop(body):
            return (body,)
        case Call():
            return ()


def machine_types(graph: ConvertedGraph, variables: Sequence[Tensor]) -> dict[str, str]:
    """The machine types to be prescribed, by name: those that inference could get wrong."""
    found = {
        tensor.name: tensor.dtype
        for tensor in (*graph.inputs, *variables)
        if not is_default(tensor.dtype)
    }
    for step in _every(graph.steps):
        unusual = any(not is_default(each.dtype) for each in (*reads(step), *results(step)))
        if unusual or not isinstance(step, Call):
            for each in _own(step):
                found |= dict.fromkeys(item_names(each), each.dtype)
    return {name: dtype for name, dtype in found.items() if name is not None}


def _own(step: Step) -> Iterator[Tensor | Pack]:
    yield from results(step)
    if isinstance(step, Loop):
        yield from (inside for inside, _ in step.carried)
        yield from (item for item, _ in step.scans)
        if step.index is not None:
            yield step.index


def _every(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for block in inner_blocks(step):
            yield from _every(block.steps)


def _made(steps: Iterable[Step]) -> Iterator[Tensor | Pack]:
    """Tensors that steps make, in the order of the text."""
    for step in _every(steps):
        yield from _own(step)


def _variables(graph: ConvertedGraph) -> Iterator[Tensor]:
    seen: set[int] = set()
    for step in graph.steps:
        for each in reads(step):
            known = isinstance(each, Tensor) and each.value is not None
            if isinstance(each, Tensor) and known and not is_literal(each) and id(each) not in seen:
                seen.add(id(each))
                yield each


def item_names(result: Tensor | Pack) -> list[str]:
    """The name of a tensor, or those of the items of a pack.

    A pack whose length only a run tells is one tensor.
    """
    assert result.name is not None
    if isinstance(result, Tensor) or not isinstance(result.length, int):
        return [result.name]
    return [f"{result.name}:{number}" for number in range(1, result.length + 1)]
