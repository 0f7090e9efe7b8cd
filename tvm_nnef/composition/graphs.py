"""Composition of a graph definition, attribute values and input shapes into a Graph (chapter 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeAlias

from tvm_nnef.composition.affine import unknown_names
from tvm_nnef.composition.assignment import target_names
from tvm_nnef.composition.binding import Invocation, bind, check_attribute
from tvm_nnef.composition.budget import TENSOR
from tvm_nnef.composition.checks import run_helpers
from tvm_nnef.composition.composer import Composer
from tvm_nnef.composition.data_dependent_shapes import declared_shape
from tvm_nnef.composition.declarations import concrete_type
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.frame import Frame
from tvm_nnef.composition.indexing import count
from tvm_nnef.composition.quantize import check_applied
from tvm_nnef.composition.shapes import Shape
from tvm_nnef.composition.sizes import check_sizes
from tvm_nnef.composition.symbols import Symbols
from tvm_nnef.composition.values import Environment, Value
from tvm_nnef.diagnostics import (
    MAX_REPORTED,
    Diagnostic,
    ModelError,
    NnefError,
    Span,
    did_you_mean,
    error,
)
from tvm_nnef.graph.nodes import Graph, Operand, Tensor, every_tensor, flatten, mapped
from tvm_nnef.semantics.names import used_names
from tvm_nnef.semantics.program import MAIN, CheckedDefinition, Program
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.syntax import nodes

InputShape: TypeAlias = "Sequence[int] | Sequence[Sequence[int]]"
"""The shape of an input, or the shapes of the items of a pack."""


class NotGiven(ModelError):
    """A graph's attribute, type or input dimension has no value, and only a caller can provide
    it.
    """


def compose_graph(
    program: Program,
    *,
    graph: str | None = None,
    attributes: Mapping[str, object] | None = None,
    types: Mapping[str, str] | None = None,
    input_shapes: Mapping[str, InputShape] | None = None,
    quantize: bool = True,
    dynamic: bool = False,
    equal: Mapping[str, Dimension] | None = None,
) -> Graph:
    """Compose a graph of the main module: the one with a given name, or the first.

    ``attributes`` are graph attributes by name (numbers, truth values, strings, or sequences of
    them), ``types`` the concrete types of its generics, ``input_shapes`` static dimensions. If not
    ``dynamic``, a named dimension of an input must have a value or a bound. ``equal`` maps names of
    input symbols to dimensions that they are assumed to equal.

    Raises NnefError for all errors in the model or in the arguments; :class:`NotGiven` if an
    attribute or a dimension has no value.
    """
    definition = find_graph(program, graph)
    try:
        return _compose(
            program, definition, attributes, types, input_shapes, quantize, dynamic, equal or {}
        )
    except RecursionError:
        hint = "make operators of inner parts, and invoke them in fewer levels"
        message = f"graph '{definition.name}' is nested too deeply to be composed"
        raise error(message, definition.node.name.span, hint=hint) from None


def _compose(
    program: Program,
    definition: CheckedDefinition,
    attributes: Mapping[str, object] | None,
    types: Mapping[str, str] | None,
    input_shapes: Mapping[str, InputShape] | None,
    quantize: bool,
    dynamic: bool,
    equal: Mapping[str, Dimension],
) -> Graph:
    location = definition.node.name.span
    values = {name: _attribute(name, value) for name, value in (attributes or {}).items()}
    _check_names(definition, values, "attribute", definition.attributes)
    _check_names(definition, input_shapes or {}, "input", definition.inputs)
    _check_names(definition, types or {}, "generic type", definition.dtypes)
    known_types = dict(_types(definition, types or {}))
    env = Environment({}, known_types, program.dialect, Symbols())
    _check_attributes(definition, values, env, location)
    env.names.update(_known_attributes(definition, values, env))
    if dynamic:
        _name_dimensions(definition, input_shapes or {}, env)
    composer = Composer(program, env.budget, quantize)
    frame = Frame(MAIN, env, f"{MAIN}.{definition.name}", (), definition=definition)
    operands = tuple(
        _input(parameter, frame, (input_shapes or {}).get(parameter.name.name), composer)
        for parameter in definition.inputs
    )
    operands = _with_equal_sizes(operands, equal, env.symbols)
    check_sizes(flatten(operands))
    frame.env, operands = bind(
        definition,
        Invocation(values, operands, env.types, location),
        env,
        partial(composer.constant, frame),
    )
    run_helpers(definition, frame.env, location)
    composer.begin(definition, frame, operands)
    _run(composer, definition.components, frame)
    composed = composer.graph(definition, frame, operands, location)
    check_applied(composer.quantizations, frame.scope, composer.names)
    check_sizes(every_tensor(composed), composed.operations)
    symbols = env.symbols
    return replace(composed, bounds=symbols.bounds, checks=tuple(symbols.checks))


def _with_equal_sizes(
    operands: tuple[Operand, ...], equal: Mapping[str, Dimension], symbols: Symbols
) -> tuple[Operand, ...]:
    """Return the inputs with symbols replaced by other dimensions, given by the names of the
    symbols.
    """
    if not equal:
        return operands
    sizes = chain(*(each.shape for each in flatten(operands)))
    own = {dimensions.symbols(size)[0]: size for size in sizes if dimensions.is_symbol(size)}
    values = {name: dimensions.substituted(value, own) for name, value in equal.items()}

    def changed(tensor: Tensor) -> Tensor:
        shape = tuple(dimensions.substituted(size, values) for size in tensor.shape)
        changed_tensor = replace(tensor, shape=shape)
        if tensor in symbols.stacked:
            symbols.stacked.add(changed_tensor)
        return changed_tensor

    return tuple(mapped(operand, changed) for operand in operands)


def _run(composer: Composer, components: Sequence[nodes.Component], frame: Frame) -> None:
    """Compose components; raise one NnefError with all errors in those that are independent."""
    problems: list[Diagnostic] = []
    missing: set[str] = set()
    for component in components:
        if len(problems) > MAX_REPORTED:
            break
        if missing.isdisjoint(name.name for name in used_names(component.value)):
            try:
                composer.run((component,), frame)
                continue
            except NnefError as problem:
                problems += problem.diagnostics
        missing.update(name for target in component.targets for name in target_names(target))
    if problems:
        raise NnefError(problems)


def find_graph(program: Program, name: str | None) -> CheckedDefinition:
    """Return the graph with a name, or the first of the main module.

    Raises NnefError if there is none.
    """
    definitions = program.modules[MAIN].definitions
    if name is not None and name in definitions and definitions[name].is_graph:
        return definitions[name]
    graphs = {definition.name: definition for definition in program.graphs}
    if name is None and graphs:
        return next(iter(graphs.values()))
    if name is None or name not in graphs:
        source = program.modules[MAIN].source.path
        hint = (did_you_mean(name, graphs) if name else None) or f"it has: {', '.join(graphs)}"
        raise error(f"the model has no graph '{name}'", file=source, hint=hint)
    return graphs[name]


def _attribute(name: str, value: object) -> Value:
    """Return a caller's graph attribute as a value."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Sequence) and all(isinstance(v, bool | int | float | str) for v in value):
        return tuple(value)
    message = f"attribute '{name}' must be a number, a truth value, a string or a list of them"
    hint = "convert it first, as by '.tolist()'" if hasattr(value, "tolist") else _ATTRIBUTE_HINT
    raise error(f"{message}, found {value!r}", hint=hint)


