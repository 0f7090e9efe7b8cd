"""Calls of kernels: tensor expressions or a Formula in, calls of new PrimFuncs out.

A kernel gets symbols absent from the shapes of its tensors as scalars, after operands.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm import relax, te, tirx

from tvm_nnef.exact.functions import cast
from tvm_nnef.graph.formula import Constant, Formula, Load, loads, scalars, walk
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.argmax_formulas import Search, find_search
from tvm_nnef.lower.formula import FormulaTypes, is_plain, tensor_expressions
from tvm_nnef.lower.long_sums import in_parts
from tvm_nnef.lower.ordered import ordered_function
from tvm_nnef.lower.symbols import Symbol, occurring, untold
from tvm_nnef.tir.literals import INDEX_TYPE, literal
from tvm_nnef.tir.min_max import arg_reduction
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import BlockBuilder, PrimExpression, PrimFunction, RelaxExpression


def call_kernel(
    builder: BlockBuilder,
    function: Callable[..., Any],
    arguments: Sequence[RelaxExpression],
    name: str,
    *,
    symbols: Sequence[Symbol] = (),
    attributes: Mapping[str, Any] | None = None,
) -> RelaxExpression:
    """The call of a kernel made from a function over ``te`` tensors, one for each argument.

    ``function`` gives one tensor or a list of them; ``symbols`` are those that it uses besides the
    ones in shapes.
    """
    operands = [_placeholder(value, number) for number, value in enumerate(arguments)]
    made = function(*operands)
    results = [made] if isinstance(made, te.Tensor) else list(made)
    shapes = [each.shape for each in (*operands, *results)]
    extra = untold(shapes, symbols)
    kernel = te.create_prim_func([*operands, *extra, *results], "int64")
    kernel = kernel.without_attr("global_symbol").with_attrs(dict(attributes or {}))
    kinds = [compat.tensor_type(each.shape, str(each.dtype)) for each in results]
    if extra or occurring(size for shape in shapes for size in shape):
        kernel = compat.with_own_symbols(kernel)
    return _call(builder, kernel, [*arguments, *extra], kinds, name)


def call_formula(
    builder: BlockBuilder,
    formula: Formula,
    operands: Sequence[Tensor],
    arguments: Sequence[RelaxExpression],
    types: FormulaTypes,
    name: str,
) -> RelaxExpression:
    """The call of a kernel that computes the results of a formula, one tensor or a tuple."""
    parts = in_parts(formula) if types.computed["real"] == "float32" else None
    if parts is not None:
        first, second = parts
        (part,) = (fill.tensor for fill in first.fills)
        types = replace(types, stored={**types.stored, part: types.computed["real"]})
        call = call_formula(builder, first, operands, arguments, types, f"{name}_parts")
        values = {**dict(zip(operands, arguments, strict=True)), part: builder.emit(call)}
        read = {load.tensor for statement in second.statements for load in loads(statement)}
        read |= {*types.tables.values()}
        rest = {tensor: value for tensor, value in values.items() if tensor in read}
        return call_formula(builder, second, [*rest], [*rest.values()], types, name)
    search = find_search(formula)
    if search is not None and not _reads_unsigned(search, types):
        return _call_search(builder, formula, search, operands, arguments, types, name)
    used = occurring(_constants(formula))
    if is_plain(formula, checked=types.checked):
        function = tensor_expressions(formula, operands, types, name)
        return call_kernel(builder, function, arguments, name, symbols=used)
    results = [fill.tensor for fill in formula.fills]
    shapes = [tensor.shape for tensor in (*operands, *results)]
    extra = untold(shapes, used)
    kernel = ordered_function(formula, operands, types, name, extra)
    if extra or occurring(size for shape in shapes for size in shape):
        kernel = compat.with_own_symbols(kernel)
    kinds = [compat.tensor_type(t.shape, types.stored[t]) for t in results]
    return _call(builder, kernel, [*arguments, *extra], kinds, f"{name}_ordered")


def call_in_place(
    builder: BlockBuilder,
    formula: Formula,
    operands: Sequence[Tensor],
    arguments: Sequence[RelaxExpression],
    old: RelaxExpression,
    types: FormulaTypes,
    name: str,
) -> RelaxExpression:
    """The call of a kernel that writes the result of a formula to the memory of its old value."""
    (result,) = (fill.tensor for fill in formula.fills)
    shapes = [tensor.shape for tensor in (*operands, result)]
    extra = untold(shapes, occurring(_constants(formula)))
    kernel = ordered_function(formula, operands, types, name, extra, filled=False)
    if extra or occurring(size for shape in shapes for size in shape):
        kernel = compat.with_own_symbols(kernel)
    given = [*arguments, *extra, old]
    kind = compat.tensor_type(result.shape, types.stored[result])
    variable = builder.add_func(kernel, f"{name}_in_place")
    return relax.op.call_tir_inplace(variable, given, len(given) - 1, kind)


def _reads_unsigned(search: Search, types: FormulaTypes) -> bool:
    """Whether values are computed from integers that their dtype does not hold."""
    read = (scalar.tensor for scalar in walk(search.value) if isinstance(scalar, Load))
    return search.operand() is None and any(map(types.is_unsigned, read))


def _call_search(
    builder: BlockBuilder,
    formula: Formula,
    search: Search,
    operands: Sequence[Tensor],
    arguments: Sequence[RelaxExpression],
    types: FormulaTypes,
    name: str,
) -> RelaxExpression:
    """The call of a kernel that finds the results of a formula."""
    source = search.operand()
    if source is None:
        values = search.values(f"{name}.values")
        (tensor,) = (fill.tensor for fill in values.fills)
        computed = replace(types, stored={**types.stored, tensor: types.computed[tensor.type]})
        call = call_formula(builder, values, operands, arguments, computed, f"{name}_values")
        data: RelaxExpression = builder.emit(call)
        first = len(search.kept)
    else:
        data, first = dict(zip(operands, arguments, strict=True))[source[0]], source[1]
    axes, largest = range(first, first + len(search.searched)), search.largest
    results = [fill.tensor for fill in formula.fills]
    shape = [literal(size, INDEX_TYPE) for size in results[0].shape]
    dtypes = [types.stored[tensor] for tensor in results]
    dtype = dtypes[0] if len(results) == 1 and dtypes[0] == "int32" else INDEX_TYPE

    def indices(data: Any) -> Any:
        return arg_reduction(data, axes, shape, search.axes, dtype, largest=largest)

    call = call_kernel(builder, indices, [data], name)
    if dtypes == [dtype] and len(search.searched) == 1:
        return call

    def coordinates(numbers: Any) -> list[Any]:
        axes = [*search.searched]
        found = [axes.index(search.found[tensor]) for tensor in results]
        sizes = [literal(size, INDEX_TYPE) for size in search.searched.values()]
        pairs = zip(found, dtypes, strict=True)
        return [_coordinate(numbers, sizes, axis, kind) for axis, kind in pairs]

    symbols = occurring(search.searched.values())
    return call_kernel(builder, coordinates, [builder.emit(call)], f"{name}_at", symbols=symbols)


def _coordinate(numbers: Any, sizes: Sequence[PrimExpression], axis: int, dtype: str) -> Any:
    """The tensor of coordinates along one axis, from row-major numbers over several axes."""
    one = literal(1, INDEX_TYPE)
    # A quotient must not trap where a dynamic dimension is 0.
    size, *inner = (tirx.max(size, one) for size in sizes[axis:])

    def element(*indices: PrimExpression) -> PrimExpression:
        rows = tirx.floordiv(numbers(*indices), math.prod(inner, start=one))
        return cast(tirx.floormod(rows, size), dtype)

    return te.compute(numbers.shape, element, name="coordinate")


def _call(
    builder: BlockBuilder,
    kernel: PrimFunction,
    arguments: Sequence[RelaxExpression],
    kinds: Sequence[Any],
    name: str,
) -> RelaxExpression:
    variable = builder.add_func(kernel, name)
    return relax.call_tir(variable, list(arguments), list(kinds) if len(kinds) > 1 else kinds[0])


def _constants(formula: Formula) -> list[object]:
    outer = [scalar for statement in formula.statements for scalar in scalars(statement)]
    inner = (scalar for each in outer for scalar in walk(each))
    found: list[object] = [scalar.value for scalar in inner if isinstance(scalar, Constant)]
    return [*found, *(fill.value.value for fill in formula.fills)]


def _placeholder(value: RelaxExpression, number: int) -> Any:
    letters = string.ascii_uppercase
    name = letters[number] if number < len(letters) else f"tensor_input_{number}"
    shape, dtype = compat.shape_and_dtype(value)
    return te.placeholder(shape, dtype, str(value.name) if isinstance(value, relax.Var) else name)
