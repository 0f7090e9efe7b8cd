"""What is in the machine code of kernels, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.pipeline import compile_module, compile_stages
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tvm_support.build import compile_virtual_machine, virtual_machine
from tvm_nnef.tvm_support.compat import runtime_tensor

TEXT = """import math;
graph G { @input { x: real[2,3]; } @output { y: real[2,3]; } @compose { y = math.exp(x); } }
"""


def test_the_machine_checks_what_it_is_given_and_kernels_do_not() -> None:
    library = compile_module(tvm_nnef.from_nnef(TEXT), "native")
    (kernels,) = library.mod.imports
    assert "SetRaised" not in kernels.inspect_source("ll")
    main = virtual_machine(library)["main"]
    x = np.zeros((2, 3), "float32")
    (y,) = main(runtime_tensor(x))
    np.testing.assert_array_equal(y.numpy(), np.ones((2, 3)))
    for wrong in (x.T, x.astype("float64"), x[0]):
        with pytest.raises((RuntimeError, ValueError), match="param=x"):
            main(runtime_tensor(np.ascontiguousarray(wrong)))


def test_what_is_done_with_functions_is_done_in_its_own_build_only() -> None:
    target = resolve("native")
    usual = schedules.lowered_functions(target)
    assert usual is not None
    seen: list[str] = []

    def other(function):
        seen.append("other")
        return usual(function)

    def compiled(expand):
        mod = compile_stages(tvm_nnef.from_nnef(TEXT), "native", last="schedule")["schedule"]
        compile_virtual_machine(mod, target, expand)

    compiled(usual)
    compiled(other)
    assert seen
    seen.clear()
    compiled(usual)
    assert not seen
