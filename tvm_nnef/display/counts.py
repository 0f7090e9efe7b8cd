"""Work and memory of a graph: multiply-adds, parameters, bytes. A Graph in, numbers out.

Nothing is lowered or computed: the numbers come from shapes and from the loops of formulas.

A multiply-add is one step of an accumulation of products of elements: ``y[i] += a[i,k] * b[k]`` has
as many as its loops have steps. Steps that padding or a condition skips count, as they do in the
numbers that are published for well-known networks. Sums without products (pooling, means) and
elementwise arithmetic do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from tvm_nnef.arrays.coded_arrays import numpy_dtype
from tvm_nnef.graph import formula as f
from tvm_nnef.graph.formula import Formula, Scalar, Statement
from tvm_nnef.graph.nodes import Graph, If, Loop, Node, Operation, Tensor, bodies, flatten
from tvm_nnef.graph.scalar_values import Values
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

_MOST_STEPS = 4096
"""Values of an index that are tried one by one if the length of an inner loop depends on it."""


def multiply_adds(node: Node) -> Dimension | None:
    """The multiply-adds of a node with everything in it; None if they are data-dependent.

    Of a branch: those of the arm that has more.
    """
    match node:
        case If():
            arms = [_sum(map(multiply_adds, body.operations)) for body in bodies(node)]
            known = [arm for arm in arms if arm is not None]
            return reduce(dimensions.maximum, known) if len(known) == len(arms) else None
        case Loop():
            step = _sum(multiply_adds(each) for body in bodies(node) for each in body.operations)
            if step == 0 or step is None or node.steps is None:
                return 0 if step == 0 else None
            return dimensions.mul(node.steps, step)
        case Operation(body=Graph() as body):
            return _sum(map(multiply_adds, body.operations))
        case Operation(body=Formula() as formula):
            return _sum(map(_of_statement, formula.statements))
        case _:
            return 0 if node.standard else None


def total_multiply_adds(graph: Graph) -> Dimension | None:
    """The multiply-adds of a whole graph; None if they are data-dependent."""
    return _sum(map(multiply_adds, graph.operations))


def variables_of(node: Node) -> tuple[Tensor, ...]:
    """The variables that a node reads, or something in it, each once."""
    read = [tensor for tensor in flatten(node.operands) if tensor.role == "variable"]
    for body in bodies(node):
        read += body.variables
        read += [tensor for inner in body.operations for tensor in variables_of(inner)]
    if isinstance(node, Operation) and isinstance(node.body, Formula):
        read += [tensor for tensor in node.body.captures if tensor.role == "variable"]
    return tuple(dict.fromkeys(read))


def elements(tensors: Iterable[Tensor]) -> int:
    """The elements of tensors; dynamic dimensions, which no variable has, count as 1."""
    return sum(math.prod(d for d in each.shape if isinstance(d, int)) for each in tensors)


def size_in_bytes(tensors: Iterable[Tensor], dtypes: Mapping[Tensor, str]) -> Dimension:
    """The memory that tensors take, by their dtypes."""
    defaults = {"real": "float32", "int": "int32", "bool": "bool"}
    sizes = (
        dimensions.mul(
            dimensions.product(each.shape),
            numpy_dtype(dtypes.get(each, defaults[each.type])).itemsize,
        )
        for each in tensors
    )
    return reduce(dimensions.add, sizes, 0)


def peak_bytes(graph: Graph, nodes: Sequence[Node], opened: Sequence[Operation]) -> int | None:
    """The most memory that inputs and results take if ``nodes`` run one after the other.

    Each result has its own memory, which is free after its last reader; outputs stay. This is
    the need of an execution without fusion. ``opened`` are the composites whose operations are
    among the ``nodes``. Dynamic dimensions count with their bounds; None without such.
    """
    stands_for = _aliases(opened)

    def roots(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
        for tensor in tensors:
            while tensor in stands_for:
                tensor = stands_for[tensor]
            if tensor.role in ("input", "result"):
                yield tensor

    last: dict[Tensor, int] = {}
    for position, node in enumerate(nodes):
        every = (*flatten(node.operands), *flatten(node.results))
        last.update(dict.fromkeys(roots(every), position))
    outputs = graph.output_tensors
    last.update(dict.fromkeys(roots(outputs), len(nodes)))
    inputs = graph.input_tensors
    sizes = {each: _most_bytes(each, graph) for each in (*last, *roots(inputs))}
    alive = set(roots(inputs))
    peak = 0
    for position, node in enumerate(nodes):
        alive.update(roots(flatten(node.results)))
        now = [sizes[each] for each in alive]
        if None in now:
            return None
        peak = max(peak, sum(size for size in now if size is not None))
        alive = {each for each in alive if last.get(each, -1) > position}
    return peak


def at_bounds(value: Dimension, bounds: Mapping[str, int]) -> int | None:
    """The most that a number can be, its symbols up to their bounds; None without such."""
    if isinstance(value, int):
        return value
    if not all(name in bounds for name in dimensions.symbols(value)):
        return None
    return dimensions.limits(value, bounds)[1]


def _aliases(opened: Iterable[Operation]) -> dict[Tensor, Tensor]:
    """The result of a composite, and the tensor in it that is the same memory."""
    found: dict[Tensor, Tensor] = {}
    for composite in opened:
        assert isinstance(composite.body, Graph)
        inner = composite.body.output_tensors
        pairs = zip(flatten(composite.results), inner, strict=True)
        found.update((result, output) for result, output in pairs if result is not output)
    return found


def _most_bytes(tensor: Tensor, graph: Graph) -> int | None:
    return at_bounds(size_in_bytes((tensor,), graph.machine_types), graph.limits)


def _sum(counts: Iterable[Dimension | None]) -> Dimension | None:
    total: Dimension = 0
    for count in counts:
        if count is None:
            return None
        total = dimensions.add(total, count)
    return total


def _of_statement(statement: Statement) -> Dimension | None:
    local = {each.name: each.value for each in statement.locals}
    products = sum(
        _products(store.value, local) for store in statement.stores if store.operator == "+="
    )
    if products == 0:
        return 0
    gathered = _gathered(statement)
    loops = [
        replace(loop, extent=f.Constant("int", gathered[loop.index.name]))
        if loop.index.name in gathered
        else loop
        for loop in statement.loops
    ]
    steps = _steps(loops, {})
    return None if steps is None else dimensions.mul(steps, products)


def _gathered(statement: Statement) -> dict[str, Dimension]:
    """The loops over results that gather what a transposed convolution scatters.

    Those of ``y[i] += x[|i - j|] * w[j]``, most steps of which are skipped, with the dimension of
    ``x``: each of its elements is multiplied with each one of the filter.
    """
    subscripts = [each.index for store in statement.stores for each in store.subscripts]
    written = frozenset[str]().union(*map(_indices, subscripts))
    found: dict[str, Dimension] = {}
    for load in f.loads(statement):
        for subscript, size in zip(load.subscripts, load.tensor.shape, strict=True):
            for part in f.walk(subscript.index) if subscript.guarded else ():
                match part:
                    case f.Binary("sub", left, right) if _indices(right) - written:
                        found |= dict.fromkeys(_indices(left) & written, size)
    return found


def _indices(scalar: Scalar) -> frozenset[str]:
    return frozenset(each.name for each in f.walk(scalar) if isinstance(each, f.Index))


def _products(value: Scalar, local: Mapping[str, Scalar]) -> int:
    """Return the number of products of elements whose sum a value is."""
    match value:
        case f.Binary("add" | "sub", left, right):
            return _products(left, local) + _products(right, local)
        case f.Binary("mul", left, right) if _reads(left, local) and _reads(right, local):
            return 1
        case f.Binary("mul" | "div", left, right):
            return max(_products(left, local), _products(right, local))
        case f.Unary("neg", operand) | f.Cast(_, operand):
            return _products(operand, local)
        case f.Select(_, left, right):
            return max(_products(left, local), _products(right, local))
        case f.Local(name):
            return _products(local[name], local)
    return 0


def _reads(value: Scalar, local: Mapping[str, Scalar]) -> bool:
    """Whether an element of a tensor is part of a value."""
    return any(
        isinstance(part, f.Load) or (isinstance(part, f.Local) and _reads(local[part.name], local))
        for part in f.walk(value)
    )


def _steps(loops: Sequence[f.Loop], values: Mapping[str, int]) -> Dimension | None:
    """Return the number of steps of a loop nest, given the values of indices further out."""
    if not loops:
        return 1
    first, *inner = loops
    extent = Values(values).of(first.extent)
    if extent is None:
        return None
    if not any(first.index in f.walk(loop.extent) for loop in inner):
        steps = _steps(inner, values)
        return None if steps is None else dimensions.mul(dimensions.maximum(extent, 0), steps)
    if values or not isinstance(extent, int) or extent > _MOST_STEPS:
        return None
    return _sum(_steps(inner, {first.index.name: value}) for value in range(extent))
