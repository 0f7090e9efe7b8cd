"""Formulas written out in ONNX's element-wise operators and reductions.

Sayable is a statement whose stores write each element once, by plain loop indices, or accumulate
over the other loops, and which reads elements by plain indices. Its loops become the dimensions of
values, in their order; an element that does not depend on the outermost ones has none for them.
Everything else raises Unsayable: there is no order of steps in ONNX, and no skipping of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_nnef import extents
from tvm_nnef.converters.onnx.export import scalars
from tvm_nnef.converters.onnx.export.context import Context
from tvm_nnef.converters.onnx.export.emitter import Emitter, volume
from tvm_nnef.converters.onnx.export.refusal import Unsayable
from tvm_nnef.extents import Extent
from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Formula,
    Index,
    Load,
    Local,
    Lookup,
    Scalar,
    ScalarType,
    Select,
    Statement,
    Store,
    Subscript,
    Unary,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.reference.arithmetic import constant, null

_LARGEST = 1 << 24
"""More elements than this are not held at once for the sake of a sum."""

_REDUCTIONS: Mapping[str, tuple[str, str]] = {
    "+=": ("ReduceSum", "add"),
    "*=": ("ReduceProd", "mul"),
    "min=": ("ReduceMin", "min"),
    "max=": ("ReduceMax", "max"),
}


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over the loops of a statement: its dimensions are the last ``rank`` of them.

    It has extent 1 along loops that are not in ``loops``, and may be broadcast along them.
    """

    name: str
    rank: int
    loops: frozenset[str]


@dataclass(slots=True)
class _Frame:
    """A statement that is being written out."""

    statement: Statement
    dtypes: Mapping[ScalarType, str]
    emitter: Emitter
    context: Context
    made: Mapping[Tensor, str]
    locals: dict[str, Spread] = field(default_factory=dict)

    @property
    def order(self) -> list[str]:
        """The names of the loops, outermost first."""
        return [loop.index.name for loop in self.statement.loops]

    def extent(self, name: str) -> Extent:
        """How often a loop runs."""
        scalar = next(x.extent for x in self.statement.loops if x.index.name == name)
        if not isinstance(scalar, Constant) or isinstance(scalar.value, float):
            raise Unsayable("a loop of its formula runs as often as data or other loops say")
        return scalar.value


def written_out(
    formula: Formula, dtypes: Mapping[ScalarType, str], emitter: Emitter, context: Context
) -> dict[Tensor, str]:
    """The values of the results of a formula, in the dtypes in which it computes."""
    made: dict[Tensor, str] = {}
    fills = {fill.tensor: fill.value for fill in formula.fills}
    for statement in formula.statements:
        frame = _Frame(statement, dtypes, emitter, context, made)
        stored = {store.tensor: _stored(store, fills, frame) for store in statement.stores}
        if len(stored) != len(statement.stores):
            raise Unsayable("a statement of its formula writes one tensor twice")
        made |= stored
    for tensor, fill in fills.items():
        if tensor not in made:
            made[tensor] = emitter.expand(_number(fill, dtypes, emitter), tensor.shape)
    return made


def _stored(store: Store, fills: Mapping[Tensor, Constant], frame: _Frame) -> str:
    """The tensor after a store."""
    written = _written_loops(store, frame)
    value = _scalar(store.value, frame)
    names = [name for name in written if name is not None]
    rest = [name for name in frame.order if name not in names]
    if store.operator == "=":
        if frame.statement.condition is not None:
            raise Unsayable("its formula leaves elements out")
        if any(not extents.equal(frame.extent(name), 1) for name in rest):
            raise Unsayable("its formula writes elements more than once")
        if not _covers(store, written, frame):
            raise Unsayable("its formula writes a part of a result only")
        return _placed(value, written, store.tensor, rest, frame)
    if not _covers(store, written, frame):
        raise Unsayable("its formula accumulates into a part of a result only")
    return _accumulated(store, value, written, rest, fills[store.tensor], frame)


def _accumulated(
    store: Store,
    value: Spread,
    written: Sequence[str | None],
    rest: Sequence[str],
    fill: Constant,
    frame: _Frame,
) -> str:
    """What a contraction adds to a tensor that is filled, or was written before."""
    if store.operator not in _REDUCTIONS or store.tensor.type == "bool":
        raise Unsayable(f"its formula accumulates by {store.operator}")
    operator, function = _REDUCTIONS[store.operator]
    if frame.statement.condition is not None:
        dtype = np.dtype(frame.dtypes[store.tensor.type])
        neutral = frame.emitter.constant(null(store.operator, dtype), str(dtype))
        chosen = (_scalar(frame.statement.condition, frame), value, Spread(neutral, 0, frozenset()))
        value = _spread("Where", chosen, frame)
    if rest:
        value = _reduced(operator, value, rest, frame)
    total = _placed(value, written, store.tensor, rest, frame)
    dtype = frame.dtypes[store.tensor.type]
    before = frame.made.get(store.tensor)
    if before is None:
        start = constant(_static(fill), np.dtype(dtype))
        if start == null(store.operator, np.dtype(dtype)):
            return total
        before = frame.emitter.constant(start, dtype)
    return scalars.binary(function, before, total, dtype, frame.emitter)