_ATTRIBUTE_HINT = "give a value such as 2, 0.5, True, 'text' or [1, 2]"


def _check_names(
    definition: CheckedDefinition,
    given: Iterable[str],
    kind: str,
    declared: Sequence[nodes.Parameter] | Sequence[nodes.DtypeDefinition],
) -> None:
    known_names = [item.name.name for item in declared]
    for name in given:
        if name not in known_names:
            listed = f"its {kind}s are: {', '.join(known_names)}" if known_names else None
            hint = did_you_mean(name, known_names) or listed or f"it has no {kind}s"
            message = f"graph '{definition.name}' has no {kind} '{name}'"
            raise error(message, definition.node.name.span, hint=hint)


def _check_attributes(
    definition: CheckedDefinition, values: Mapping[str, Value], env: Environment, location: Span
) -> None:
    """Raise NnefError for a value of another type than its attribute, before shapes use it."""
    for parameter in definition.attributes:
        if parameter.name.name in values:
            check_attribute(parameter, values[parameter.name.name], location, env)


def _types(definition: CheckedDefinition, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the concrete types of the graph's generics: those given, else the defaults."""
    for dtype in definition.dtypes:
        name = dtype.name.name
        if name in given:
            yield name, given[name]
        elif dtype.default is not None:
            yield name, dtype.default.name
        else:
            hint = f"give it: types={{'{name}': 'real'}}, or --type {name}=real"
            raise NotGiven(Diagnostic(f"generic type '{name}' has no value", dtype.span, hint))


def _known_attributes(
    definition: CheckedDefinition, given: Mapping[str, Value], start: Environment
) -> dict[str, Value]:
    """Return the attributes that input shapes may use: those given, and those independent of
    inputs.
    """
    env = start.extended({})
    pending = list(definition.attributes)
    for parameter in pending:
        if parameter.default is None and not parameter.type.optional:
            _check_given(parameter, given)
    while pending:
        waiting = [parameter for parameter in pending if not _learn(parameter, given, env)]
        if len(waiting) == len(pending):
            break
        pending = waiting
    return env.names


def _check_given(parameter: nodes.Parameter, given: Mapping[str, Value]) -> None:
    name = parameter.name.name
    if name not in given:
        hint = f"give it: attributes={{'{name}': …}}, or --attr {name}=…"
        message = f"graph attribute '{name}' has no value"
        raise NotGiven(Diagnostic(message, parameter.span, hint))


def _learn(parameter: nodes.Parameter, given: Mapping[str, Value], env: Environment) -> bool:
    """Bind an attribute in ``env``; return False if others must be known before."""
    name, pack = parameter.name.name, parameter.type.pack
    if name in given:
        value = given[name]
    elif parameter.default is None:
        value = None
    elif unknown_names(parameter.default, env.names):
        return False
    else:
        value = known(parameter.default, env)
    if pack is not None and value is not None and not isinstance(value, tuple):
        if pack.length is None or unknown_names(pack.length, env.names):
            return False
        length = count(known(pack.length, env), "a pack length", pack.length.span)
        value = (value,) * length
        env.budget.spend_value(value, parameter.span)
    env.names[name] = value
    return True


def _name_dimensions(
    definition: CheckedDefinition, given: Collection[str], env: Environment
) -> None:
    """Bind in ``env`` a symbol for each named extent to which no input can give a value."""
    inputs = [each for each in definition.inputs if each.type.pack is None]
    bounded = set()
    for parameter in definition.inputs:
        for extent in parameter.type.shape or ():
            if extent.bound is not None or parameter.name.name in given:
                bounded |= {name.name for name in used_names(extent.value)}
    for parameter in inputs:
        for extent in parameter.type.shape or ():
            value = extent.value
            if not isinstance(value, nodes.Identifier) or extent.pack is not None:
                continue
            if value.name not in env.names and value.name not in bounded:
                env.names[value.name] = env.symbols.new(value.name, dimensions.UNLIMITED)


def _input(parameter: nodes.Parameter, frame: Frame, given: object, composer: Composer) -> Operand:
    """Return the tensors of an input.

    ``given`` is the shape from the caller, or a list of item shapes.
    """
    name, env = f"{frame.scope}.{parameter.name.name}", frame.env
    type_ = concrete_type(parameter, env)

    def tensor(name: str, shape: Shape) -> Tensor:
        return Tensor(composer.name(name), type_, shape, "input", None, parameter.span)

    if parameter.type.pack is None:
        shape = _input_shape(parameter, env) if given is None else _given(parameter, given)
        return tensor(name, shape)
    length = None if given is not None else _dynamic_length(parameter, env)
    if length is not None:
        _check_alike(parameter)
        stacked = tensor(name, (length, *_input_shape(parameter, env)))
        env.symbols.stacked.add(stacked)
        return stacked
    if given is None:
        number = _pack_length(parameter, env)
        env.budget.spend("tensors", TENSOR * number, parameter.span)
        shapes = [_input_shape(parameter, env, item) for item in range(number)]
    elif isinstance(given, Sequence):
        shapes = [_given(parameter, item) for item in given]
    else:
        raise _no_shape(parameter, "a list of shapes", given)
    return tuple(tensor(f"{name}:{i + 1}", shape) for i, shape in enumerate(shapes))


def _dynamic_length(parameter: nodes.Parameter, env: Environment) -> Dimension | None:
    """Return the length of a pack if it is known only at run time, as in ``..(n|4)`` (section
    2.6).
    """
    pack = parameter.type.pack
    if pack is None or pack.length is None:
        return None
    if pack.bound is not None:
        extent = nodes.Extent(pack.length, pack.bound, span=pack.span)
        (length,) = declared_shape((extent,), env, parameter.name.name)
        return length
    if unknown_names(pack.length, env.names):
        return None
    value = known(pack.length, env)
    return value if dimensions.is_symbolic(value) else None


def _check_alike(parameter: nodes.Parameter) -> None:
    """Raise NnefError for a pack of dynamic length whose items differ in shape."""
    for extent in parameter.type.shape or ():
        if extent.per_item:
            hint = "items that are stacked to one tensor have the same shape"
            message = f"the pack '{parameter.name.name}' of dynamic length has a dimension per item"
            raise error(message, extent.span, hint=hint)


def _pack_length(parameter: nodes.Parameter, env: Environment) -> int:
    pack = parameter.type.pack
    if pack is None or pack.length is None or unknown_names(pack.length, env.names):
        raise _unknown(parameter, f"the length of the pack '{parameter.name.name}'")
    return count(known(pack.length, env), "a pack length", pack.length.span)


def _given(parameter: nodes.Parameter, given: object) -> Shape:
    if isinstance(given, Sequence) and all(isinstance(e, int) and e >= 0 for e in given):
        return tuple(given)
    raise _no_shape(parameter, "a list of non-negative integers", given)


def _no_shape(parameter: nodes.Parameter, wanted: str, given: object) -> NnefError:
    name = parameter.name.name
    message = f"the shape given for input '{name}' must be {wanted}, found {given!r}"
    hint = f"as in input_shapes={{'{name}': (1, 3)}}, or --shape {name}=1,3"
    if parameter.type.pack is not None:
        hint = f"as in input_shapes={{'{name}': [(1, 3), (1, 3)]}}, a shape for each tensor"
    return error(message, parameter.span, hint=hint)


def _input_shape(parameter: nodes.Parameter, env: Environment, item: int | None = None) -> Shape:
    declared, name = parameter.type.shape, parameter.name.name
    if declared is None:
        raise _unknown(parameter, f"the shape of input '{name}'")
    names = set(env.names)
    for extent in declared:
        length = extent.pack and extent.pack.length
        if length and unknown_names(length, env.names):
            raise _unknown(parameter, f"the rank of input '{name}'")
        if extent.bound is None and isinstance(extent.value, nodes.Omitted):
            raise _unknown(parameter, f"a dimension of input '{name}'")
        if extent.bound is None and not isinstance(extent.value, nodes.Omitted):
            for missing in unknown_names(extent.value, names):
                raise _unknown(parameter, f"dimension '{missing}' of '{name}'")
        if not isinstance(extent.value, nodes.Omitted):
            names.update(unknown_names(extent.value, env.names))
    return declared_shape(declared, env, name if item is None else f"{name}_{item + 1}", item)


def _unknown(parameter: nodes.Parameter, what: str) -> NotGiven:
    name = parameter.name.name
    rank = len(parameter.type.shape or ()) or 2
    example = ",".join(["1"] * rank)
    if parameter.type.pack is None:
        hint = (
            f"give the shape: input_shapes={{'{name}': ({example},)}}, or --shape {name}={example}"
        )
    else:
        hint = f"give the shapes of its items: input_shapes={{'{name}': [({example},), …]}}"
    return NotGiven(Diagnostic(f"{what} is not known", parameter.span, hint))
