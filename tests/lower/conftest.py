"""Hand-built graphs, a naive interpreter of formulas, and a way to compile and run both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_nnef.compilation.metadata import with_metadata
from tvm_nnef.compilation.pipeline import build_module
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.graph import formula as f
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import Graph, Loop, Operation, Port, Tensor, flatten
from tvm_nnef.graph.verify import verify
from tvm_nnef.lower import lower

KINDS = {"f": "real", "i": "int", "u": "int", "b": "bool"}


def tensor(name: str, shape: Sequence[int], kind: str = "real", role: str = "input") -> Tensor:
    return Tensor(f"main.G.{name}", kind, tuple(shape), role)


def operation(
    operator: str,
    operands: Sequence[Any],
    results: Sequence[Any],
    body: Any = None,
    **attributes: Any,
) -> Operation:
    def declared(item: Any) -> str:
        first = item[0] if isinstance(item, tuple) and item else item
        return first.type if isinstance(first, Tensor) else "real"

    return Operation(
        operator,
        attributes,
        {},
        tuple(operands),
        tuple(results),
        tuple(map(declared, operands)),
        tuple(map(declared, results)),
        body,
        "label",
    )


def graph(operations: Sequence[Operation], inputs: Sequence[Any], outputs: Sequence[Any],
          variables: Sequence[Tensor] = ()) -> Graph:  # fmt: skip
    return Graph(
        "main.G",
        tuple(Port(f"x{n}", item) for n, item in enumerate(inputs)),
        tuple(Port(f"y{n}", item) for n, item in enumerate(outputs)),
        tuple(operations),
        variables=tuple(variables),
    )


def compiled(
    made: Graph,
    *,
    route: str = "mapped",
    variables: Mapping[str, Any] | None = None,
    named: Mapping[str, str] | None = None,
    scheduled: bool = True,
    **options: Any,
) -> Executable:
    """What a graph computes; without schedules TVM compiles it alone, and LLVM in little time."""
    types = assign(made, named=named or {})
    mod = lower(made, machine_types=types, variables=variables or {}, route=route, **options)
    if scheduled:
        return build_module(mod, "native")
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        return Executable(relax.build(with_metadata(mod, target), target))


def run_formula(
    body: f.Formula, operands: Mapping[Tensor, np.ndarray], **options: Any
) -> list[np.ndarray]:
    """Results of one operation with a formula, compiled."""
    results = [fill.tensor for fill in body.fills]
    one = operation("test.formula", list(operands), results, body)
    named = {t.name: str(a.dtype) for t, a in operands.items()} | options.pop("named", {})
    exe = compiled(graph([one], list(operands), results), named=named, **options)
    return list(exe(*operands.values()))


BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b if b else 0,
    "ceildiv": lambda a, b: -(-a // b) if b else 0,
    "truncdiv": lambda a, b: math.trunc(a / b) if b else 0,
    "awaydiv": lambda a, b: int(math.copysign(math.ceil(abs(a / b)), a * b)) if b else 0,
    "realceildiv": lambda a, b: math.ceil(a / b),
    "floormod": lambda a, b: a % b if b else 0,
    "truncmod": lambda a, b: int(math.fmod(a, b)) if b else 0,
    "fmod": math.fmod,
    "pow": lambda a, b: a**b if isinstance(a, float) or b >= 0 else int(float(a) ** b) if a else 0,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
}
UNARY = {
    "neg": lambda a: -a,
    "not": lambda a: not a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "round": lambda a: math.copysign(math.floor(abs(a) + 0.5), a) if abs(a) != 0.49999997 else 0.0,
    "frac": lambda a: a - math.trunc(a),
    "floor": math.floor,
    "ceil": math.ceil,
    "erf": math.erf,
    **{name: getattr(math, name) for name in (
        "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
        "tanh", "asinh", "acosh", "atanh")},
}  # fmt: skip
STORE = {
    "=": lambda old, new: new,
    "+=": BINARY["add"],
    "*=": BINARY["mul"],
    "&=": BINARY["and"],
    "|=": BINARY["or"],
    "min=": min,
    "max=": max,
}


class _Skip(Exception):
    """A guarded index is out of bounds."""


def naive(body: f.Formula, operands: Mapping[Tensor, np.ndarray]) -> list[np.ndarray]:
    """Results of a formula, one step after the other, as the docstring of the Formula says."""
    values = {t: a.astype(object) for t, a in operands.items()}
    for fill in body.fills:
        values[fill.tensor] = np.full(fill.tensor.shape, fill.value.value, dtype=object)
    for statement in body.statements:
        _statement(statement, values)
    return [values[fill.tensor] for fill in body.fills]


def _statement(statement: f.Statement, values: dict[Tensor, np.ndarray]) -> None:
    def loop(number: int, env: dict[str, Any]) -> None:
        if number < len(statement.loops):
            current = statement.loops[number]
            for value in range(_value(current.extent, env, values)):
                loop(number + 1, {**env, current.index.name: value})
            return
        try:
            for local in statement.locals:
                env = {**env, local.name: _value(local.value, env, values)}
            for held, dimension, subscript in f.guards(statement):
                if not 0 <= _value(subscript.index, env, values) < held.shape[dimension]:
                    raise _Skip
            if statement.condition is not None and not _value(statement.condition, env, values):
                return
            steps = [
                (s, _location(s.tensor, s.subscripts, env, values), _value(s.value, env, values))
                for s in statement.stores
            ]
        except _Skip:
            return
        for store, position, value in steps:
            array = values[store.tensor]
            array[position] = STORE[store.operator](array[position], value)

    loop(0, {})


def _location(held: Tensor, subscripts: Any, env: Any, values: Any) -> tuple[int, ...]:
    position = []
    for subscript, extent in zip(subscripts, held.shape, strict=True):
        index = _value(subscript.index, env, values)
        if subscript.below is not None and index < 0:
            index = _value(subscript.below, env, values)
        elif subscript.above is not None and index >= extent:
            index = _value(subscript.above, env, values)
        if not 0 <= index < extent:
            raise _Skip
        position.append(index)
    return tuple(position)


def _value(scalar: f.Scalar, env: Any, values: Any) -> Any:
    match scalar:
        case f.Constant(_, value):
            return value
        case f.Index(name) | f.Local(name):
            return env[name]
        case f.Unary(function, operand):
            return UNARY[function](_value(operand, env, values))
        case f.Binary(function, left, right):
            return BINARY[function](_value(left, env, values), _value(right, env, values))
        case f.Select(condition, consequent, alternative):
            chosen = consequent if _value(condition, env, values) else alternative
            return _value(chosen, env, values)
        case f.Cast(kind, operand):
            return {"real": float, "int": int, "bool": bool}[kind](_value(operand, env, values))
        case f.Lookup(items, index):
            return _value(items[_value(index, env, values)], env, values)
        case f.Load(held, subscripts):
            return values[held][_location(held, subscripts, env, values)]


@pytest.fixture
def make() -> SimpleNamespace:
    """What the tests build graphs with."""
    return SimpleNamespace(
        tensor=tensor, operation=operation, graph=graph, compiled=compiled,
        run_formula=run_formula, naive=naive, product=itertools.product,
    )  # fmt: skip


class Maker:
    """Names tensors as they are made; ``x = m.add(a, b)`` appends an operation to ``made``."""

    def __init__(self) -> None:
        self.count, self.made = 0, []

    def tensor(self, shape=(), kind="real", role="result", value=None) -> Tensor:
        self.count += 1
        return Tensor(f"main.G.t{self.count}", kind, tuple(shape), role, value)

    def input(self, shape=(), kind="real") -> Tensor:
        return self.tensor(shape, kind, "input")

    def constant(self, value, shape=(), kind="real") -> Tensor:
        return self.tensor(shape, kind, "constant", value)

    def call(self, name, *operands, kind=None) -> Tensor:
        shape = max((operand.shape for operand in operands), key=len)
        result = self.tensor(shape, kind or operands[0].type)
        aligned = {"lhs_align": None, "rhs_align": None} if len(operands) == 2 else {}
        self.made.append(operation(f"math.{name}", operands, [result], **aligned))
        return result

    def real(self, number) -> Tensor:
        """An int as a real, by a formula."""
        result = self.tensor()
        store = f.Store(result, (), "=", f.Cast("real", f.Load(number, ())))
        formula = f.Formula(
            (f.Fill(result, f.Constant("real", 0.0)),), (f.Statement((), (store,)),)
        )
        self.made.append(operation("my.real", [number], [result], formula))
        return result

    def body(self, inputs, outputs, variables=(), updates=()) -> Graph:
        """The operations made since the last one as a graph."""
        operations, self.made = self.made, []
        return self.graph(operations, inputs, outputs, variables, updates, check=False)

    def loop(self, body, carried=(), initial=(), scans=(), index=None, count=None,
             condition=None, post_test=False, packs=0):  # fmt: skip
        outputs = [port.operand for port in body.outputs]
        finals = [self.tensor(tensor.shape, tensor.type) for tensor in carried]
        scanned = [
            tuple(self.tensor(output.shape, output.type) for _ in range(packs))
            for output in outputs[len(carried) :]
        ]
        results = (*finals, *scanned)
        return Loop(tuple(carried), tuple(initial), tuple(scans), index, count, condition,
                    post_test, body, results)  # fmt: skip

    @staticmethod
    def graph(nodes, inputs, outputs, variables=(), updates=(), check=True) -> Graph:
        read = (*flatten(tuple(outputs)), *(t for node in nodes for t in flatten(node.operands)))
        made = Graph(
            "main.G",
            tuple(Port(f"x{n}", item) for n, item in enumerate(inputs)),
            tuple(Port(f"y{n}", item) for n, item in enumerate(outputs)),
            tuple(nodes),
            constants=tuple(dict.fromkeys(t for t in read if t.role == "constant")),
            variables=tuple(variables),
            updates=tuple(updates),
        )
        if check:
            verify(made)
        return made


@pytest.fixture
def m() -> Maker:
    """What the tests of control flow and state build graphs with."""
    return Maker()
