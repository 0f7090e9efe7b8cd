"""Inference of dtypes: the dtype of every tensor of a Graph, in one pass.

Input: a Graph. Output: dtypes by tensor. A model has the types real, int and bool; here each Tensor
gets the name of a dtype (design law 11). Nothing is converted here, and nothing depends on the
values of tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.diagnostics import MAX_REPORTED, Diagnostic, NnefError, did_you_mean, error
from tvm_nnef.graph.formula import Constant, Formula, ScalarType, scalars, walk
from tvm_nnef.graph.nodes import (
    Graph,
    If,
    Loop,
    Node,
    Operand,
    Operation,
    Tensor,
    every_tensor,
    flatten,
    tensors,
)

if TYPE_CHECKING:
    import numpy as np

DTYPES: Mapping[str, ScalarType] = {
    **dict.fromkeys(("float16", "bfloat16", "float32", "float64"), "real"),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), "int"),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), "int"),
    "bool": "bool",
    **{name: found.type for name, found in FORMATS.items()},
}
"""Every dtype that a tensor may have, and the corresponding type of a model."""

_KINDS = {"f": "real", "i": "int", "u": "int", "b": "bool"}

_FOREIGN = frozenset({"bfloat16", *FORMATS})
"""The dtypes that NumPy gets from ``ml_dtypes``."""

_NARROW = frozenset(
    {"float16", "bfloat16", *(name for name in FORMATS if FORMATS[name].type == "real")}
)

DEFAULTS: Mapping[str, str] = {"real": "float32", "int": "int32", "bool": "bool"}


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return the type of a model for a NumPy dtype: real, int or bool; else an empty string."""
    # NumPy takes bfloat16 and dtypes of few bits, which are of another package, for no numbers.
    return _KINDS[dtype.kind] if dtype.kind in _KINDS else DTYPES.get(dtype.name, "")


