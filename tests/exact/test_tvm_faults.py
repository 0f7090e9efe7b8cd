"""Faults of TVM that ``tvm_nnef.exact`` works around, one each (docs/exact.md).

A test that fails says that this TVM is mended: what answers the fault can go.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import s_tir, sym, te, tirx

from tvm_nnef.tir.expressions import nodes, substituted

X, Y = (tirx.Var(name, "float32") for name in "xy")
I, J = (tirx.Var(name, "int32") for name in "ij")  # noqa: E741 - as in the formulas
LARGE = 2**30


def real(value: float) -> Any:
    return tirx.const(value, "float32")


def whole(value: int) -> Any:
    return tirx.const(value, "int32")


def simplified(value: Any) -> str:
    return str(sym.Analyzer().simplify(value))


REALS: dict[str, tuple[Any, str]] = {
    "a difference of equals": (tirx.Sub(X, X), "T.float32(0.0)"),
    "a term that cancels": (tirx.Sub(tirx.Add(X, Y), Y), "x"),
    "a constant that cancels": (tirx.Sub(tirx.Add(X, real(1e8)), real(1e8)), "x"),
    "a product with zero": (tirx.Mul(real(0), X), "T.float32(0.0)"),
    "a sum with zero": (tirx.Add(X, real(0)), "x"),
    "a quotient of zero": (tirx.Div(real(0), X), "T.float32(0.0)"),
    "x == x": (tirx.EQ(X, X), "T.bool(True)"),
    "x != x": (tirx.NE(X, X), "T.bool(False)"),
    "a negated comparison": (tirx.Not(tirx.LT(X, Y)), "y <= x"),
    "one of two comparisons": (tirx.Or(tirx.LT(X, Y), tirx.GE(X, Y)), "T.bool(True)"),
}
"""What TVM makes of reals, which is wrong for NaN, infinities, -0.0 or rounded sums."""


@pytest.mark.parametrize("name", REALS)
def test_reals_are_taken_for_exact(name: str) -> None:
    value, found = REALS[name]
    assert simplified(value) == found


def test_zeros_of_two_signs_are_equal() -> None:
    choice = tirx.Select(tirx.LT(I, J), real(0.0), real(-0.0))
    assert simplified(choice) == "T.float32(0.0)"


INTS: dict[str, tuple[Any, str]] = {
    "a product that is divided": (tirx.FloorDiv(tirx.Mul(I, whole(4)), whole(4)), "i"),
    "a sum that is compared": (tirx.GT(tirx.Sub(I, whole(5)), whole(0)), "5 < i"),
    "a remainder of a difference": (
        tirx.FloorMod(tirx.Sub(I, whole(4)), whole(7)), "(i + 3) % 7",
    ),
    "a minimum in a difference": (tirx.Sub(tirx.Min(I, J), I), "T.min(0, j - i)"),
}  # fmt: skip
"""What TVM makes of ints, which is wrong if they wrap around."""


@pytest.mark.parametrize("name", INTS)
def test_ints_are_taken_for_exact(name: str) -> None:
    value, found = INTS[name]
    assert simplified(value) == found


REFUSED: dict[str, Any] = {
    "factors": tirx.Mul(tirx.Mul(I, whole(LARGE)), whole(LARGE)),
    "divisors": tirx.FloorDiv(tirx.FloorDiv(I, whole(LARGE)), whole(LARGE)),
    "a conversion": tirx.Cast("uint8", tirx.Max(tirx.Min(I, whole(300)), whole(300))),
}
"""Expressions with constants that their dtype does not hold once TVM has joined them."""


@pytest.mark.parametrize("name", REFUSED)
def test_joined_constants_are_refused(name: str) -> None:
    with pytest.raises(Exception, match="Literal"):
        simplified(REFUSED[name])


def compiled(element: Callable[[Any], Any], array: np.ndarray, dtype: str, lanes: int = 1) -> Any:
    """What TVM's own pipeline computes of each element."""
    x = te.placeholder(array.shape, str(array.dtype), "x")
    y = te.compute(array.shape, lambda i: element(x(i)), name="y")
    function = te.create_prim_func([x, y])
    if lanes > 1:
        schedule = s_tir.Schedule(function)
        (loop,) = schedule.get_loops(schedule.get_sblock("y"))
        schedule.vectorize(loop)
        function = schedule.mod["main"]
    result = tvm.runtime.tensor(np.empty(array.shape, dtype))
    tvm.compile(function, target="llvm")(tvm.runtime.tensor(array), result)
    return result.numpy()


