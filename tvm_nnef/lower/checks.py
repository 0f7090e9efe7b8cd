"""What a compiled model does at a certain time: it checks conditions, and learns extents from data.

Enters: a Check, or a tensor that holds an extent, in a function that is not pure. Leaves: impure
calls, which no pass removes, and across which none moves a kernel. A function that does so has no
dataflow blocks until it is complete (:func:`block`).

Where a condition does not hold, an error is raised, whose text has a JSON list: ``MARK``, the place
in the model, and the parts of the message. :func:`failed` finds it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import relax, te

from tvm_nnef.graph.checks import place
from tvm_nnef.graph.nodes import Check, Graph, bodies, every_tensor
from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.symbols import Symbol, occurring, sizes
from tvm_nnef.symbolic.dimensions import text
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression

MARK = "nnef check"
"""The first item of the list in the text of an error."""


def is_pure(graph: Graph, known: Container[str]) -> bool:
    """Whether a graph checks nothing, and learns no extents, given the symbols known before."""
    inner = (body for node in graph.operations for body in bodies(node))
    return (
        not graph.checks
        and not decides(graph, known)
        and all(is_pure(each, known) for each in inner)
    )


def decides(graph: Graph, known: Container[str]) -> bool:
    """Whether data inside of a graph decide an extent."""
    shapes = (extent for tensor in every_tensor(graph) for extent in tensor.shape)
    return any(str(symbol.name) not in known for symbol in occurring(shapes))


@contextmanager
def block(builder: BlockBuilder, *, pure: bool) -> Iterator[Callable[[Any], RelaxExpression]]:
    """The body of a function that is being built; gives what emits its result, at its end."""
    if pure:
        with builder.dataflow():
            yield builder.emit_output
    else:
        yield builder.emit


def require(builder: BlockBuilder, check: Check) -> None:
    """Checks a condition, of whose symbols all are known, from here on."""
    symbols = occurring([check.condition, *check.message])
    arguments = sizes(symbols)
    failure = _failure(builder, check, arguments)
    parameters = _parameters(arguments)

    def condition() -> Any:
        return te.compute((), lambda *_: check.condition, name="holds")

    with builder.function("check", parameters, private=True, pure=False):
        holds = builder.emit(call_kernel(builder, condition, [], "holds", symbols=symbols))
        chosen = relax.If(holds, holds, relax.Call(failure, parameters))
        function = builder.emit_func_output(builder.emit(chosen))
    builder.emit(relax.Call(function, arguments))


def _failure(builder: BlockBuilder, check: Check, arguments: list[RelaxExpression]) -> Any:
    """A function that raises an error with the message of a check.

    It asks for a shape where there is none, which is an error with a text that can be made here.
    """
    items: list[Any] = [
        part if occurring([part]) else compat.string(_text(part)) for part in check.message
    ]
    parameters = _parameters(arguments)
    with builder.function("check_failed", parameters, private=True, pure=False):
        head = [compat.string(MARK), compat.string(place(check.span))]
        message = relax.Tuple([*head, *items])
        rendered = builder.emit(_packed("ffi.json.Stringify", relax.AnyType(), message, 0))
        no_shape = relax.const(0, "int64")
        kind = compat.tensor_type((), "bool")
        raised = _packed("vm.builtin.check_shape_info", kind, no_shape, 0, rendered)
        return builder.emit_func_output(builder.emit(raised))


def outside(kernel: str, buffer: str) -> str:
    """The text of the error that a compiled bounds check of a kernel raises."""
    message = f"kernel '{kernel}' uses an index outside of '{buffer}'"
    return json.dumps([MARK, "", message])


def learn(builder: BlockBuilder, count: RelaxExpression, symbol: Symbol) -> None:
    """Defines a symbol by a count, an int64 of rank 0; one that is defined must be equal."""
    listed = builder.emit(relax.op.reshape(count, (1,)))
    unknown = relax.ShapeType(ndim=1)
    shape = builder.emit(_packed("vm.builtin.tensor_to_shape", unknown, listed))
    builder.match_cast(shape, relax.ShapeType([symbol]))


def learn_shape(builder: BlockBuilder, value: RelaxExpression, shape: Sequence[Symbol]) -> None:
    """Defines symbols, one for each dimension, by the shape of a tensor."""
    kind = relax.ShapeType(ndim=len(shape))
    found = builder.emit(_packed("vm.builtin.shape_of", kind, value))
    builder.match_cast(found, relax.ShapeType(shape))


def failed(message: str) -> tuple[str, str] | None:
    """Message and place of a failed check, from the text of its error; None for another error."""
    found = re.search(rf'\["{MARK}".*\]', message, re.DOTALL)
    if found is None:
        return None
    _, where, *parts = json.loads(found[0])
    return "".join(map(str, parts)), where


def _text(part: object) -> str:
    return part if isinstance(part, str) else text(part)


def _packed(name: str, kind: Any, *arguments: Any) -> RelaxExpression:
    converted = [relax.prim_value(each) if isinstance(each, int) else each for each in arguments]
    return relax.Call(relax.ExternFunc(name), converted, ty_args=[kind])


def _parameters(arguments: list[RelaxExpression]) -> list[Any]:
    return [relax.Var(f"p{number}", value.ty) for number, value in enumerate(arguments)]
