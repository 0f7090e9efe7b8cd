"""Builds that check themselves: kernels against their unscheduled TIR, and indices in bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.cli import main
from tvm_nnef.compilation.verify import KernelError, difference_of
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.tvm_support.compat import runtime_tensor

SUM = """
import math;
graph G {
    @input { x: real[2,n|9]; y: real[2,n]; }
    @output { z: real[~,~]; }
    @compose { z = math.add(x, y); }
}
"""
GATHER = """
import layout;
graph G {
    @input { x: real[4,3]; i: int[2]; }
    @output { y: real[2,3]; }
    @compose { y = layout.gather{axis=0}(x, i); }
}
"""
SCATTER = """
import layout;
graph G {
    @input { x: real[4]; i: int[2]; u: real[2]; }
    @output { y: real[4]; }
    @compose { y = layout.scatter{axis=0}(x, i, u); }
}
"""
FORMULA = """
operator pick {
    @input { x: real[n]; i: int[m]; }
    @output { y: real[m]; }
    @lower { y[j,] = i[j,] < n ? x[i[j,],] : -1.0, j < m; }
}
graph G {
    @input { x: real[4]; i: int[2]; }
    @output { y: real[2]; }
    @compose { y = pick(x, i); }
}
"""
LONG = """
import layout;
graph G {
    @input { x: real[n|300000]; i: int[m|300000]; }
    @output { y: real[~]; }
    @compose { y = layout.gather{axis=0}(x, i); }
}
"""


def _difference_for_sum(body: Any) -> Any:
    return tvm_ffi.structural_map(
        body, (tirx.Add, lambda e: e.a - e.b if "float" in str(e.ty) else e), order="post"
    )


def _next_elements(body: Any) -> Any:
    def load(found: Any) -> Any:
        return found.source[(*found.indices[:-1], found.indices[-1] + 1)]

    return tvm_ffi.structural_map(body, (TensorLoad, load), order="post")


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], Any]], None]:
    """Makes all schedules change what a kernel computes."""

    def install(change: Callable[[Any], Any]) -> None:
        right = schedules._STRATEGIES["llvm"]

        def apply(function: Any, target: Any) -> schedules.Scheduled:
            scheduled, choice = right(function, target)
            return scheduled.with_body(change(scheduled.body)), choice

        monkeypatch.setattr(schedules, "_STRATEGIES", {"llvm": apply})

    return install


def test_right_schedules_pass_and_compute_the_same() -> None:
    x, y = np.arange(20, dtype="float32").reshape(2, 2, 5)
    (z,) = tvm_nnef.build(SUM, verify=True, progress=False)(x, y)
    np.testing.assert_array_equal(z, x + y)


def test_a_wrong_schedule_is_reported_with_kernel_strategy_difference_and_index(wrong: Any) -> None:
    wrong(_difference_for_sum)
    tvm_nnef.build(SUM, progress=False)
    with pytest.raises(KernelError) as caught:
        tvm_nnef.build(SUM, verify=True, progress=False)
    text = str(caught.value)
    assert "schedule 'cpu.elementwise' of kernel 'add'" in text
    assert "differs by up to" in text
    assert "first at index [0, 0]" in text


def test_a_schedule_that_reads_out_of_bounds_is_reported(wrong: Any) -> None:
    wrong(_next_elements)
    with pytest.raises(KernelError, match="uses an index outside of 'x'"):
        tvm_nnef.build(SUM, verify=True, progress=False)


@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize(
    ("text", "inputs", "clamped"),
    [
        (GATHER, [np.arange(12, dtype="float32").reshape(4, 3)], [[9, 10, 11], [0, 1, 2]]),
        (SCATTER, [np.arange(4, dtype="float32")], [0, 1, 2, 3]),
        (FORMULA, [np.arange(4, dtype="float32")], [-1, 0]),
    ],
)
def test_an_index_from_data_is_clamped_or_an_error_if_checked(
    route: Any, text: str, inputs: Any, clamped: Any
) -> None:
    more = [np.array([50, 60], "float32")] if text is SCATTER else []
    plain = tvm_nnef.build(text, route=route, progress=False)
    checked = tvm_nnef.build(text, route=route, checked=True, progress=False)
    good = [*inputs, np.array([3, 0], "int32"), *more]
    for found in (plain(*good), checked(*good)):
        np.testing.assert_array_equal(found[0], tvm_nnef.evaluate(text, *good)[0])
    bad = [*inputs, np.array([4, -1], "int32"), *more]
    np.testing.assert_array_equal(plain(*bad)[0], clamped)
    with pytest.raises(NnefError, match="uses an index outside of"):
        checked(*bad)
    with pytest.raises(NnefError, match="out of bounds"):
        tvm_nnef.evaluate(text, *bad)


def test_a_check_that_fails_in_any_part_of_a_parallel_loop_is_an_error() -> None:
    x, i = np.arange(300000, dtype="float32"), np.zeros(300000, "int32")
    checked = tvm_nnef.build(LONG, checked=True, progress=False, threads=2)
    np.testing.assert_array_equal(checked(x, i)[0], np.zeros(300000))
    for position in (0, 150010, 299990):
        wrong = i.copy()
        wrong[position] = 300000
        with pytest.raises(NnefError, match="outside of 'x'"):
            checked(x, wrong)


def test_the_command_line_runs_with_checks(tmp_path: Path, capsys: Any) -> None:
    model, inputs = tmp_path / "gather.sknd", tmp_path / "inputs.npz"
    model.write_text(GATHER, encoding="utf-8")
    np.savez(inputs, x=np.zeros((4, 3), "float32"), i=np.array([0, 7], "int32"))
    assert main(["run", str(model), "--input", str(inputs)]) == 0
    assert main(["run", str(model), "--input", str(inputs), "--checked"]) == 1
    assert "outside of 'x'" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_kernels_on_narrow_reals_are_compared(wrong: Any, dtype: str) -> None:
    types = {"x": dtype, "y": dtype}
    tvm_nnef.build(SUM, dtypes=types, verify=True, progress=False)
    wrong(_difference_for_sum)
    with pytest.raises(KernelError, match="differs by up to"):
        tvm_nnef.build(SUM, dtypes=types, verify=True, progress=False)


def test_a_sum_of_nothing_is_not_a_defect() -> None:
    text = """import math, nn;
    graph G { @input { x: real[1, 1, 2, n|9]; } @output { z: real[1, 1, 2, 1]; } @compose {
        w = nn.max_pool{axes=[2, 3], size=[1, 2], padding=[0, 0, 0, 0]}(x);
        z = math.sum_reduce{axes=[3]}(w); } }"""
    tvm_nnef.build(text, route="formula", progress=False, verify=True)


@pytest.mark.parametrize(("found", "differs"), [(9e-9, False), (1e-6, True)])
def test_one_rounding_of_a_product_is_not_a_difference(found: float, differs: bool) -> None:
    """``a * b - c * d`` is 0 if both products are rounded, and not if one of them is not."""
    x = tirx.decl_buffer((1,), "float32", "x")
    function = tirx.PrimFunc([x], tirx.Evaluate(0))
    one, other = (runtime_tensor(np.array([v], "float32")) for v in (found, 0.0))
    assert (difference_of(one, other, function, 1.0) is not None) is differs
