"""Naming of the tensors of a converted graph, and its dtypes under these names.

Input: a converted graph, whose tensors get names. Output: its variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tvm_nnef.converters.common.emission import is_literal
from tvm_nnef.converters.common.names import Namer, UniqueNames, identifier, parts, without_suffix
from tvm_nnef.converters.common.steps import reads, results
from tvm_nnef.converters.common.symbolic import Size, Symbol, Symbolic
from tvm_nnef.converters.common.tensors import (
    Block,
    Branch,
    Call,
    ConvertedGraph,
    Invocation,
    Loop,
    Operator,
    Pack,
    Step,
    Tensor,
)
from tvm_nnef.converters.common.types import is_default


def give_names(
    graph: ConvertedGraph, title: str, scope: str = "", taken: Collection[str] = ()
) -> list[Tensor]:
    """Name every tensor, operator and label; return the variables.

    The variables are the tensors of known value that steps read. ``title`` is the name of the
    graph, ``scope`` is the prefix to remove from names of the source, ``taken`` are other names of
    the module, which no tensor may have.
    """
    namer = Namer(taken)

    def plain(name: str) -> str:
        return without_suffix(name.removeprefix(scope))

    ports = (*graph.inputs, *graph.outputs)
    # What is an identifier stays as it is, so that no name in the source is another one of ours.
    for tensor in sorted(ports, key=lambda each: identifier(each.source) != each.source):
        has_file = tensor.source in graph.defaults
        tensor.name = (_file_names(namer) if has_file else namer).name(identifier(tensor.source))
        namer.avoid(tensor.name)
    for tensor in graph.inputs:
        for size in tensor.shape:
            _name_symbols(size, namer)
    variables = list(_variables(graph))
    files = _file_names(namer)
    for number, tensor in enumerate(variables, 1):
        wanted = identifier(plain(tensor.source or tensor.hint or f"constant_{number}"))
        tensor.name = files.name(wanted)
        namer.avoid(tensor.name)
    for each in _made(graph.steps):
        if each.name is None:
            each.name = namer.name(plain(each.source or each.hint or "t"))
    _name_labels(graph.steps, namer, scope)
    namer.name(title)
    for operator in own_operators(graph.steps):
        operator.name = namer.name(operator.wanted)
        _name_inside(operator, taken)
    return variables


def _file_names(namer: Namer) -> UniqueNames:
    """Assign names of files; they differ in more than case, as some file systems ignore case."""
    return UniqueNames(namer.taken, str.lower)


def _name_labels(steps: Iterable[Step], namer: Namer, scope: str = "") -> None:
    around = "".join(f"{part}_" for part in parts(scope))
    for step in steps:
        if isinstance(step, Invocation):
            step.label = namer.name(step.wanted.removeprefix(around))


def own_operators(steps: Iterable[Step]) -> list[Operator]:
    """Return the operators of repeated blocks, each once and after those that it invokes."""
    operators: dict[Operator, None] = {}
    for step in steps:
        if isinstance(step, Invocation) and step.operator not in operators:
            inner = own_operators(step.operator.steps)
            operators.update(dict.fromkeys((*inner, step.operator)))
    return list(operators)


def _name_inside(operator: Operator, taken: Collection[str]) -> None:
    """Name the tensors of an operator; they may have the names of tensors outside."""
    namer = Namer(taken)
    shapes = (*operator.input_shapes, *operator.output_shapes)
    declared = (each for shape in shapes for each in shape or () if isinstance(each, Symbol))
    symbols = dict.fromkeys((*operator.symbols, *declared))
    for symbol in sorted(symbols, key=lambda each: each.name is None):
        # Dynamic dimensions are called as they are in the graph.
        name = namer.name(symbol.name or symbol.wanted)
        symbol.name = symbol.name or name
    for tensor in (*operator.inputs, *_made(operator.steps)):
        tensor.name = namer.name(tensor.hint)
    _name_labels(operator.steps, namer)


def _name_symbols(size: Size, namer: Namer) -> None:
    if isinstance(size, Symbolic):
        for each in size.symbols.values():
            each.name = each.name or namer.name(each.wanted)


def inner_blocks(step: Step) -> tuple[Block, ...]:
    """Return the blocks inside a step."""
    match step:
        case Branch(_, consequent, alternative):
            return (consequent, alternative)
        case Loop(body):
            return (body,)
        case Call() | Invocation():
            return ()


def machine_types(graph: ConvertedGraph, variables: Sequence[Tensor]) -> dict[str, str]:
    """Return the dtypes to be specified explicitly, by name: those that inference could get
    wrong.
    """
    dtypes = {
        tensor.name: tensor.dtype
        for tensor in (*graph.inputs, *variables)
        if tensor.name is not None and not is_default(tensor.dtype)
    }
    return {**dtypes, **_made_types(graph.steps)}


def _made_types(steps: Sequence[Step]) -> dict[str, str]:
    found: dict[str, str] = {}
    for step in _every(steps):
        unusual = any(not is_default(each.dtype) for each in (*reads(step), *results(step)))
        if unusual or not isinstance(step, Call):
            for each in _own(step):
                found |= dict.fromkeys(item_names(each), each.dtype)
        if isinstance(step, Invocation):
            inner = _made_types(step.operator.steps)
            found |= {f"{step.label}.{name}": dtype for name, dtype in inner.items()}
    return found


def made_names(steps: Sequence[Step], actual: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Yield the names of all tensors that steps compute, and their names in the source.

    Tensors of a block have its label as prefix. ``actual`` are the steps whose tensors have the
    source's names: the same ones, or those of a repetition.
    """
    return ((name, each.source) for name, each in made_tensors(steps, actual))


