"""Assembly of a converted graph into a model, the last step of every converter.

Input: a graph in steps. Output: the parts of a model. The steps are outlined, named and written as
a syntax tree. The tree is printed and parsed again, so that a converted model is checked like any
other, and its errors have positions in a text that the user can read. Nothing is written to
disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from tvm_nnef.converters.common import emission
from tvm_nnef.converters.common.names import Namer
from tvm_nnef.converters.common.naming import (
    give_names,
    inner_scopes,
    machine_types,
    made_names,
    made_tensors,
    own_operators,
)
from tvm_nnef.converters.common.operator_modules import EXTRA, Library, invoked, module_texts
from tvm_nnef.converters.common.outlining import outlined
from tvm_nnef.converters.common.symbolic import Symbolic
from tvm_nnef.converters.common.tensors import Call, ConvertedGraph, Tensor
from tvm_nnef.diagnostics import NnefError, Source
from tvm_nnef.semantics.check import check_program
from tvm_nnef.semantics.program import MAIN, Program
from tvm_nnef.stdlib.library import standard_module
from tvm_nnef.storage.metadata import Metadata
from tvm_nnef.symbolic.dimensions import UNLIMITED
from tvm_nnef.syntax import nodes, print_module


class Assembled(NamedTuple):
    """The parts of a model in memory, in the order of a model's parameters."""

    program: Program
    path: str
    variables: Mapping[str, Any]
    metadata: Metadata


def assemble_graph(
    graph: ConvertedGraph,
    title: str,
    *,
    path: str,
    header: str = "",
    libraries: Sequence[Library] = (EXTRA,),
    modules: Mapping[str, str] = MappingProxyType({}),
    definitions: Sequence[nodes.Definition] = (),
    scope: str = "",
    outline: bool = True,
) -> Assembled:
    """Return the parts of a model of one graph, whose name is ``title`` or similar.

    ``libraries`` are the modules, besides the standard ones, whose operators steps may invoke,
    ``modules`` the texts of a user's own by name, ``definitions`` operators of the model itself,
    which steps invoke by their plain names. ``path`` names the source in messages, ``header`` is a
    comment above the text. The prefix ``scope`` is removed from names of the source. Repeated
    blocks become operators if ``outline``.
    """
    reserved = [
        *modules,
        *(each.name for each in libraries),
        *(each.name.name for each in definitions),
    ]
    name = Namer(reserved).name(title)
    if outline:
        graph = outlined(graph)
    variables = give_names(graph, name, scope, reserved)
    called = emission.operators((*graph.steps, *(each for _, each in graph.quantized)))
    called |= {each for definition in definitions for each in invoked(definition)}
    called |= {emission.UPDATE} if graph.updates else set()
    imports = sorted({each.partition(".")[0] for each in called if "." in each})
    blocks = map(emission.operator_definition, own_operators(graph.steps))
    definition = emission.graph_definition(
        name, graph.inputs, variables, graph.outputs, graph.steps, graph.updates,
        list(_quantized(graph, variables)),
    )  # fmt: skip
    if any(map(_is_unlimited, graph.inputs)):
        header = "\n".join(filter(None, (header, _NO_BOUND)))
    scope = f"{MAIN}.{name}"
    defaults = {
        f"{scope}.{each.name}": graph.defaults[each.source]
        for each in graph.inputs
        if each.source in graph.defaults
    }
    return assemble(
        emission.module(imports, [*definitions, *blocks, definition]),
        {**module_texts(libraries, called), **modules},
        {**{f"{scope}.{each.name}": each.value for each in variables}, **defaults},
        replace(
            _metadata(graph, variables, scope),
            defaults=tuple(defaults),
            fixed_inputs=graph.fixed_inputs,
        ),
        path=path,
        header=header,
    )


_NO_BOUND = f"{UNLIMITED}, the largest index, is the bound of dimensions that have none."


def _is_unlimited(tensor: Tensor) -> bool:
    """Whether a dimension of an input has no bound."""
    symbols = [each.symbols.values() for each in tensor.shape if isinstance(each, Symbolic)]
    return any(each.bound == UNLIMITED for found in symbols for each in found)


def _quantized(graph: ConvertedGraph, variables: Iterable[Tensor]) -> Iterator[tuple[str, Call]]:
    """Return the quantizers by the names of tensors; a tensor of a block is quantized inside it."""
    names = {id(each): each.name for each in (*graph.inputs, *variables)}
    names |= {id(each): name for name, each in made_tensors(graph.steps, graph.steps)}
    for tensor, quantizer in graph.quantized:
        name = names.get(id(tensor))
        if name is not None:
            yield name, quantizer


def _metadata(graph: ConvertedGraph, variables: Iterable[Tensor], scope: str) -> Metadata:
    """Return the dtypes and source names of tensors, by full name."""
    outside = (*graph.inputs, *variables)
    names = {each.name: each.source for each in outside if each.name}
    names |= dict(made_names(graph.steps, graph.steps))
    full = {name: f"{scope}.{name}" for name in names}
    full |= {name: f"{scope}.{inner}.{name}" for name, inner in inner_scopes(graph.steps)}
    types = machine_types(graph, list(variables))
    return Metadata(
        machine_types={full[each]: dtype for each, dtype in types.items() if each in full},
        source_names={full[name]: source for name, source in names.items() if source},
    )


def assemble(
    main: nodes.Module,
    modules: Mapping[str, str],
    variables: Mapping[str, Any],
    metadata: Metadata,
    *,
    path: str,
    header: str = "",
) -> Assembled:
    """Return the parts of a model: a main module, other modules by name, variables by name.

    ``header`` is put as a comment above the text. Raises NnefError if the text is not a valid
    model.
    """
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
    text = f"{comment}\n{print_module(main)}" if comment else print_module(main)
    sources = {name: Source(f"{path}/{name}.sknd", each) for name, each in modules.items()}

    def load(parts: tuple[str, ...]) -> Source | tuple[Source, ...] | None:
        name = ".".join(parts)
        return sources.get(name) or standard_module(name) or None

    program, diagnostics = check_program(Source(f"{path}/main.sknd", text), load)
    if program is None:
        raise NnefError(each for each in diagnostics if each.severity == "error")
    return Assembled(program, path, variables, metadata)
