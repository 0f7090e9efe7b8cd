"""A graph definition with its attribute values and input shapes to a Graph (chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tvm_nnef.compose.affine import unknown_names
from tvm_nnef.compose.binding import Invocation, bind
from tvm_nnef.compose.composer import Composer, Frame
from tvm_nnef.compose.declarations import concrete_type
from tvm_nnef.compose.evaluate import known
from tvm_nnef.compose.indexing import count
from tvm_nnef.compose.shapes import Shape, evaluate_shape
from tvm_nnef.compose.values import Environment, Value
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean, error
from tvm_nnef.graph.nodes import Graph, Operand, Tensor
from tvm_nnef.semantics.program import MAIN, CheckedDefinition, Program
from tvm_nnef.syntax import nodes

InputShape: TypeAlias = "Sequence[int] | Sequence[Sequence[int]]"
"""The shape of an input, or the shapes of the items of a pack."""


class NotGiven(NnefError):
    """A graph's attribute, type or input extent that only a caller can give has no value."""


def compose_graph(
    program: Program,
    *,
    graph: str | None = None,
    attributes: Mapping[str, object] | None = None,
    types: Mapping[str, str] | None = None,
    input_shapes: Mapping[str, InputShape] | None = None,
    quantize: bool = True,
) -> Graph:
    """Composes a graph of the main module: the one named, or the first.

    ``attributes`` are graph attributes by name (numbers, truth values, strings, or sequences of
    them), ``types`` the concrete types of its generics, ``input_shapes`` concrete extents.

    Raises NnefError for everything that is wrong with the model or with what was given;
    :class:`NotGiven` where an attribute or an extent has no value.
    """
    definition = find_graph(program, graph)
    _refuse_unsupported(definition, quantize)
    composer = Composer(program)
    place = definition.node.name.span
    values = {name: _attribute(name, value) for name, value in (attributes or {}).items()}
    _check_names(definition, input_shapes or {})
    env = Environment(_known_attributes(definition, values), dict(types or {}), program.dialect)
    operands = tuple(
        _input(parameter, env, (input_shapes or {}).get(parameter.name.name), composer, definition)
        for parameter in definition.inputs
    )
    scope = f"{MAIN}.{definition.name}"
    frame = Frame(MAIN, env, scope, ())
    bound, operands = bind(
        definition,
        Invocation(values, operands, dict(types or {}), place),
        program.dialect,
        lambda name, value, type_, shape: composer.constant(frame, name, value, type_, shape),
    )
    frame.env = bound
    composer.declare(definition, frame)
    composer.run(definition.components, frame)
    return composer.graph(definition, frame, operands, place)


def find_graph(program: Program, name: str | None) -> CheckedDefinition:
    """The graph named, or the first of the main module. Raises NnefError where there is none."""
    graphs = {definition.name: definition for definition in program.graphs}
    if name is None and graphs:
        return next(iter(graphs.values()))
    if name is None or name not in graphs:
        source = program.modules[MAIN].source.path
        hint = (did_you_mean(name, graphs) if name else None) or f"it has: {', '.join(graphs)}"
        raise error(f"the model has no graph '{name}'", file=source, hint=hint)
    return graphs[name]


