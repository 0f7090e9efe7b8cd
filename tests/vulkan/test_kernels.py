"""Kernels written by hand: valid SPIR-V, which computes what NumPy computes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from tvm import tirx

from tvm_nnef.spirv.arithmetic import Unsupported
from tvm_nnef.spirv.kernel import compile_kernel

INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
REALS = ["float16", "float32", "float64"]
N = 64


def numbers(dtype: str, seed: int = 0, low: int = -100, high: int = 100) -> Any:
    """Random numbers that every dtype has; a quarter of them small."""
    low = max(low, 0) if dtype.startswith("u") else low
    found = np.random.default_rng(seed).integers(low, high, N)
    found[:16] %= 4
    return found.astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str, vulkan: Any) -> None:
    a, b = numbers(dtype, 1), numbers(dtype, 2)
    b[b == 0] = 3
    s = (numbers(dtype, 3) % 7).astype(dtype)

    def expressions(x: Any, y: Any, z: Any) -> list[Any]:
        return [
            *(x + y, x - y, x * y, tirx.truncdiv(x, y), tirx.truncmod(x, y)),
            *(tirx.floordiv(x, y), tirx.floormod(x, y), tirx.min(x, y), tirx.max(x, y)),
            *(x & y, x | y, x ^ y, ~x, x << z, x >> z),
        ]

    found = vulkan.formula(vulkan, dtype, expressions, a, b, s)
    with np.errstate(over="ignore"):
        whole, rest = np.trunc(a / b.astype("float64")).astype(dtype), np.fmod(a, b)
        wanted = [a + b, a - b, a * b, whole, rest, a // b, a % b]
        wanted += [np.minimum(a, b), np.maximum(a, b), a & b, a | b, a ^ b, ~a, a << s, a >> s]
    for number, (actual, expected) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(actual, expected, err_msg=f"expression {number}")


@pytest.mark.parametrize("dtype", REALS)
def test_reals(dtype: str, vulkan: Any) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.uniform(-8, 8, N).astype(dtype) for _ in range(2))
    a[:4] = [np.nan, np.inf, -np.inf, -0.0]

    def expressions(x: Any, y: Any) -> list[Any]:
        calls = (tirx.floor, tirx.ceil, tirx.trunc, tirx.nearbyint, tirx.abs)
        small = tirx.Select(x < y, x, y)
        return [x + y, x - y, x * y, x / y, *(call(x) for call in calls), small]

    found = vulkan.formula(vulkan, dtype, expressions, a, b)
    wanted = [a + b, a - b, a * b, a / b, np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), abs(a)]
    wanted.append(np.where(a < b, a, b))
    last = 4 * float(np.finfo(dtype).eps)
    for number, (actual, expected) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_allclose(actual, expected, last, err_msg=f"expression {number}")


@pytest.mark.parametrize("dtype", REALS)
def test_remainders_of_reals_are_exact(dtype: str, vulkan: Any) -> None:
    """That of SPIR-V is computed from a rounded quotient, wrong if it is large."""
    generator = np.random.default_rng(0)
    largest = np.finfo(dtype).maxexp - 1
    exponents = generator.uniform(-largest + 1, largest, (2, N))
    a, b = (2.0**exponents * generator.choice([-1, 1], (2, N))).astype(dtype)
    special = np.array([0, -0.0, 1, -3, 0.1, np.inf, -np.inf, np.nan], dtype)
    a[:36], b[:36] = np.repeat(special[:6], 6), np.tile(special[2:], 6)
    b[36:44] = [0, -0.0, *a[38:44]]
    (found,) = vulkan.formula(vulkan, dtype, lambda x, y: [tirx.Mod(x, y)], a, b)
    with np.errstate(invalid="ignore"):
        expected = np.fmod(a, b)
    np.testing.assert_array_equal(found, expected)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float16", "bool"])
def test_comparisons(dtype: str, vulkan: Any) -> None:
    a, b = numbers(dtype, 1, -3, 3), numbers(dtype, 2, -3, 3)
    if dtype == "float32":
        a[:3] = np.nan

    def expressions(x: Any, y: Any) -> list[Any]:
        return [x < y, x <= y, x > y, x >= y, x.equal(y), tirx.NE(x, y), tirx.Not(x < y)]

    found = vulkan.formula(vulkan, "bool", expressions, a, b)
    wanted = [a < b, a <= b, a > b, a >= b, a == b, a != b, ~(a < b)]
    for number, (actual, expected) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(actual, expected, err_msg=f"expression {number}")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", [*INTEGERS, *REALS, "bool"])
def test_conversions(source: str, vulkan: Any) -> None:
    for target in (*INTEGERS, *REALS, "bool"):
        # A negative real has no value in 64 bits without a sign.
        a = numbers(source, 1, -100 if source != "bool" and target != "uint64" else 0)
        (found,) = vulkan.formula(vulkan, target, lambda x, t=target: [tirx.Cast(t, x)], a)
        # Reals become unsigned by way of signed integers, so that -1 is the largest one.
        wide = a.astype("int64") if source in REALS and target.startswith("uint") else a
        np.testing.assert_array_equal(found, wide.astype(target), err_msg=target)


def test_bits_are_read_as_another_dtype(vulkan: Any) -> None:
    a = np.random.default_rng(0).standard_normal(N).astype("float32")
    (found,) = vulkan.formula(
        vulkan, "int32", lambda x: [tirx.call_intrin("int32", "tirx.reinterpret", x)], a
    )
    np.testing.assert_array_equal(found, a.view("int32"))


def test_what_is_not_chosen_is_not_read(vulkan: Any) -> None:
    def body(source: Any, target: Any, thread: Any, block: Any) -> Any:
        inside = thread < 8
        far = source[(tirx.Select(inside, thread, 1 << 30),)]
        value = tirx.if_then_else(inside, far, tirx.const(-1.0, "float32"))
        return tirx.BufferStore(target, value, [thread])

    source, target = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    vulkan.run(vulkan.kernel(["float32", "float32"], body), source, target)
    np.testing.assert_array_equal(target, [*range(8), *[-1] * (N - 8)])


def test_a_constant_is_compared_with_a_widened_integer(vulkan: Any) -> None:
    """Mesa 22.3 gets this wrong for the instruction that widens."""
    a = np.arange(-32, 32).astype("int32")

    def expressions(x: Any) -> list[Any]:
        wide = tirx.Cast("int64", x)
        return [tirx.const(6, "int64") <= wide, wide < tirx.const(-3, "int64")]

    found = vulkan.formula(vulkan, "bool", expressions, a)
    np.testing.assert_array_equal(found, [a >= 6, a < -3])


def test_loops_and_branches(vulkan: Any) -> None:
    """The number of steps to 1 by halving or tripling (Collatz), and a sum with an inner loop."""

    def body(target: Any, thread: Any, block: Any) -> Any:
        state = tirx.decl_buffer((2,), "int32", "state", scope="local")
        value, steps = state[(0,)], state[(1,)]
        one = tirx.const(1, "int32")
        halve = tirx.BufferStore(state, value >> one, [0])
        triple = tirx.BufferStore(state, value * 3 + one, [0])
        even = tirx.EQ(value & one, tirx.const(0, "int32"))
        step = tirx.SeqStmt(
            [tirx.IfThenElse(even, halve, triple), tirx.BufferStore(state, steps + one, [1])]
        )
        i, j = tirx.Var("i", "int32"), tirx.Var("j", "int32")
        cell = target[(thread + N,)]
        add = tirx.BufferStore(target, cell + j, [thread + N])
        guarded = tirx.IfThenElse(tirx.NE(i, j), add, None)
        inner = tirx.For(j, tirx.const(0, "int32"), i, tirx.ForKind.SERIAL, guarded)
        return tirx.SeqStmt(
            [
                tirx.AllocBuffer(state),
                tirx.BufferStore(state, thread + one, [0]),
                tirx.BufferStore(state, tirx.const(0, "int32"), [1]),
                tirx.While(one < value, step),
                tirx.BufferStore(target, steps, [thread]),
                tirx.For(i, tirx.const(2, "int32"), thread, tirx.ForKind.SERIAL, inner),
            ]
        )

    target = np.zeros((2, N), "int32")
    vulkan.run(vulkan.kernel(["int32"], body), target)

    def steps(number: int) -> int:
        return 0 if number == 1 else 1 + steps(3 * number + 1 if number % 2 else number // 2)

    sums = [sum(sum(range(i)) for i in range(2, 2 + t)) for t in range(N)]
    np.testing.assert_array_equal(target, [[steps(t + 1) for t in range(N)], sums])


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "bool"])
def test_threads_of_a_block_share_memory(dtype: str, vulkan: Any) -> None:
    def body(source: Any, target: Any, thread: Any, block: Any) -> Any:
        shared = tirx.decl_buffer((N,), dtype, "shared", scope="shared")
        barrier = tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared")
        own = block * N + thread
        return tirx.SeqStmt(
            [
                tirx.AllocBuffer(shared),
                tirx.BufferStore(shared, source[(own,)], [thread]),
                tirx.Evaluate(barrier),
                tirx.BufferStore(target, shared[(N - 1 - thread,)], [own]),
            ]
        )

    source = np.concatenate([numbers(dtype, seed) for seed in range(4)])
    target = np.zeros_like(source)
    vulkan.run(vulkan.kernel([dtype, dtype], body), source, target, blocks=4)
    np.testing.assert_array_equal(target.reshape(4, N), source.reshape(4, N)[:, ::-1])


@pytest.mark.parametrize("count", [3, 16, 17, 40])
def test_scalars_are_passed(count: int, vulkan: Any) -> None:
    types = (["int64", "int32", "float32"] * count)[:count]
    values = [number * 1000 - 3 for number in range(count)]

    def body(target: Any, thread: Any, block: Any, *scalars: Any) -> Any:
        stores = [
            tirx.BufferStore(target, tirx.Cast("int64", each), [number])
            for number, each in enumerate(scalars)
        ]
        return tirx.IfThenElse(tirx.EQ(thread, tirx.const(0, "int32")), tirx.SeqStmt(stores), None)

    target = np.zeros(count, "int64")
    layouts = {"int64": "<q", "int32": "<i4x", "float32": "<f4x"}
    packed = b"".join(struct.pack(layouts[t], v) for t, v in zip(types, values, strict=True))
    vulkan.run(vulkan.kernel(["int64"], body, types), target, scalars=packed)
    np.testing.assert_array_equal(target, values)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_vectors(lanes: int, vulkan: Any) -> None:
    count = N // lanes

    def body(source: Any, target: Any, thread: Any, block: Any) -> Any:
        ramp = tirx.Ramp(thread * lanes, 1, lanes)
        loaded = tirx.BufferLoad(source, [ramp])
        two = tirx.Broadcast(tirx.const(2.0, "float32"), lanes)
        return tirx.BufferStore(target, loaded * two, [ramp])

    source, target = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    vulkan.run(vulkan.kernel(["float32", "float32"], body, threads=count), source, target)
    np.testing.assert_array_equal(target, source * 2)


def test_what_cannot_be_expressed_is_an_error_that_names_it(vulkan: Any) -> None:
    def body(target: Any, thread: Any, block: Any) -> Any:
        value = tirx.call_pure_extern("float64", "sin", target[(thread,)])
        return tirx.BufferStore(target, value, [thread])

    with pytest.raises(Unsupported, match="the kernel 'kernel' has the function 'sin' of float64"):
        compile_kernel(vulkan.kernel(["float64"], body))