def made_tensors(
    steps: Sequence[Step], actual: Sequence[Step]
) -> Iterator[tuple[str, Tensor | Pack]]:
    """Yield the names with the tensors themselves; those of a block follow its results."""
    for step, meant in zip(steps, actual, strict=True):
        for each, source in zip(results(step), results(meant), strict=True):
            yield from ((name, source) for name in item_names(each))
        if isinstance(step, Invocation) and isinstance(meant, Invocation):
            for name, inner in made_tensors(step.operator.steps, meant.steps):
                yield f"{step.label}.{name}", inner


def inner_scopes(steps: Iterable[Step], around: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names of tensors inside branches and loops, and their scopes within the graph.

    A branch or loop with a single result gets its name (section 2.10, labelling).
    """
    for step in steps:
        if isinstance(step, (Call, Invocation)):
            continue
        scope = around + (_label(step) or (".loop" if isinstance(step, Loop) else ".if"))
        if isinstance(step, Loop):
            step_tensors = (*(each for each, _ in (*step.carried, *step.scans)), step.index)
            yield from ((each.name, scope) for each in step_tensors if each and each.name)
        for block in inner_blocks(step):
            made = (each for inner in block.steps for each in results(inner))
            yield from ((name, scope) for each in made for name in item_names(each))
            yield from inner_scopes(block.steps, f"{scope}.")


def _label(step: Branch | Loop) -> str | None:
    (only, *others) = step.results or (None,)
    return only.name if isinstance(only, (Tensor, Pack)) and not others else None


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
    """Yield the tensors that steps compute, in the order of the text."""
    for step in _every(steps):
        yield from _own(step)


def _variables(graph: ConvertedGraph) -> Iterator[Tensor]:
    seen = {id(variable) for variable, _ in graph.updates}
    yield from dict.fromkeys(variable for variable, _ in graph.updates)
    for step in graph.steps:
        for each in reads(step):
            known = isinstance(each, Tensor) and each.value is not None
            if isinstance(each, Tensor) and known and not is_literal(each) and id(each) not in seen:
                seen.add(id(each))
                yield each


def item_names(result: Tensor | Pack) -> list[str]:
    """Return the name of a tensor, or those of the items of a pack.

    A pack of dynamic length is one tensor.
    """
    assert result.name is not None
    if isinstance(result, Tensor) or not isinstance(result.length, int):
        return [result.name]
    return [f"{result.name}:{number}" for number in range(1, result.length + 1)]
