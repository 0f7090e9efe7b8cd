"""Plans: how strategies compete, what plans say, and that the loops of each cover all elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import relax, te, tirx

from tvm_nnef import schedules
from tvm_nnef.compilation.passes import compile_kernel, run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.cpu import strategies
from tvm_nnef.schedules.machine import cpu_model
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.emit import Tail
from tvm_nnef.schedules.plan.plan import Plan, cheapest
from tvm_nnef.schedules.plan.verify import verify_plan
from tvm_nnef.tvm_support.compat import opaque_function, prim_functions, runtime_tensor

TARGET = resolve("native")
MACHINE = cpu_model(TARGET)


@dataclass(frozen=True, eq=False)
class NamedPlan(Plan):
    """A plan of a name and a cost, which leaves loops as they are."""

    name: str
    cycles: float

    @property
    def strategy(self) -> str:
        return self.name

    @property
    def cost(self) -> float:
        return self.cycles

    def decisions(self) -> dict[str, int | str]:
        return {}

    def emit(self, function: Any) -> Any:
        return function


def test_the_cheapest_plan_wins_and_the_first_of_equal_ones() -> None:
    a, b, c = NamedPlan("a", 20.0), NamedPlan("b", 10.0), NamedPlan("c", 10.0)
    choice = cheapest([a, None, b, c])
    assert choice is not None
    assert choice.plan is b
    assert str(choice) == "b (10 cycles; a 20; c 10)"
    assert cheapest([None]) is None


def strip(extent: int, lanes: int, tail: Tail, *, dynamic: bool, times: int = 1) -> list[str]:
    """What is wrong with a row that a strip stores; it stores the first ``times`` n-th part."""
    size: Any = tirx.Var("n", "int64") if dynamic else extent
    row = tirx.decl_buffer((size,), "float32", "row")
    one = tirx.const(1.0, "float32")
    count = size // times if times > 1 else size

    def store(index: Any) -> Any:
        return tirx.BufferStore(row, one, [index])

    body = emit.strip(count, lanes, store, vectors=4, tail=tail)
    return verify_plan(opaque_function("f", [row], [row], [], body), [[extent]], MACHINE)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("tail", [Tail.NARROWER, Tail.OVERLAP])
def test_tails_store_every_element(tail: Tail, dynamic: bool) -> None:
    for extent in (*range(1, 36), 63, 64, 65, 127, 129, 191):
        for lanes in (1, 4, 16):
            assert strip(extent, lanes, tail, dynamic=dynamic) == [], (extent, lanes)


@pytest.mark.parametrize("tail", [Tail.NARROWER, Tail.OVERLAP])
def test_a_dynamic_row_of_pairs_of_vectors_is_one_loop_over_them(tail: Tail) -> None:
    n = tirx.Var("n", "int64")
    row = tirx.decl_buffer((n * 32,), "float32", "row")
    one = tirx.const(1.0, "float32")
    loop = emit.strip(n * 32, 16, lambda i: tirx.BufferStore(row, one, [i]), tail=tail)
    assert isinstance(loop, tirx.For)
    assert isinstance(loop.body, tirx.For)
    assert loop.body.kind == tirx.ForKind.VECTORIZED
    assert int(loop.body.extent) == 32


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_guarded_tail_has_the_elements_that_are_left(dynamic: bool) -> None:
    for extent in (0, 1, 7, 8, 9, 31, 32):
        size: Any = tirx.Var("n", "int64") if dynamic else extent
        row = tirx.decl_buffer((size,), "float32", "row")

        def tile(start: Any, length: Any, row: Any = row) -> Any:
            def store(i: Any) -> Any:
                return tirx.BufferStore(row, tirx.const(1.0, "float32"), [start + i])

            return emit.loop(length, store)

        body = emit.split(size, 8, tile, Tail.GUARD) if extent or dynamic else None
        if body is not None:
            function = opaque_function("f", [row], [row], [], body)
            assert verify_plan(function, [[extent]], MACHINE) == []


def test_elements_that_are_not_stored_are_found() -> None:
    found = strip(20, 4, Tail.NARROWER, dynamic=True, times=2)
    assert found == ["element 10 of 'row' is written 0 times"]


def test_sums_write_an_element_as_often_as_before_they_were_scheduled() -> None:
    row = tirx.decl_buffer((3,), "float32", "row")

    def added(terms: int) -> Any:
        store = tirx.BufferStore  # The sum is kept in the result, term by term.
        one = tirx.const(1.0, "float32")
        body = emit.loop(3, lambda i: emit.loop(terms, lambda _: store(row, row[i] + one, [i])))
        return opaque_function("f", [row], [row], [], body)

    assert verify_plan(added(5), [[3]], MACHINE, added(5)) == []
    for source in (None, added(1)):
        found = verify_plan(added(5), [[3]], MACHINE, source)
        assert found == ["element 0 of 'row' is written 5 times"]


def test_what_the_machine_does_not_have_is_found() -> None:
    row = tirx.decl_buffer((1 << 20,), "float32", "row")
    local = tirx.decl_buffer((1 << 20,), "float32", "held", scope="local")
    store = emit.vector(
        tirx.const(0, "int64"), 1 << 20, lambda i: tirx.BufferStore(row, tirx.const(1.0), [i])
    )
    body = emit.sequence([tirx.AllocBuffer(local), store])
    problems = verify_plan(opaque_function("f", [row], [row], [], body), [[1 << 20]], MACHINE)
    assert any("more than all registers have" in each for each in problems)
    assert any("'held' takes 4194304 bytes of the stack" in each for each in problems)


def interleaved(x: Any) -> Any:
    """What a transposed convolution with stride 2 makes of its phases, channels first."""
    _, height, width, channels = x.shape
    shape = (1, channels // 4, height * 2, width * 2)
    count = channels // 4
    return te.compute(
        shape, lambda n, c, i, j: x[n, i // 2, j // 2, i % 2 * 2 * count + j % 2 * count + c]
    )


def upsampled(x: Any) -> Any:
    n, c, h, w = x.shape
    return te.compute((n, c, h, w * 3), lambda n, c, i, j: x[n, c, i, j // 3])


def narrow_channels_last(x: Any) -> Any:
    n, c, h, w = x.shape
    return te.compute((n, h, w, c), lambda n, i, j, c: x[n, c, i, j])


def padded(x: Any) -> Any:
    n, c, h, w = x.shape
    return te.compute(
        (n, c, h, w + 2),
        lambda n, c, i, j: tirx.if_then_else(
            tirx.all(j >= 1, j < w + 1), x[n, c, i, j - 1], tirx.const(0.0, "float32")
        ),
    )


def expected_interleaved(x: np.ndarray) -> np.ndarray:
    _, h, w, c = x.shape
    return x.reshape(h, w, 2, 2, c // 4).transpose(4, 0, 2, 1, 3).reshape(1, c // 4, 2 * h, 2 * w)


CASES = {
    "interleaved phases": (interleaved, (1, "h", "w", 64), expected_interleaved, "blocks"),
    "upsampled": (upsampled, (1, 2, "h", "w"), lambda x: np.repeat(x, 3, -1), "interleaved"),
    "three channels": (
        *(narrow_channels_last, (1, 3, "h", "w")),
        *(lambda x: np.moveaxis(x, 1, 3), "interleaved"),
    ),
    "padded": (padded, (1, 2, "h", "w"), lambda x: np.pad(x, [(0, 0)] * 3 + [(1, 1)]), "rows"),
}


def module(function: Any, shape: Any, sizes: dict[str, int] | None) -> Any:
    """A module with one kernel; its named dimensions are dynamic if ``sizes`` are not given."""
    names = {n: tirx.Var(n, "int64") for n in shape if isinstance(n, str)}
    dims = [(sizes[n] if sizes else names[n]) if isinstance(n, str) else n for n in shape]
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(dims, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(function, x))
        builder.emit_func_output(output)
    return builder.get()


@pytest.mark.parametrize("name", CASES)
def test_dynamic_dimensions_get_the_plan_of_static_ones(name: str) -> None:
    function, shape, _, form = CASES[name]
    for sizes in ({"h": 20, "w": 36}, None):
        mod = run_phases(module(function, shape, sizes), TARGET, "graph", "schedule")
        (kernel,) = schedules.report(mod)
        assert kernel.strategy == "cpu.elementwise"
        assert form in kernel.plan


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_alternative_of_a_plan_computes_the_same(name: str) -> None:
    function, shape, expected, _ = CASES[name]
    mod = run_phases(module(function, shape, None), TARGET, "graph", "fuse")
    (kernel,) = prim_functions(mod).values()
    scheduled, choice = strategies.apply(kernel, TARGET)
    others = choice.alternatives()
    assert others
    for number, each in enumerate([scheduled, *others]):
        code = compile_kernel(each, TARGET)
        for h, w in ((1, 1), (3, 21), (17, 40)):
            x = np.random.default_rng(0).standard_normal(
                [{"h": h, "w": w}.get(n, n) for n in shape]
            ).astype("float32")  # fmt: skip
            wanted = expected(x)
            found = runtime_tensor(np.zeros_like(wanted))
            code(runtime_tensor(x), found)
            np.testing.assert_array_equal(found.numpy(), wanted, err_msg=f"plan {number}")
            assert verify_plan(each, [x.shape, wanted.shape], MACHINE) == []


def test_a_changed_index_is_found_by_its_stores() -> None:
    mod = run_phases(module(upsampled, (1, 2, "h", "w"), None), TARGET, "graph", "schedule")
    (kernel,) = prim_functions(mod).values()
    shapes = [[1, 2, 3, 21], [1, 2, 3, 63]]
    assert verify_plan(kernel, shapes, MACHINE) == []

    def shorter(loop: Any) -> Any:
        if loop.kind != tirx.ForKind.SERIAL:
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent - 1, loop.kind, loop.body)

    wrong = kernel.with_body(tvm_ffi.structural_map(kernel.body, (tirx.For, shorter)))
    assert "is written 0 times" in verify_plan(wrong, shapes, MACHINE)[0]


def test_dimensions_of_one_need_no_remainders() -> None:
    number, n = tirx.Var("number", "int64"), tirx.Var("n", "int64")
    zero = tirx.const(0, "int64")
    for found, expected in zip(
        emit.decoded(number, [1, n, 1], "int64"), [zero, number, zero], strict=True
    ):
        assert tvm_ffi.structural_equal(found, expected)