def dtypes_given(dtypes: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the names of ``dtypes``. Raises NnefError for a dtype that a tensor cannot have."""
    return {name: _dtype_given(name, each) for name, each in (dtypes or {}).items()}


def _dtype_given(name: str, given: Any) -> str:
    import numpy as np

    try:
        if given is None:  # NumPy means float64.
            raise TypeError
        found = given if isinstance(given, str) and given in DTYPES else str(np.dtype(given))
    except TypeError:
        found = str(given)
    if found in DTYPES:
        return found
    hint = did_you_mean(found, DTYPES) or f"dtypes are {', '.join(DTYPES)}"
    raise error(f"'{name}' cannot have the dtype '{found}'", hint=hint)


def assign(
    graph: Graph,
    *,
    defaults: Mapping[str, str] = DEFAULTS,
    named: Mapping[str, str] | None = None,
) -> dict[Tensor, str]:
    """Return the dtype of every tensor of a graph, those inside bodies included.

    ``defaults`` maps real, int or bool to a dtype; missing ones stay as in ``DEFAULTS``. ``named``
    maps the full name of a tensor, or the name of an input of the graph, to a dtype. A result that
    is not named has the dtype of the first operand that is declared with the same type or generic
    type; so has a constant that is not named. A result of a branch has the dtype of the consequent,
    else of the alternative. A carried tensor of a loop has that of its initial one, and a final one
    that of the carried one; a scan output has that of the body's result. All others get the
    default. Inner tensors of a composed operator that are not named are at least float32: a square
    of 300 is too large for a float16. This does not apply to a public operator, which is a part of
    the graph around it, as the tensors in it are.

    Raises NnefError for an unknown dtype, a dtype of another kind than its tensor, and a name that
    no tensor has.
    """
    named = named or {}
    tensors_by_name = _by_name(graph)
    problems = [*_wrong_defaults(defaults), *(problem for _, problem in wrong_names(graph, named))]
    if problems:
        raise NnefError(problems)
    for name in _FOREIGN.intersection((*defaults.values(), *named.values())):
        from tvm_nnef.arrays.coded_arrays import numpy_dtype  # Imports NumPy.

        numpy_dtype(name)
    types = {tensor: dtype for name, dtype in named.items() for tensor in tensors_by_name[name]}
    standard = {**DEFAULTS, **defaults}
    for port in graph.inputs:
        _default(types, standard, tensors(port.operand))
    _default(types, standard, graph.variables)
    _infer(graph, types, standard)
    _default(types, standard, every_tensor(graph))
    named_tensors = {tensor for name in named for tensor in tensors_by_name[name]}
    for tensor in _intermediates(graph):
        if types[tensor] in _NARROW and tensor not in named_tensors:
            types[tensor] = "float32"
    return types


def compute_types(operation: Operation, types: Mapping[Tensor, str]) -> dict[ScalarType, str]:
    """Return the dtypes in which the formula of an operation computes (design law 11).

    int is int64 if a tensor that the formula accesses, or a constant in it, needs more than int32
    holds (uint32 included), and real is float64 if one of the tensors is; else int32 and float32.
    Arithmetic on indices and dimensions has 64 bits in any case. Expressions of elements of uint64
    are unsigned, and so are the operands of their comparisons, divisions and selections.
    """
    formula = operation.body if isinstance(operation.body, Formula) else None
    touched = flatten((*operation.operands, *operation.results))
    present = {types[tensor] for tensor in (*touched, *(formula.captures if formula else ()))}
    wide = present & {"int64", "uint64", "uint32"} or (formula and _names_large_number(formula))
    return {
        "real": "float64" if "float64" in present else "float32",
        "int": "int64" if wide else "int32",
        "bool": "bool",
    }


def _names_large_number(formula: Formula) -> bool:
    return any(
        isinstance(inner, Constant)
        and inner.type == "int"
        and isinstance(inner.value, int)
        and not -(2**31) <= inner.value < 2**31
        for statement in formula.statements
        for scalar in scalars(statement)
        for inner in walk(scalar)
    )


def _by_name(graph: Graph) -> dict[str, tuple[Tensor, ...]]:
    by_full_name = {tensor.name: (tensor,) for tensor in every_tensor(graph)}
    return {**{port.name: tensors(port.operand) for port in graph.inputs}, **by_full_name}


def _wrong_defaults(defaults: Mapping[str, str]) -> Iterator[Diagnostic]:
    for kind, dtype in defaults.items():
        if kind not in DEFAULTS:
            message = f"'{kind}' is not a type of a model; those are real, int and bool"
            yield Diagnostic(message, hint=did_you_mean(kind, DEFAULTS) or "give real, int or bool")
        elif DTYPES.get(dtype) != kind:
            yield _unfit(dtype, kind, f"the type {kind}")


def wrong_names(graph: Graph, named: Mapping[str, str]) -> list[tuple[str, Diagnostic]]:
    """Return the names that no tensor has, and those whose dtype does not fit; at most
    MAX_REPORTED.
    """
    tensors_by_name = _by_name(graph)
    return list(islice(_wrong_names(named, tensors_by_name), MAX_REPORTED))


def _wrong_names(
    named: Mapping[str, str], known: Mapping[str, tuple[Tensor, ...]]
) -> Iterator[tuple[str, Diagnostic]]:
    for name, dtype in named.items():
        if name not in known:
            message = f"a dtype is given for '{name}', but no tensor has this name"
            near = None if name in DEFAULTS else did_you_mean(name, (*known, *DEFAULTS))
            yield name, Diagnostic(message, hint=near or _listed(known))
            continue
        for tensor in known[name]:
            if DTYPES.get(dtype) != tensor.type:
                yield name, _unfit(dtype, tensor.type, f"'{tensor.name}', which is {tensor.type}")


def _listed(names: Iterable[str]) -> str:
    """Return the first names, in words."""
    first = list(islice(names, _LISTED + 1))
    more = ", …" if len(first) > _LISTED else ""
    return f"tensors are {', '.join(first[:_LISTED])}{more}"


_LISTED = 8


def _unfit(dtype: str, kind: str, subject: str) -> Diagnostic:
    if dtype not in DTYPES:
        hint = did_you_mean(dtype, DTYPES) or f"one of {', '.join(DTYPES)}"
        return Diagnostic(f"unknown dtype '{dtype}'", hint=hint)
    fitting = ", ".join(name for name, described in DTYPES.items() if described == kind)
    return Diagnostic(f"'{dtype}' is not a dtype for {subject}", hint=f"use one of {fitting}")


def _intermediates(graph: Graph, results: frozenset[Tensor] | None = None) -> Iterator[Tensor]:
    """Yield the tensors that operators that are not public use besides their operands and results.

    ``results`` are those of the outermost such operator to whose body the graph belongs.
    """
    inputs = graph.input_tensors
    for node in graph.operations:
        if results is not None:
            constants = (each for each in flatten(node.operands) if each.role == "constant")
            yield from {*flatten(node.results), *constants}.difference(results, inputs)
            if isinstance(node, Operation) and isinstance(node.body, Formula):
                yield from (each for each in node.body.captures if each.role == "constant")
        for body in _graphs_of(node):
            yield from _intermediates(body, _results_inside(node, body, results))


def _results_inside(
    node: Node, body: Graph, results: frozenset[Tensor] | None
) -> frozenset[Tensor] | None:
    """Return the outputs of a body that are results of the outermost operator, like those of its
    node.
    """
    outputs = body.output_tensors
    if results is None:
        return frozenset(outputs) if isinstance(node, Operation) and not node.public else None
    if isinstance(node, Loop):
        return frozenset(outputs)
    pairs = zip(outputs, flatten(node.results), strict=True)
    return frozenset(output for output, result in pairs if result in results)


def _graphs_of(node: Node) -> tuple[Graph, ...]:
    match node:
        case Operation(body=Graph() as body):
            return (body,)
        case If():
            return (node.consequent, node.alternative)
        case Loop():
            return tuple(graph for graph in (node.condition, node.body) if graph is not None)
        case _:
            return ()


def _infer(graph: Graph, types: dict[Tensor, str], standard: Mapping[str, str]) -> None:
    """Infer the types of all results of a graph; its inputs and variables have theirs already.

    Constants, and tensors that a loop carries from them, may stay without a type.
    """
    for node in graph.operations:
        match node:
            case Operation():
                _infer_operation(node, types, standard)
            case If():
                _infer_branch(node, types, standard)
            case Loop():
                _infer_loop(node, types, standard)
        _default(types, standard, flatten(node.results))


def _infer_operation(
    operation: Operation, types: dict[Tensor, str], standard: Mapping[str, str]
) -> None:
    declared: dict[str, str] = {}
    for name, members in _groups(operation.operand_types, operation.operands):
        dtype = _leading(members, types) or standard[members[0].type]
        declared[name] = dtype
        _complete(types, dtype, members)
    for name, members in _groups(operation.result_types, operation.results):
        if name in declared:
            _complete(types, declared[name], members)
    match operation.body:
        case Graph() as body:
            _infer(body, types, standard)
            _follow(types, flatten(operation.results), body.output_tensors)
        case Formula() as formula:
            _default(types, standard, formula.captures)


def _infer_branch(node: If, types: dict[Tensor, str], standard: Mapping[str, str]) -> None:
    for branch in (node.consequent, node.alternative):
        _infer(branch, types, standard)
    for branch in (node.consequent, node.alternative):
        _follow(types, flatten(node.results), branch.output_tensors)
    # A tensor that is still without a type is a constant that a branch returns.
    for branch in (node.consequent, node.alternative):
        _follow(types, branch.output_tensors, flatten(node.results))


def _infer_loop(node: Loop, types: dict[Tensor, str], standard: Mapping[str, str]) -> None:
    """Infer the types of a loop.

    A state whose initial value has no type gets its type in the body.
    """
    _follow(types, node.carried, node.initial)
    for scan in node.scans:
        _follow(types, [scan.item] * len(scan.items), scan.items)
    _default(types, standard, () if node.index is None else (node.index,))
    _infer(node.body, types, standard)
    count = len(node.carried)
    outputs = tuple(port.operand for port in node.body.outputs)
    _follow(types, node.carried, flatten(outputs[:count]))
    if node.condition is not None:
        _infer(node.condition, types, standard)
    _follow(types, node.initial, node.carried)
    for scan in node.scans:
        _follow(types, scan.items, [scan.item] * len(scan.items))
    _follow(types, flatten(node.results[:count]), node.carried)
    for output, result in zip(outputs[count:], node.results[count:], strict=True):
        _follow(types, tensors(result), tensors(output) * len(tensors(result)))


def _groups(
    declared: tuple[str, ...], operands: tuple[Operand, ...]
) -> list[tuple[str, list[Tensor]]]:
    """Yield for each declared type or generic type the tensors that have it."""
    groups: dict[str, list[Tensor]] = {}
    for name, operand in zip(declared, operands, strict=True):
        groups.setdefault(name, []).extend(tensors(operand))
    return [(name, members) for name, members in groups.items() if members]


def _leading(members: Iterable[Tensor], types: Mapping[Tensor, str]) -> str | None:
    """Return the type that the others of a group follow; a constant without a type is ignored."""
    return next((types[tensor] for tensor in members if tensor in types), None)


def _follow(
    types: dict[Tensor, str], followers: Sequence[Tensor], leaders: Sequence[Tensor]
) -> None:
    """Assign to each follower the type of its leader, unless it has one or the leader has none."""
    for follower, leader in zip(followers, leaders, strict=True):
        if leader in types:
            types.setdefault(follower, types[leader])


def _complete(types: dict[Tensor, str], dtype: str, members: Iterable[Tensor]) -> None:
    for tensor in members:
        types.setdefault(tensor, dtype)


def _default(
    types: dict[Tensor, str], standard: Mapping[str, str], members: Iterable[Tensor]
) -> None:
    for tensor in members:
        types.setdefault(tensor, standard[tensor.type])
