"""A Graph as a Relax module: its function ``main``, and the initial values of its state.

Input: a Graph, its dtypes and the values of its variables. Output: an IRModule with a
function ``main``, and private ones for branches and loops. Nodes are lowered in
``lower/walk.py``: for an operation the first of the user's own function, the mapping of
``lower/ops`` (only on the mapped route), the operator's body, an intrinsic. Infers no shapes: what
Relax finds must be what the Graph says.

``main`` takes one parameter for each input (``name_0``, ``name_1`` … for the items of a pack),
then, where asked for, one for each variable, then one for each variable that ``@update`` changes,
the state; it returns one flat tuple, the outputs and then the new state. Its attributes are

- ``nnef_ports``: a JSON object that names the ``inputs`` and ``outputs`` in order, each as
  ``{"name": ..., "items": n}``, with the length of a pack, or null for a single tensor (with
  ``"stacked": true`` if this holds the items of a pack of dynamic length), and
  likewise the ``state`` if there is one, by the full names of its variables; with the ``dtypes``
  of its tensors if some have few bits, since these are bytes in the module;
- ``num_input``: how many parameters are inputs;
- ``nnef_symbols``: where dimensions are symbols, a JSON object with the ``bounds`` of these, the
  ``checks`` on those of the inputs (:mod:`tvm_nnef.graph.checks`), and the shapes of the
  ``outputs``, as trees (:func:`tvm_nnef.symbolic.trees.tree`); the caller of ``main`` is to
  ensure that bounds and checks hold;
- ``num_state``: how many parameters are state, if there is one;
- ``params``: with ``keep_params_in_input``, the values that ``relax.frontend.detach_params`` reads.

If there is a state, a function ``initial_state`` returns the values that it starts with; after
them are the values of the inputs that have a default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tvm import relax
from tvm.error import InternalError

from tvm_nnef.arrays.few_bits import FORMATS, computed, held
from tvm_nnef.diagnostics import Diagnostic, NnefError
from tvm_nnef.graph.arrays import converted, shape_hint
from tvm_nnef.graph.checks import own_symbols, symbols, to_json
from tvm_nnef.graph.nodes import Graph, Port, Tensor, tensors, updated_variables
from tvm_nnef.graph.size_estimates import size_estimates
from tvm_nnef.lower.checks import block, define_size, is_pure
from tvm_nnef.lower.in_place import updated_in_place
from tvm_nnef.lower.naming import MAIN, Names, port_items
from tvm_nnef.lower.symbols import own, separated
from tvm_nnef.lower.values import Values
from tvm_nnef.lower.walk import Array, Route, UserLowering, Walk
from tvm_nnef.profiling.provenance import Provenance
from tvm_nnef.symbolic import trees
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import Module
from tvm_nnef.tvm_support.function_attributes import INITIAL_STATE, INPUTS, PORTS, STATE, SYMBOLS


def lower(
    graph: Graph,
    *,
    machine_types: Mapping[Tensor, str],
    variables: Mapping[str, Array],
    route: Route = "mapped",
    keep_params_in_input: bool = False,
    lowerings: Mapping[str, UserLowering] | None = None,
    checked: bool = False,
    sources: Mapping[str, str] = MappingProxyType({}),
    sizes: Sequence[tuple[Dimension, Dimension]] = (),
) -> Module:
    """The IRModule of a graph.

    ``machine_types`` gives the dtype of every tensor, ``variables`` the arrays by full name;
    ``lowerings`` maps qualified operator names to functions ``(builder, operation, operands)`` that
    are asked first. In a ``checked`` module an index from data that is out of bounds stays so, for
    the bounds checks of a build; it becomes the nearest that is in bounds otherwise. ``sources``
    are the operations that tensors of a converted model come from, by full name. ``sizes`` are
    symbols beside those of the inputs, each with the size that it stands for.

    Raises NnefError if a variable has no value or one of the wrong shape, where an operator
    cannot be lowered, and where a function of ``lowerings`` gives the wrong shape or dtype.
    """
    weights = _weights(graph, variables, machine_types)
    defaults = [weights.pop(tensor) for tensor in graph.defaults]
    state = {variable: weights.pop(variable) for variable in _state(graph)}
    inputs = [item for port in graph.inputs for item in port_items(port)]
    known = {str(s.name): s for _, tensor in inputs for s in own(tensor.shape)}
    known |= {str(s.name): s for s in own([symbol for symbol, _ in sizes])}
    defined = frozenset(known)
    attributes: dict[str, Any] = {
        PORTS: _describe(graph, machine_types),
        INPUTS: len(inputs),
    }
    if graph.bounds:
        attributes[SYMBOLS] = described_symbols(graph)
    if keep_params_in_input:
        attributes["params"] = [compat.runtime_tensor(array) for array in weights.values()]
    if state:
        attributes[STATE] = len(state)
    parameters = [*weights, *state] if keep_params_in_input else [*state]
    named = [*inputs, *((tensor.short_name, tensor) for tensor in parameters)]
    names, builder = Names(), relax.BlockBuilder()
    values = {
        tensor: _parameter(names.unique(name), tensor, machine_types) for name, tensor in named
    }
    walk = Walk(
        Values(builder, machine_types, weights, Provenance(sources), dict(values)),
        {tensor: computed(dtype) for tensor, dtype in machine_types.items()},
        route, lowerings or {},
        bounds=graph.bounds, known=known, checked=checked, in_place=updated_in_place(graph),
    )  # fmt: skip
    checks = tuple(check for check in graph.checks if not symbols(check) <= defined)
    inner = replace(graph, checks=checks)
    pure = is_pure(inner, walk.known) and not sizes
    with _closed(builder), builder.function(MAIN, [*values.values()], attributes, pure):
        with block(builder, pure=pure) as emit_output:
            for symbol, size in sizes:
                define_size(builder, symbol, size)
            walk.run(inner)
            tensors = graph.output_tensors
            results = [walk.values.get(tensor) for tensor in tensors]
            results += map(walk.values.new, state)
            output = emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    if first := [*state.values(), *defaults]:
        with builder.function(INITIAL_STATE, []):
            builder.emit_func_output(relax.Tuple([*map(_first_value, first)]))
    mod = builder.get()
    return separated(mod, size_estimates(graph)) if graph.bounds else mod


def _first_value(array: Array) -> Any:
    """A value as an expression; zeros that are many are made at run time, and are in no file."""
    if array.size < _LARGE or array.any():
        return compat.constant(array)
    return relax.op.zeros(array.shape, str(array.dtype))


_LARGE = 1 << 12
"""Elements from which on zeros are not stored."""


@contextmanager
def _closed(builder: compat.BlockBuilder) -> Iterator[None]:
    """A block whose exceptions end the builder's open blocks, of which TVM would warn."""
    try:
        yield
    except BaseException:
        with suppress(InternalError):  # It says that no block is open.
            while True:
                builder._end_block()
        raise