def test_llvm_is_promised_that_ints_do_not_overflow() -> None:
    """``x | 1 << 30`` keeps TVM from joining constants; LLVM then takes the sum for larger."""
    array = np.full(4, 2**31 - 1, "int32")

    def grows(x: Any) -> Any:
        return tirx.Cast("int32", tirx.GT(tirx.Add(x, tirx.bitwise_or(whole(1), whole(0))), x))

    assert compiled(grows, array, "int32").tolist() == [1] * 4


def test_a_real_that_differs_is_a_number_for_llvm() -> None:
    array = np.array([np.nan, 1], "float32")
    found = compiled(lambda x: tirx.Cast("int32", tirx.NE(x, real(2))), array, "int32")
    assert found.tolist() == [0, 1]


def nested(depth: int) -> Any:
    value: Any = I
    for number in range(depth):
        arms = value + whole(1), value - J * whole(number + 2)
        value = tirx.Select(tirx.LT(J, whole(number)), *arms)
    return value


def test_nested_choices_take_exponential_time() -> None:
    def seconds(depth: int) -> float:
        begin = time.process_time()
        simplified(nested(depth))
        return time.process_time() - begin

    assert min(seconds(12) for _ in range(3)) > 4 * min(seconds(8) for _ in range(3))


def test_a_divisor_is_written_several_times() -> None:
    """Of divisions nested in divisors nothing ends."""

    def size(depth: int) -> int:
        data = tirx.decl_buffer((8,), "int32", "data")
        value: Any = data[I]
        for _ in range(depth):
            value = tirx.FloorDiv(data[I], value)
        store = tirx.BufferStore(data, value, [I])
        function = tirx.PrimFunc([data], tirx.For(I, 0, 8, tirx.ForKind.SERIAL, store))
        target = tvm.target.Target("llvm")
        mod = tvm.IRModule({"main": function.with_attr("target", target)})
        return len(nodes(tirx.transform.LowerIntrin()(mod)["main"].body, tirx.Expr))

    assert size(3) > 8 * size(1)


def test_a_choice_drops_what_limits_an_index_in_it() -> None:
    """Both arms are evaluated, so that the load reads outside of its buffer."""
    x, y = (tirx.decl_buffer((size,), "float32", name) for name, size in (("x", 13), ("y", 17)))
    limited = tirx.max(tirx.min(I - whole(1), whole(12)), whole(0))
    inside = tirx.And(whole(1) <= I, whole(14) > I)
    store = tirx.BufferStore(y, tirx.Select(inside, x[limited], real(0)), [I])
    function = tirx.PrimFunc([x, y], tirx.For(I, 0, 17, tirx.ForKind.SERIAL, store))
    made = tirx.transform.StmtSimplify()(tvm.IRModule({"main": function}))
    assert not nodes(made["main"].body, tirx.Min, tirx.Max)


def test_an_offset_is_rewritten_to_another_one() -> None:
    """``FlattenBuffer`` makes ``j % -8 * -1`` of ``(5 - j) % 8``."""
    data = tirx.decl_buffer((8, 8), "float32", "data")
    column = tirx.FloorMod(whole(5) - J, whole(8))
    store: Any = tirx.BufferStore(data, real(0), [I, column])
    for loop in (J, I):
        store = tirx.For(loop, 0, 8, tirx.ForKind.SERIAL, store)
    mod = tvm.IRModule({"main": tirx.PrimFunc([data], store)})
    (flat,) = nodes(tirx.transform.FlattenBuffer()(mod)["main"].body, tirx.BufferStore)
    loops = {var.name: var for var in nodes(flat.indices[0], tirx.Var)}
    values = {loops["i"]: whole(0), loops["j"]: whole(1)} if "i" in loops else {}
    assert simplified(substituted(flat.indices[0], values)) != "4"
