"""What the tests of schedules share: small Relax modules, built with and without schedules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_nnef import schedules
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tvm_build import compile_virtual_machine, virtual_machine
from tvm_nnef.tvm_compat import runtime_tensor


def module(build: Any, *shapes: Any, dtype: str = "float32") -> Any:
    """A module whose main applies ``build`` to inputs of the shapes."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{n}", relax.TensorType(s, dtype)) for n, s in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(build(*inputs))
        builder.emit_func_output(output)
    return builder.get()


def formula(function: Any, *shapes: Any, dtype: str = "float32") -> Any:
    """A module whose main calls the kernel of a tensor expression of inputs of the shapes."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{n}", relax.TensorType(s, dtype)) for n, s in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(function, *inputs))
        builder.emit_func_output(output)
    return builder.get()


def values(*shapes: Any, seed: int = 0) -> list[np.ndarray]:
    """Normally distributed arrays of the shapes."""
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype("float32") for shape in shapes]


def scheduled(mod: Any, target: Any = "native") -> Any:
    """The module after all schedules."""
    return schedules.schedule(mod, resolve(target))


def compiled(mod: Any, target: Any = "native") -> Any:
    """The main function of a scheduled module."""
    resolved = resolve(target)
    library = compile_virtual_machine(mod, resolved, schedules.lowered_functions(resolved))
    return virtual_machine(library)["main"]


def run(mod: Any, arrays: Any, target: Any = "native") -> np.ndarray:
    """What a scheduled module computes."""
    return compiled(mod, target)(*map(runtime_tensor, arrays)).numpy()


def unscheduled(mod: Any) -> Any:
    """The main function of a module that TVM compiles with nothing of ours.

    It runs a few times: that LLVM makes it fast, and that it checks its arguments, would cost more.
    """
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        library = relax.build(mod, tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    return virtual_machine(library)["main"]


def plain(mod: Any, arrays: Any) -> np.ndarray:
    """What TVM computes with nothing of ours."""
    return unscheduled(mod)(*map(runtime_tensor, arrays)).numpy()


def rules(mod: Any) -> set[str | None]:
    """The rules that took the kernels of a module."""
    return {kernel.rule for kernel in schedules.report(mod)}


def agrees(build: Any, *shapes: Any, target: Any = "native", tolerance: float = 1e-5) -> Any:
    """The scheduled module, after it was found to compute what TVM computes by itself."""
    arrays = values(*shapes)
    made = scheduled(module(build, *shapes), target)
    expected = plain(module(build, *shapes), arrays)
    found = run(made, arrays, target)
    assert found.shape == expected.shape
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)
    return made


@pytest.fixture
def kernels() -> SimpleNamespace:
    """The helpers of this file."""
    return SimpleNamespace(
        module=module, formula=formula, values=values, scheduled=scheduled, run=run,
        plain=plain, rules=rules, compiled=compiled, unscheduled=unscheduled, agrees=agrees,
    )  # fmt: skip