def _reduced(operator: str, value: Spread, rest: Sequence[str], frame: _Frame) -> Spread:
    """A value reduced along loops, along which it must extend."""
    shape = [frame.extent(name) for name in frame.order]
    count = volume(shape)
    if count is None or count > _LARGEST:
        reason = "what its formula adds up would need a tensor with an element for each step"
        raise Unsayable(reason)
    axes = frame.emitter.integers([frame.order.index(name) for name in rest])
    whole = value.name
    if value.rank < len(shape) or not value.loops.issuperset(rest):
        whole = frame.emitter.expand(value.name, shape)
    reduced = frame.emitter.node(operator, whole, axes, keepdims=1)
    return Spread(reduced, len(shape), frozenset(frame.order) - frozenset(rest))


def _written_loops(store: Store, frame: _Frame) -> list[str | None]:
    """The loop that runs along each dimension of the tensor, None along one of extent 1."""
    found: list[str | None] = []
    for subscript, extent in zip(store.subscripts, store.tensor.shape, strict=True):
        match subscript:
            case Subscript(Index(name), False) if name not in found:
                found.append(name)
            case Subscript(Constant(_, 0), False) if extents.equal(extent, 1):
                found.append(None)
            case _:
                raise Unsayable("its formula writes elements at computed positions")
    return found


def _covers(store: Store, written: Sequence[str | None], frame: _Frame) -> bool:
    pairs = zip(written, store.tensor.shape, strict=True)
    return all(name is None or extents.equal(frame.extent(name), size) for name, size in pairs)


def _placed(
    value: Spread,
    written: Sequence[str | None],
    tensor: Tensor,
    rest: Sequence[str],
    frame: _Frame,
) -> str:
    """A value over the loops as a tensor over its own dimensions."""
    emitter, order = frame.emitter, frame.order
    name = emitter.unsqueeze(value.name, list(range(len(order) - value.rank)))
    name = emitter.squeeze(name, [order.index(each) for each in rest])
    left = [each for each in order if each not in rest]
    name = emitter.permute(name, [left.index(each) for each in written if each is not None])
    name = emitter.unsqueeze(name, [axis for axis, each in enumerate(written) if each is None])
    missing = [
        each
        for each in left
        if each not in value.loops and not extents.equal(frame.extent(each), 1)
    ]
    return emitter.expand(name, tensor.shape) if missing else name


def _spread(operator: str, operands: Sequence[Spread], frame: _Frame) -> Spread:
    """An element-wise node of values that are aligned from the right."""
    name = frame.emitter.node(operator, *(each.name for each in operands))
    return _over(name, operands)


def _over(name: str, operands: Sequence[Spread]) -> Spread:
    loops = frozenset().union(*(each.loops for each in operands))
    return Spread(name, max(each.rank for each in operands), loops)


def _scalar(scalar: Scalar, frame: _Frame) -> Spread:
    emitter, dtypes = frame.emitter, frame.dtypes
    match scalar:
        case Constant():
            return Spread(_number(scalar, dtypes, emitter), 0, frozenset())
        case Index(name):
            return _index(name, frame)
        case Local(name):
            if name not in frame.locals:
                local = next(each for each in frame.statement.locals if each.name == name)
                frame.locals[name] = _scalar(local.value, frame)
            return frame.locals[name]
        case Unary(function, operand):
            inner = _scalar(operand, frame)
            made = scalars.unary(function, inner.name, dtypes[operand.type], emitter)
            return _over(made, [inner])
        case Binary(function, left, right):
            if function == "pow" and left.type == "int":
                return _int_power(left, right, frame)
            sides = (_scalar(left, frame), _scalar(right, frame))
            first, second = (each.name for each in sides)
            nonzero = _divides_safely(right, frame)
            dtype = dtypes[left.type]
            made = scalars.binary(function, first, second, dtype, emitter, nonzero=nonzero)
            return _over(made, sides)
        case Select(condition, consequent, alternative):
            three = [_scalar(each, frame) for each in (condition, consequent, alternative)]
            made = scalars.select(*(each.name for each in three), scalar.type, emitter)
            return _over(made, three)
        case Cast(type, operand):
            inner = _scalar(operand, frame)
            made = scalars.cast(inner.name, dtypes[operand.type], dtypes[type], emitter)
            return _over(made, [inner])
        case Lookup(items, index):
            return _lookup(items, index, frame)
        case Load(tensor, subscripts):
            return _load(tensor, subscripts, frame)