def _weights(
    graph: Graph, variables: Mapping[str, Array], machine_types: Mapping[Tensor, str]
) -> dict[Tensor, Array]:
    """The arrays of variables and of defaults in their dtypes, all problems found at once."""
    found: dict[Tensor, Array] = {}
    problems: list[Diagnostic] = []
    for tensor in (*graph.variables, *graph.defaults):
        array = variables.get(tensor.name)
        if array is None:
            hint = f"give the model a file '{tensor.name}.dat', or pass it in 'variables'"
            message = f"variable '{tensor.name}' has no value"
            problems.append(Diagnostic(message, tensor.span, hint))
        elif not tensor.fits(array.shape):
            message = f"variable '{tensor.name}' has shape {tensor.shape}, its value {array.shape}"
            hint = shape_hint(array.shape, tensor)
            problems.append(Diagnostic(message, tensor.span, hint))
        else:
            title = f"variable '{tensor.name}'"
            try:
                found[tensor] = converted(array, tensor, machine_types[tensor], title)
            except NnefError as problem:
                problems += problem.diagnostics
    if problems:
        raise NnefError(problems)
    return found


def _state(graph: Graph) -> list[Tensor]:
    """The variables that a graph updates, or a graph inside of it."""
    updated = updated_variables(graph)
    return [variable for variable in graph.variables if variable in updated]


def _parameter(name: str, tensor: Tensor, machine_types: Mapping[Tensor, str]) -> Any:
    return relax.Var(name, compat.tensor_type(tensor.shape, held(machine_types[tensor])))


def _describe(graph: Graph, machine_types: Mapping[Tensor, str]) -> str:
    """The ports of a graph, as the attribute ``nnef_ports`` has them."""

    def described(ports: Iterable[Port]) -> list[dict[str, Any]]:
        return [
            {
                "name": port.name,
                "items": len(port.operand) if isinstance(port.operand, tuple) else None,
                **({"stacked": True} if port.stacked else {}),
                **({"attributes": port.attributes} if port.attributes else {}),
                **few_bits(tensors(port.operand)),
                **({"source": port.source} if port.source else {}),
                **({"default": True} if port.has_default else {}),
            }
            for port in ports
            if port.operand is not None
        ]

    def few_bits(members: Iterable[Tensor]) -> dict[str, Any]:
        dtypes = [machine_types[tensor] for tensor in members]
        return {"dtypes": dtypes} if not FORMATS.keys().isdisjoint(dtypes) else {}

    state = [
        {"name": variable.name, "items": None, **few_bits([variable])} for variable in _state(graph)
    ]
    return json.dumps(
        {
            "inputs": described(graph.inputs),
            "outputs": described(graph.outputs),
            **({"state": state} if state else {}),
            **({"fixed_inputs": graph.fixed_inputs} if graph.fixed_inputs else {}),
        }
    )


def described_symbols(graph: Graph) -> str:
    """Bounds, checks and shapes of outputs, as the attribute ``nnef_symbols`` has them."""
    defined = own_symbols(graph.input_tensors)
    outputs = graph.output_tensors
    return json.dumps(
        {
            "bounds": dict(graph.limits),
            "checks": [to_json(check) for check in graph.checks if symbols(check) <= defined],
            "outputs": [[*map(trees.tree, tensor.shape)] for tensor in outputs],
        }
    )