def _attribute(name: str, value: object) -> Value:
    """A graph attribute that a caller gave, as a value."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Sequence) and all(isinstance(v, bool | int | float | str) for v in value):
        return tuple(value)
    message = f"attribute '{name}' must be a number, a truth value, a string or a list of them"
    raise error(f"{message}, found {value!r}")


def _check_names(definition: CheckedDefinition, shapes: Mapping[str, InputShape]) -> None:
    known_names = [parameter.name.name for parameter in definition.inputs]
    for name in shapes:
        if name not in known_names:
            hint = did_you_mean(name, known_names) or f"its inputs are: {', '.join(known_names)}"
            message = f"graph '{definition.name}' has no input '{name}'"
            raise error(message, definition.node.name.span, hint=hint)


def _known_attributes(
    definition: CheckedDefinition, given: Mapping[str, Value]
) -> dict[str, Value]:
    """Attributes that input shapes may use: those given, and those with a constant default."""
    names: dict[str, Value] = {}
    empty = Environment({}, {})
    for parameter in definition.attributes:
        name = parameter.name.name
        if name in given:
            names[name] = given[name]
        elif parameter.default is not None and name not in definition.deferred:
            names[name] = known(parameter.default, empty)
        elif parameter.default is None and not parameter.type.optional:
            hint = f"give it: attributes={{'{name}': …}}, or --attr {name}=…"
            message = f"graph attribute '{name}' has no value"
            raise NotGiven(Diagnostic(message, parameter.span, hint))
    return names


def _input(
    parameter: nodes.Parameter,
    env: Environment,
    given: InputShape | None,
    composer: Composer,
    definition: CheckedDefinition,
) -> Operand:
    name = f"{MAIN}.{definition.name}.{parameter.name.name}"
    type_name = parameter.type.name.name
    generic = next((d for d in definition.dtypes if d.name.name == type_name), None)
    if generic is not None and type_name not in env.types and generic.default is not None:
        env.types[type_name] = generic.default.name  # type: ignore[index]
    type_ = concrete_type(parameter, env)
    if parameter.type.pack is None:
        shape = _shape(parameter, env, given, None)  # type: ignore[arg-type]
        return Tensor(composer.name(name), type_, shape, "input", None, parameter.span)
    length = _pack_length(parameter, env, given)
    shapes = [
        _shape(parameter, env, given[i] if given is not None else None, i)  # type: ignore[arg-type]
        for i in range(length)
    ]
    return tuple(
        Tensor(composer.name(f"{name}:{i + 1}"), type_, shape, "input", None, parameter.span)
        for i, shape in enumerate(shapes)
    )


def _pack_length(parameter: nodes.Parameter, env: Environment, given: InputShape | None) -> int:
    if given is not None:
        return len(given)
    pack = parameter.type.pack
    if pack is None or pack.length is None or unknown_names(pack.length, env.names):
        raise _unknown(parameter, f"the length of the pack '{parameter.name.name}'")
    return count(known(pack.length, env), "a pack length", pack.length.span)


def _shape(
    parameter: nodes.Parameter, env: Environment, given: Sequence[int] | None, item: int | None
) -> Shape:
    if given is not None:
        if not all(isinstance(extent, int) and extent >= 0 for extent in given):
            message = f"the shape given for input '{parameter.name.name}' must be integers"
            raise error(f"{message}, found {list(given)}", parameter.span)
        return tuple(given)
    declared = parameter.type.shape
    if declared is None:
        raise _unknown(parameter, f"the shape of input '{parameter.name.name}'")
    for extent in declared:
        lengths = (extent.pack.length,) if extent.pack and extent.pack.length else ()
        for part in (extent.value, *lengths):
            if isinstance(part, nodes.Omitted):
                raise _unknown(parameter, f"an extent of input '{parameter.name.name}'")
            missing = unknown_names(part, env.names)
            if missing:
                raise _unknown(parameter, f"extent '{missing[0]}' of '{parameter.name.name}'")
    return evaluate_shape(declared, env, item) or ()


def _unknown(parameter: nodes.Parameter, what: str) -> NotGiven:
    name = parameter.name.name
    rank = len(parameter.type.shape or ()) or 2
    example = ",".join(["1"] * rank)
    hint = f"give the shape: input_shapes={{'{name}': ({example})}}, or --shape {name}={example}"
    return NotGiven(Diagnostic(f"{what} is not known", parameter.span, hint))


def _refuse_unsupported(definition: CheckedDefinition, quantize: bool) -> None:
    """What is understood but not yet composed is refused, rather than silently left out."""
    if definition.updates:
        raise error("variable updates are not supported yet", definition.updates[0].span)
    if definition.quantizations and quantize:
        hint = "compose with quantize=False to leave it out"
        place = definition.quantizations[0].span
        raise error("quantization is not supported yet", place, hint=hint)
