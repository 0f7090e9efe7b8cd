"""Tensors that a definition declares: constants, variables, results (sections 2.6, 2.7)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.budget import TENSOR
from tvm_nnef.composition.data_dependent_shapes import declared_shape, require_within
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.indexing import count
from tvm_nnef.composition.shapes import Shape, evaluate_shape
from tvm_nnef.composition.values import (
    Environment,
    Value,
    describe,
    show,
    shown,
    type_of,
)
from tvm_nnef.diagnostics import Note, Span, error
from tvm_nnef.graph.formula import ScalarType
from tvm_nnef.graph.nodes import Operand, Tensor, tensors
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.syntax import nodes

MAX_CONSTANT = 1 << 20
"""Upper limit of the elements of a constant that is given element by element."""


def concrete_type(parameter: nodes.Parameter, env: Environment) -> ScalarType:
    """Return the type of a tensor parameter with its generic replaced.

    Raises NnefError for ``str``.
    """
    name = parameter.type.name.name
    type_name = env.types.get(name, name)
    if type_name not in _SCALAR_TYPES:
        hint = "a tensor holds real, int or bool; a string can only be an attribute"
        raise error(f"a tensor cannot be of type {type_name}", parameter.type.span, hint=hint)
    return _SCALAR_TYPES[type_name]


_SCALAR_TYPES: Mapping[str, ScalarType] = {"real": "real", "int": "int", "bool": "bool"}


def _static(shape: Shape, what: str, span: Span) -> Shape:
    """Return the shape itself. Raises NnefError if it is known only at run time."""
    if not all(map(dimensions.is_static, shape)):
        message = f"the shape of a {what} must be known before a run, found {show(shape)}"
        raise error(message, span, hint=value_hints.sized(shape))
    return shape


def item_shapes(parameter: nodes.Parameter, env: Environment) -> list[Shape] | Shape:
    """Return the shape of a parameter; a list of the shapes of its items if it is a pack."""
    pack = parameter.type.pack
    if pack is None:
        return declared_shape(parameter.type.shape or (), env, parameter.name.name)
    if pack.length is None:
        hint = "write it after the dots, as in '..(n)'"
        message = f"the length of the pack '{parameter.name.name}' is missing"
        raise error(message, parameter.span, hint=hint)
    length = count(known(pack.length, env), "a pack length", pack.length.span)
    env.budget.spend("tensors", TENSOR * length, parameter.span)
    declared, name = parameter.type.shape or (), parameter.name.name
    return [declared_shape(declared, env, name, item) for item in range(length)]


def _static_shapes(parameter: nodes.Parameter, what: str, env: Environment) -> list[Shape] | Shape:
    shapes = item_shapes(parameter, env)
    for shape in shapes if isinstance(shapes, list) else (shapes,):
        _static(shape, what, parameter.span)
    return shapes


def constants(parameter: nodes.Parameter, env: Environment, name: Callable[[str], str]) -> Operand:
    """Return the tensors of a ``@constant`` declaration (section 2.7)."""
    type_, shapes = concrete_type(parameter, env), _static_shapes(parameter, "constant", env)
    base = parameter.name.name
    assert parameter.default is not None
    if isinstance(shapes, list):
        values = known(parameter.default, env)
        if not isinstance(values, tuple) or len(values) != len(shapes):
            message = (
                f"a pack of {len(shapes)} constants takes as many values, found {describe(values)}"
            )
            hint = f"write a list of {len(shapes)} values"
            raise error(message, parameter.default.span, hint=hint)
        return tuple(
            Tensor(
                name(f"{base}:{i + 1}"),
                type_,
                shape,
                "constant",
                _number(value, type_, parameter),
                parameter.span,
            )
            for i, (shape, value) in enumerate(zip(shapes, values, strict=True))
        )
    value = _constant_value(parameter, type_, shapes, env)
    return Tensor(name(base), type_, shapes, "constant", value, parameter.span)


def _constant_value(
    parameter: nodes.Parameter, type_: ScalarType, shape: Shape, env: Environment
) -> bool | int | float | tuple[bool | int | float, ...]:
    assert parameter.default is not None
    if parameter.bounds:
        return tuple(_elements(parameter, type_, shape, env))
    value = known(parameter.default, env)
    if not isinstance(value, tuple):
        return _number(value, type_, parameter)
    volume = dimensions.product(shape)
    if len(value) != volume:
        message = f"{len(value)} values for a constant of {show(volume)} elements"
        hint = f"write {show(volume)} values, or a single one for all"
        raise error(message, parameter.default.span, hint=hint)
    return tuple(_number(item, type_, parameter) for item in value)


def _elements(
    parameter: nodes.Parameter, type_: ScalarType, shape: Shape, env: Environment
) -> Iterator[bool | int | float]:
    """Yield the elements in row-major order: the last index symbol runs fastest."""
    ranges: list[range] = []
    names: list[tuple[str, int]] = []
    for bound in parameter.bounds:
        size = known(bound.extent, env)
        items = size if isinstance(size, tuple) else (size,)
        names.append((bound.index.name, len(items) if isinstance(size, tuple) else -1))
        ranges += [range(count(item, "an index bound", bound.extent.span)) for item in items]
    if tuple(len(each) for each in ranges) != shape:
        found = show(tuple(len(each) for each in ranges))
        message = f"the bounds {found} of the index symbols differ from the shape {show(shape)}"
        raise error(message, parameter.span, hint=f"write bounds that give {show(shape)}")
    volume = dimensions.product(shape)
    if not isinstance(volume, int) or volume > MAX_CONSTANT:
        hint = "make it a '@variable', whose values are in a '.dat' file"
        message = f"a constant of more than {MAX_CONSTANT} elements"
        raise error(message, parameter.span, hint=hint)
    assert parameter.default is not None
    for position in itertools.product(*ranges):
        symbols = env.extended(_symbols(names, position))
        yield _number(known(parameter.default, symbols), type_, parameter)


def _symbols(names: list[tuple[str, int]], position: tuple[int, ...]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    start = 0
    for name, length in names:
        values[name] = position[start] if length < 0 else position[start : start + length]
        start += abs(length)
    return values


def _number(value: Value, type_: ScalarType, parameter: nodes.Parameter) -> bool | int | float:
    span = (parameter.default or parameter).span
    if not isinstance(value, bool | int | float) or type_of(value) != type_:
        if type(value) is int and type_ == "real":
            hint = "write it with a decimal point"
            raise error(f"a constant of type real cannot be {show(value)}", span, hint=hint)
        message = f"a constant of type {type_} cannot be {describe(value)}"
        raise error(message, span, hint=value_hints.of_type(value, type_))
    return value


def variables(parameter: nodes.Parameter, env: Environment, name: Callable[[str], str]) -> Operand:
    """Return the tensors of a ``@variable`` declaration; their values are read from files."""
    type_, shapes = concrete_type(parameter, env), _static_shapes(parameter, "variable", env)
    base = parameter.name.name
    if isinstance(shapes, list):
        return tuple(
            Tensor(name(f"{base}:{i + 1}"), type_, shape, "variable", None, parameter.span)
            for i, shape in enumerate(shapes)
        )
    return Tensor(name(base), type_, shapes, "variable", None, parameter.span)


def check_result(
    parameter: nodes.Parameter, operand: Operand, env: Environment, location: Span
) -> None:
    """Raise NnefError if a composed result differs from its declaration (section 2.10)."""
    complaint = _disagreement(parameter.name.name, parameter.type, operand, env)
    if complaint:
        note = Note(f"'{parameter.name.name}' is declared here", parameter.span)
        raise error(f"output {complaint}", location, hint=_CORRECTION, notes=(note,))


_CORRECTION = "correct the declaration; '~' stands for a dimension that is computed"


def check_target(target: nodes.Target, operand: Operand, env: Environment) -> None:
    """Raise NnefError if a tensor differs from the type and shape of its left-hand side."""
    if isinstance(target, nodes.NameTarget) and target.type is not None:
        spec = nodes.TypeSpec(target.type, shape=target.shape, pack=target.pack, span=target.span)
        complaint = _disagreement(target.name.name, spec, operand, env)
        if complaint:
            raise error(complaint, target.span, hint=_CORRECTION)


def _disagreement(
    name: str, spec: nodes.TypeSpec, operand: Operand, env: Environment
) -> str | None:
    """Return the difference between tensors and their declaration, in words; None if they agree."""
    if operand is None:
        return f"'{name}' is null"
    if isinstance(operand, Tensor) and operand in env.symbols.stacked and spec.pack is not None:
        _bind_length(name, spec.pack, operand.shape[0], env)
        items = replace(operand, shape=operand.shape[1:])
        return _disagreement(name, replace(spec, pack=None), items, env)
    if isinstance(operand, tuple) != (spec.pack is not None):
        found = "a pack" if isinstance(operand, tuple) else "a single tensor"
        return f"'{name}' is {found}, unlike its declaration"
    if isinstance(operand, tuple) and spec.pack is not None and spec.pack.length is not None:
        length = count(known(spec.pack.length, env), "a pack length", spec.pack.span)
        if length != len(operand):
            return f"'{name}' is a pack of {len(operand)} tensors, declared as {length}"
    wanted = env.types.get(spec.name.name, spec.name.name)
    for index, tensor in enumerate(tensors(operand)):
        if tensor.type != wanted:
            return f"'{name}' is of type {tensor.type}, declared as {wanted}"
        if spec.shape is not None and not _shape_agrees(spec, tensor.shape, env, index, name):
            declared = evaluate_shape(spec.shape, env, index)
            text = f"declared as {show(declared)}" if declared is not None else "unlike declared"
            return f"'{name}' has shape {show(tensor.shape)}, {text}"
    return None


def _bind_length(name: str, pack: nodes.Pack, length: Dimension, env: Environment) -> None:
    """Check at run time that a pack of dynamic length has the declared length."""
    match pack.length:
        case None:
            return
        case nodes.Identifier(symbol) if symbol not in env.names:
            env.names[symbol] = length
        case declared:
            wanted = known(declared, env)
            if not dimensions.is_symbolic(wanted):
                wanted = count(wanted, "a pack length", declared.span)
            message = [f"'{name}' is a pack of ", length, " tensors, declared as "]
            message += shown(wanted, quote=True)
            same = dimensions.compare("eq", length, wanted)
            env.symbols.require(same, message, pack.span, hint=_CORRECTION)


def _shape_agrees(
    spec: nodes.TypeSpec, shape: Shape, env: Environment, item: int, name: str
) -> bool:
    """Whether each dimension agrees; ``~`` agrees with any, ``~..`` with all remaining ones.

    Dimensions that are known only at run time are checked then.
    """
    declared = spec.shape or ()
    _bind_results(declared, shape, env)
    parts = [_part(expected, env, item) for expected in declared]
    rest = len(shape) - sum(len(part) for part in parts if part is not None)
    open_parts = parts.count(None)
    if rest < 0 or (rest > 0 and not open_parts):
        return False
    wanted: list[Dimension | None] = []
    for part in parts:
        wanted += [None] * rest if part is None else part
    for expected, actual in zip(wanted, shape, strict=False):
        if expected is not None:
            same = dimensions.compare("eq", expected, actual)
            if dimensions.decide(same, env.symbols.bounds) is False:
                return False
            message = [f"'{name}' has dimension ", actual, ", declared as ", expected]
            env.symbols.require(same, message, spec.span, hint=_CORRECTION)
    return True


def _bind_results(declared: Sequence[nodes.Extent], shape: Shape, env: Environment) -> None:
    """Bind the symbols of results, such as the ``s`` of ``s|k``, to the actual shapes."""
    if len(declared) != len(shape) or any(extent.pack is not None for extent in declared):
        return
    for extent, actual in zip(declared, shape, strict=True):
        match extent.value:
            case nodes.Identifier(name) if name not in env.names and extent.bound is not None:
                env.names[name] = actual
        if extent.bound is not None:
            require_within(extent.bound, (actual,), env)


def _part(extent: nodes.Extent, env: Environment, item: int) -> list[Dimension | None] | None:
    """Return the dimensions of an extent.

    An item that is None agrees with any dimension; a result that is None agrees with any number of
    dimensions.
    """
    if not isinstance(extent.value, nodes.Omitted):
        return list(evaluate_shape((extent,), env, item) or ())
    if extent.pack is None:
        return [None]
    length = extent.pack.length
    return None if length is None else [None] * count(known(length, env), "a rank", length.span)
