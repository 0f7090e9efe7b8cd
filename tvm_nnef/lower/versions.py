"""Two versions of a model in one module: for equal sizes, and for any.

Input: the module of a model, and that of the same model with some dimensions of its inputs equal.
Output: a module whose ``main`` runs the second one in the calls in which they are. The kernels of
this version are those of a model that has one name for both dimensions; the other one stretches
dimensions of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import tvm
from tvm import relax, te

from tvm_nnef.lower.checks import block
from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.naming import MAIN
from tvm_nnef.lower.symbols import occurring, own
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Condition
from tvm_nnef.tvm_support import compat, traversal
from tvm_nnef.tvm_support.compat import BlockBuilder, Module, RelaxExpression
from tvm_nnef.tvm_support.function_attributes import (
    EQUAL_SIZES,
    INITIAL_STATE,
    SIZE_ESTIMATES,
    SYMBOLS,
)


def with_equal_version(mod: Module, equal: Module, symbols: str) -> Module:
    """The module whose ``main`` runs that of another one if its inputs have the shapes for that.

    ``symbols`` describe those of ``main``, as its attribute ``nnef_symbols``.
    """
    main = mod[MAIN]
    pure = bool(main.is_pure and equal[MAIN].is_pure)
    estimates = {SIZE_ESTIMATES: main.attrs[SIZE_ESTIMATES]}
    functions: dict[Any, Any] = {}
    general = _add(functions, mod, f"{MAIN}_any", estimates)
    same = _add(functions, equal, EQUAL_SIZES, estimates)
    builder = relax.BlockBuilder(tvm.IRModule(functions))
    parameters = list(compat.with_own_symbols(main).params)
    condition = _condition(parameters, equal[MAIN].params)
    adapted = _adapted(builder, parameters, equal[MAIN].params, same, pure)
    title = f"{MAIN}_sizes"
    chosen = relax.Var("condition", compat.tensor_type((), "bool"))
    arguments = [relax.Var(str(each.name), each.ty) for each in parameters]
    with builder.function(title, [chosen, *arguments], pure=pure, private=True):
        arms = (relax.Call(each, arguments) for each in (adapted, general))
        choice = builder.emit_func_output(builder.emit(relax.If(chosen, *arms)))
    with builder.function(MAIN, parameters, {**main.attrs, SYMBOLS: symbols}, pure):
        with block(builder, pure=pure) as emit_output:
            holds = builder.emit(_holds(builder, condition))
            output = emit_output(relax.Call(choice, [holds, *parameters]))
        builder.emit_func_output(output)
    made = builder.get()
    separate = {
        str(variable.name_hint): compat.with_own_symbols(function).with_attrs(estimates)
        for variable, function in made.functions.items()
        if isinstance(function, relax.Function)
    }
    return relax.transform.ConvertToDataflow()(compat.update_functions(made, separate))


def _add(functions: dict[Any, Any], mod: Module, name: str, attributes: dict[str, Any]) -> Any:
    """Adds the functions of a module, ``main`` under another name, which is returned."""
    names = {str(variable.name_hint) for variable in functions}
    variables: dict[Any, Any] = {}
    for variable in mod.get_global_vars():
        free = name if variable.name_hint == MAIN else str(variable.name_hint)
        while free in names and free != INITIAL_STATE:
            free += "_"
        names.add(free)
        variables[variable] = relax.GlobalVar(free)
        relax.expr._update_type(variables[variable], variable.ty)
    for variable, function in mod.functions.items():
        if variable.name_hint == INITIAL_STATE and INITIAL_STATE in map(_name, functions):
            continue
        if variable.name_hint == MAIN:
            body, params = function.body, function.params
            function = relax.Function(params, body, function.ret_ty, function.is_pure)
            function = function.with_attrs(attributes)
        functions[variables[variable]] = traversal.mapped(
            function, (tvm.ir.GlobalVar, lambda each: variables.get(each, each))
        )
    return variables[mod.get_global_var(MAIN)]


def _name(variable: Any) -> str:
    return str(variable.name_hint)


def _condition(parameters: Sequence[Any], wanted: Sequence[Any]) -> Condition:
    """Whether tensors have the dimensions of others, whose symbols are dimensions of these."""
    pairs = [
        pair
        for parameter, other in zip(parameters, wanted, strict=True)
        for pair in zip(_shape(parameter), _shape(other), strict=True)
    ]
    sizes: dict[str, Any] = {}
    for found, size in pairs:
        if dimensions.is_symbol(size):
            sizes.setdefault(str(size.name), found)
    equations = (
        dimensions.compare("eq", found, dimensions.substituted(size, sizes))
        for found, size in pairs
    )
    start: Condition = True
    return reduce(dimensions.both, equations, start)


def _shape(parameter: Any) -> list[Any]:
    return [*map(dimensions.plain, compat.shape_and_dtype(parameter)[0])]


def _holds(builder: BlockBuilder, condition: Condition) -> RelaxExpression:
    """The call of a kernel that gives whether a condition holds."""
    return call_kernel(
        builder, lambda: te.compute((), lambda *_: condition, name="holds"), [], "are_equal",
        symbols=occurring([condition]),
    )  # fmt: skip


def _adapted(
    builder: BlockBuilder, parameters: Sequence[Any], wanted: Sequence[Any], main: Any, pure: bool
) -> Any:
    """A function of any sizes that calls one of equal ones."""
    given = [relax.Var(str(each.name), each.ty) for each in parameters]
    # A dimension that is a symbol defines it for those that are made of it.
    order = sorted(range(len(given)), key=lambda each: len(own(_shape(wanted[each]))) == 0)
    with builder.function(f"{MAIN}_adapted", given, pure=pure, private=True):
        with block(builder, pure=pure) as emit_output:
            made = {each: builder.match_cast(given[each], wanted[each].ty) for each in order}
            output = emit_output(relax.Call(main, [made[each] for each in range(len(given))]))
        return builder.emit_func_output(output)