def _divides_safely(divisor: Scalar, frame: _Frame) -> bool:
    """Whether a divisor is known to be neither 0 nor -1."""
    match divisor:
        case Constant(_, int() as value):
            return value not in (0, -1)
        case Load(tensor):
            array = frame.context.known(tensor)
            return array is not None and not np.isin(array, (0, -1)).any()
    return False


def _int_power(left: Scalar, right: Scalar, frame: _Frame) -> Spread:
    """A power of ints as a product, which wraps around as it should."""
    exponent = _single_int(right, frame)
    if exponent is None or not 0 <= exponent <= 64:
        raise Unsayable("a power of ints is exact, and one of ONNX is not")
    if not exponent:
        return Spread(frame.emitter.constant(1, frame.dtypes["int"]), 0, frozenset())
    base = _scalar(left, frame)
    name = base.name
    for _ in range(exponent - 1):
        name = frame.emitter.node("Mul", name, base.name)
    return _over(name, [base])


def _single_int(scalar: Scalar, frame: _Frame) -> int | None:
    """The value of a scalar that is the same in every step."""
    match scalar:
        case Constant(_, int() as value):
            return value
        case Load(tensor):
            array = frame.context.known(tensor)
            return int(array.item()) if array is not None and array.size == 1 else None
    return None


def _index(name: str, frame: _Frame) -> Spread:
    """The numbers of the steps of a loop, along its dimension."""
    emitter, order = frame.emitter, frame.order
    behind = len(order) - 1 - order.index(name)
    extent, dtype = frame.extent(name), frame.dtypes["int"]
    if isinstance(extent, int):
        numbers = np.arange(extent).reshape(-1, *[1] * behind)
        return Spread(emitter.constant(numbers, dtype, "range"), behind + 1, frozenset([name]))
    ends = (emitter.constant(0, "int64"), emitter.extent(extent), emitter.constant(1, "int64"))
    numbers_ = emitter.cast(emitter.node("Range", *ends), "int64", dtype)
    return Spread(
        emitter.unsqueeze(numbers_, list(range(1, behind + 1))), behind + 1, frozenset([name])
    )


def _lookup(items: Sequence[Scalar], index: Scalar, frame: _Frame) -> Spread:
    """An item of a list, by an index that loops decide."""
    if isinstance(index, Constant) and isinstance(index.value, int):
        return _scalar(items[index.value], frame)
    if not all(isinstance(item, Constant) and _is_number(item.value) for item in items):
        raise Unsayable("its formula chooses between tensors by an index")
    dtype = frame.dtypes[items[0].type]
    numbers = [constant(_static(item), np.dtype(dtype)) for item in items]
    table = frame.emitter.constant(np.stack(numbers), dtype)
    place = _scalar(index, frame)
    return _over(frame.emitter.node("Gather", table, place.name, axis=0), [place])


def _load(tensor: Tensor, subscripts: Sequence[Subscript], frame: _Frame) -> Spread:
    """A tensor along the loops by which it is read."""
    emitter, order = frame.emitter, frame.order
    names: list[str | None] = []
    for subscript, extent in zip(subscripts, tensor.shape, strict=True):
        match subscript:
            case Subscript(Index(name), below=None) if name not in names and extents.equal(
                frame.extent(name), extent
            ):
                names.append(name)
            case Subscript(Constant(_, 0), below=None) if extents.equal(extent, 1):
                names.append(None)
            case _:
                raise Unsayable("its formula reads elements at computed positions")
    dtype = frame.dtypes[tensor.type]
    if tensor in frame.made:
        name = frame.made[tensor]
    else:
        name = frame.context.converted(emitter, tensor, dtype)
    name = emitter.squeeze(name, [axis for axis, each in enumerate(names) if each is None])
    kept = [each for each in names if each is not None]
    present = [each for each in order if each in kept]
    name = emitter.permute(name, [kept.index(each) for each in present])
    if not present:
        return Spread(name, 0, frozenset())
    reach = order[order.index(present[0]) :]
    gaps = [axis for axis, each in enumerate(reach) if each not in present]
    return Spread(emitter.unsqueeze(name, gaps), len(reach), frozenset(present))


def _number(scalar: Constant, dtypes: Mapping[ScalarType, str], emitter: Emitter) -> str:
    dtype = dtypes[scalar.type]
    if _is_number(scalar.value):
        return emitter.constant(constant(_static(scalar), np.dtype(dtype)), dtype)
    return emitter.cast(emitter.extent(scalar.value), "int64", dtype)  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float))


def _static(scalar: Scalar) -> float:
    assert isinstance(scalar, Constant)
    if not isinstance(scalar.value, (bool, int, float)):
        raise Unsayable("its formula has a number that is known at run time only")
    return scalar.value
