"""Checks that a compiled model makes when it runs, and symbols that it defines by data.

Input: a Check, or a tensor that holds a dimension, in a function that is not pure. Output: impure
calls, which no pass removes, and across which none moves a kernel. A function with such calls has
no dataflow blocks until it is complete (:func:`block`). A failed check raises an error of TVM,
whose text :class:`CheckFailure` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import relax, te

from tvm_nnef.graph.check_failure import MARK, CheckFailure
from tvm_nnef.graph.checks import location
from tvm_nnef.graph.nodes import Check, Graph, If, Loop, bodies, every_tensor
from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.private_functions import parameters_for
from tvm_nnef.lower.symbols import Symbol, occurring, sizes
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.symbolic.trees import text
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression


def is_pure(graph: Graph, known: Container[str]) -> bool:
    """Whether a graph checks nothing, and defines no symbols besides those known before."""
    inner = (body for node in graph.operations for body in bodies(node))
    return (
        not graph.checks
        and not defines_symbols(graph, known)
        and all(is_pure(each, known) for each in inner)
    )


def runs_pure(node: If | Loop, known: Container[str]) -> bool:
    """Whether none of the graphs of a node makes checks or defines symbols."""
    return all(is_pure(graph, known) for graph in bodies(node))


def defines_symbols(graph: Graph, known: Container[str]) -> bool:
    """Whether a graph has its own data-dependent dimensions."""
    shapes = (size for tensor in every_tensor(graph) for size in tensor.shape)
    return any(str(symbol.name) not in known for symbol in occurring(shapes))


@contextmanager
def block(builder: BlockBuilder, *, pure: bool) -> Iterator[Callable[[Any], RelaxExpression]]:
    """The body of a function that is being built; yields the function that emits its result."""
    if pure:
        with builder.dataflow():
            yield builder.emit_output
    else:
        yield builder.emit


def require(builder: BlockBuilder, check: Check) -> None:
    """Emit the check of a condition whose symbols are all defined."""
    symbols = occurring([check.condition, *check.message])
    arguments = sizes(symbols)
    failure = _failure(builder, check, arguments)
    parameters = parameters_for(arguments)

    def condition() -> Any:
        return te.compute((), lambda *_: check.condition, name="holds")

    with builder.function("check", parameters, private=True, pure=False):
        holds = builder.emit(call_kernel(builder, condition, [], "holds", symbols=symbols))
        chosen = relax.If(holds, holds, relax.Call(failure, parameters))
        function = builder.emit_func_output(builder.emit(chosen))
    builder.emit(relax.Call(function, arguments))


def _failure(builder: BlockBuilder, check: Check, arguments: list[RelaxExpression]) -> Any:
    """A function that raises an error with the failure of a check.

    It asks for a shape if there is none: this error has a text that the program can make.
    """
    items: list[Any] = [
        part if occurring([part]) else compat.string(_text(part)) for part in check.message
    ]
    parameters = parameters_for(arguments)
    with builder.function("check_failed", parameters, private=True, pure=False):
        head = [compat.string(MARK), compat.string(location(check.span))]
        message = relax.Tuple([*head, *items])
        rendered = builder.emit(
            compat.packed_call("ffi.json.Stringify", relax.AnyType(), message, 0)
        )
        no_shape = relax.const(0, "int64")
        kind = compat.tensor_type((), "bool")
        raised = compat.packed_call("vm.builtin.check_shape_info", kind, no_shape, 0, rendered)
        return builder.emit_func_output(builder.emit(raised))


def outside(kernel: str, buffer: str) -> CheckFailure:
    """The failure of a compiled bounds check of a kernel."""
    return CheckFailure(f"kernel '{kernel}' uses an index outside of '{buffer}'")


def define(builder: BlockBuilder, count: RelaxExpression, symbol: Symbol) -> None:
    """Define a symbol by an int64 of rank 0; if it is defined already, both must be equal."""
    listed = builder.emit(relax.op.reshape(count, (1,)))
    unknown = relax.ShapeType(ndim=1)
    shape = builder.emit(compat.packed_call("vm.builtin.tensor_to_shape", unknown, listed))
    builder.match_cast(shape, relax.ShapeType([symbol]))


def define_size(builder: BlockBuilder, symbol: Symbol, size: Dimension) -> None:
    """Define a symbol by a dimension of others."""

    def value() -> Any:
        return te.compute((), lambda *_: size, name="size")

    symbols = occurring([size])
    define(builder, builder.emit(call_kernel(builder, value, [], "size", symbols=symbols)), symbol)


def define_shape(builder: BlockBuilder, value: RelaxExpression, shape: Sequence[Symbol]) -> None:
    """Define symbols, one for each dimension, by the shape of a tensor."""
    kind = relax.ShapeType(ndim=len(shape))
    found = builder.emit(compat.packed_call("vm.builtin.shape_of", kind, value))
    builder.match_cast(found, relax.ShapeType(shape))


def _text(part: object) -> str:
    return part if isinstance(part, str) else text(part)
