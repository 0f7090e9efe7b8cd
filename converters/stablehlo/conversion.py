"""Conversion of the function ``main`` of a module into steps: operation by operation, calls
inlined.

Input: a module and a table of converters. Output: a :class:`ConvertedGraph`. Operations that cannot
be converted are collected, and reported at once with their locations in the module.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from tvm_nnef.converters.common.bounds import Bounds, check_bounds
from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.inputs import input_tensors
from tvm_nnef.converters.common.steps import hint, needed
from tvm_nnef.converters.common.tensors import ConvertedGraph, Tensor
from tvm_nnef.converters.common.types import Type
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.stablehlo.folding import fold, fold_call
from tvm_nnef.converters.stablehlo.operation import (
    Operation,
    OperatorFunction,
    check_narrow_integers,
    declared_shape,
    dtype_of,
)
from tvm_nnef.converters.stablehlo.reading import (
    HloModule,
    input_names,
    location_name,
    location_text,
    result_names,
    value_names,
)
from tvm_nnef.converters.stablehlo.registry import standard
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean

Scope: TypeAlias = "MutableMapping[Any, Tensor | None]"
"""Tensors by values of the module; None for values that could not be converted."""
_DEEPEST = 64
"""Upper limit of the nesting of calls and regions; a module that calls itself would never end."""
ENDS = frozenset(("func.return", "stablehlo.return"))
CALLS = frozenset(("func.call", "stablehlo.composite"))
TUPLES = frozenset(("stablehlo.tuple", "stablehlo.get_tuple_element"))


@dataclass(slots=True)
class _Context:
    """The common state of all regions of a module."""

    module: HloModule
    functions: Mapping[str, Any]
    custom: Mapping[str, OperatorFunction]
    names: Mapping[Any, str]
    problems: list[Diagnostic] = field(default_factory=list)
    broadcasts: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    operations: int = 0
    failures: int = 0


def convert_module(
    module: HloModule,
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
    custom: Mapping[str, OperatorFunction],
) -> ConvertedGraph:
    """Convert the function ``main``.

    Raises NnefError, which lists everything that cannot be converted.
    """
    main = module.main
    inputs = _inputs(module, shapes, dtypes, bounds)
    names = {result: name for _, result, name in value_names(module)}
    context = _Context(module, module.functions, custom, names)
    builder = Builder()
    block = main.regions[0].blocks[0]
    scope: Scope = dict(zip(block.arguments, inputs, strict=True))
    outputs = _run(context, block, scope, builder, 0, False)
    if context.problems:
        raise NnefError(context.problems)
    finished = builder.outputs(outputs, result_names(module))
    return ConvertedGraph(tuple(inputs), tuple(finished), tuple(needed(builder.steps, finished)))


def _inputs(
    module: HloModule,
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, str],
    bounds: Bounds,
) -> list[Tensor]:
    declared: dict[str, Type] = {}
    for number, (name, argument) in enumerate(
        zip(input_names(module), module.main.arguments, strict=True)
    ):
        try:
            sizes = declared_shape(argument.type)
            dtype = dtype_of(argument.type)
        except Unconvertible as why:
            text = f"input '{name}': {why.reason}"
            raise NnefError([Diagnostic(text, hint=why.hint, file=module.path)]) from why
        shape = tuple(
            module.dimensions.get((number, axis)) if size is None else size
            for axis, size in enumerate(sizes)
        )
        declared[name] = Type(dtype, shape)
    for name, given in dtypes.items():
        if name in declared and given != declared[name].dtype:
            text = f"input '{name}' is {declared[name].dtype}, not {given}"
            tip = "export the function again for inputs of that dtype"
            raise NnefError([Diagnostic(text, hint=tip, file=module.path)])
    wanted = {name: shapes.get(name, type_.shape or ()) for name, type_ in declared.items()}
    open_ = [
        f"{name}_{axis}" if size is None else str(size)
        for name, shape in wanted.items()
        for axis, size in enumerate(shape)
        if not isinstance(size, int)
    ]
    check_bounds(bounds, [*open_, *declared], open_)
    return input_tensors(declared, shapes, dtypes, bounds, module.path)[0]


def _run(
    context: _Context,
    block: Any,
    scope: Scope,
    builder: Builder,
    depth: int,
    is_scalar_code: bool,
) -> list[Tensor]:
    """Convert a block; return its results, fewer if something could not be converted."""
    for op in block.operations:
        if op.operation.name in ENDS:
            returned = [scope.get(each) for each in op.operands]
            return [each for each in returned if each is not None]
        _convert(context, op, scope, builder, depth, is_scalar_code)
    return []


def _convert(
    context: _Context, op: Any, scope: Scope, builder: Builder, depth: int, is_scalar_code: bool
) -> None:
    """Convert an operation; add its results to the scope."""
    inputs = [scope.get(each) for each in op.operands]
    start = len(builder.steps)
    name = _named(op)
    context.operations += 1
    results: list[Tensor] | None = None
    try:
        converted_inputs = tuple(each for each in inputs if each is not None)
        if op.operation.name == "stablehlo.tuple":
            return  # its elements are looked up where they are read
        if op.operation.name == "stablehlo.get_tuple_element":
            scope[op.results[0]] = scope.get(_tuple_element(op))
            return
        function = None if op.operation.name in CALLS else _function(context, op)
        if len(converted_inputs) == len(inputs):
            run = partial(_region, context, scope, depth, is_scalar_code)
            operation = Operation(
                op,
                name,
                converted_inputs,
                run,
                context.broadcasts,
                is_scalar_code,
                scope.get,
                context.operations,
            )
            results = _results(context, operation, function, builder)
    except Unconvertible as why:
        _refuse(context, op, why)
    except NnefError as problem:
        context.failures += 1
        context.problems += problem.diagnostics
    except (RecursionError, ValueError, TypeError, KeyError, IndexError, ArithmeticError) as cause:
        # What is wrong with one operation must not hide the others.
        reason = f"it cannot be converted: {type(cause).__name__}: {cause}"
        _refuse(context, op, Unconvertible(reason, "report this model"))
    hint(builder.steps[start:], name.rpartition("/")[2])
    for number, value in enumerate(op.results):
        result = results[number] if results is not None else None
        scope[value] = result
        if result is None:
            continue
        if result.value is not None or result.sizes is not None:
            result.hint = result.hint or name.rpartition("/")[2]
        elif not result.source and value in context.names:
            result.source = context.names[value]


def _tuple_element(op: Any) -> Any:
    owner = op.operands[0].owner
    if getattr(owner, "name", "") != "stablehlo.tuple":
        raise Unconvertible("its tuple is not made in the same function", "use tensors alone")
    return owner.operands[int(op.attributes["index"].value)]


def _results(
    context: _Context, operation: Operation, function: OperatorFunction | None, builder: Builder
) -> list[Tensor]:
    if function is None:
        callee = operation.text("callee" if operation.has("callee") else "decomposition")
        floored = fold_call(operation, context.functions.get(callee))
        return [floored] if floored else operation.run(callee, operation.inputs, builder)
    folded = fold(operation)
    if folded is not None:
        return [folded]
    found = function(operation, builder)
    results = [found] if isinstance(found, Tensor) else list(found)
    if len(results) != len(operation.op.results):
        reason = f"its converter gave {len(results)} tensors for {len(operation.op.results)}"
        raise Invalid(reason, "correct the converter")
    return results


def _function(context: _Context, op: Any) -> OperatorFunction:
    """Return the function that converts an operation; reject an operation without a converter."""
    name = op.operation.name
    check_narrow_integers(op)
    if name == "stablehlo.custom_call":
        target = str(op.attributes["call_target_name"].value)
        if target in context.custom:
            return context.custom[target]
        if (known := standard().get(f"custom_call.{target}")) is not None:
            return known
    if name in context.custom:
        return context.custom[name]
    if name in standard():
        return standard()[name]
    similar = did_you_mean(name, standard())
    tip = similar or f"give a function that converts it: converters={{'{name}': function}}"
    raise Unconvertible("there is no converter for it", tip)


def _region(
    context: _Context,
    scope: Scope,
    depth: int,
    is_scalar_code: bool,
    region: Any,
    arguments: Sequence[Tensor],
    builder: Builder,
    scalars: bool = False,
) -> list[Tensor]:
    """Return the results of a region, or of a function by name, for tensors instead of its
    arguments.
    """
    if depth >= _DEEPEST:
        raise Unconvertible(f"calls are nested deeper than {_DEEPEST}", "remove the recursion")
    inner: Scope
    if isinstance(region, str):
        if region not in context.functions:
            raise Invalid(f"there is no function '{region}'")
        block, inner = context.functions[region].regions[0].blocks[0], {}
    else:
        block, inner = region.blocks[0], ChainMap({}, scope)
    inner.update(zip(block.arguments, arguments, strict=True))
    before = context.failures
    found = _run(context, block, inner, builder, depth + 1, is_scalar_code or scalars)
    if context.failures > before:
        raise NnefError([])  # what is wrong inside has been reported
    return found


def _named(op: Any) -> str:
    return location_name(op.location) or str(op.operation.name.rpartition(".")[2])


def _refuse(context: _Context, op: Any, why: Unconvertible) -> None:
    """Keep a diagnostic of an operation, once."""
    context.failures += 1
    position = location_text(op.location)
    where = "" if position == "unknown" else f" at {position}"
    message = f"the operation {op.operation.name}{where} cannot be converted: {why.reason}"
    tip = why.hint or "leave it out of the exported function"
    diagnostic = Diagnostic(
        message, hint=tip, file=context.module.path, is_unsupported=why.is_unsupported
    )
    if diagnostic not in context.problems:
        context.problems.append(diagnostic)
