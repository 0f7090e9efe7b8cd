"""What the tests of schedules share: small Relax modules, built with and without schedules."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.executable.devices import virtual_machine
from tvm_nnef.tvm_support.compat import runtime_tensor


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


def functions(kernels: Mapping[str, tuple[Any, Any]]) -> Any:
    """A module with a function for each name: what builds it from inputs, and their types.

    A type is a shape, of float32, or a pair of a shape and a dtype.
    """
    builder = relax.BlockBuilder()
    for name, (build, types) in kernels.items():
        inputs = [relax.Var(f"x{n}", tensor(each)) for n, each in enumerate(types)]
        with builder.function(name, inputs):
            with builder.dataflow():
                made = build(*inputs)
                fields = made if isinstance(made, list) else [made]
                output = builder.emit_output(relax.Tuple([builder.emit(each) for each in fields]))
            builder.emit_func_output(output)
    return builder.get()


def tensor(kind: Any) -> Any:
    """The type of a tensor of a shape, and of a dtype where one is given."""
    shape, dtype = kind if len(kind) == 2 and isinstance(kind[1], str) else (kind, "float32")
    return relax.TensorType(shape, dtype)


def random(kind: Any, seed: int = 0) -> np.ndarray:
    """An array of a type: normally distributed, small whole numbers, or true and false."""
    kind = tensor(kind)
    shape, dtype = [int(extent) for extent in kind.shape.values], str(kind.dtype)
    generator = np.random.default_rng(seed)
    if "float" in dtype:
        return generator.standard_normal(shape).astype(dtype)
    if dtype == "bool":
        return generator.random(shape) < 0.5
    return generator.integers(0 if dtype[0] == "u" else -99, 100, shape).astype(dtype)


def fused(mod: Any, target: Any = "native") -> Any:
    """The module with its kernels as the strategies get them."""
    resolved = resolve(target)
    return run_phases(mod, resolved, "graph", "fuse")


def strategies_by_function(mod: Any) -> dict[str, set[str]]:
    """The strategies that took the kernels which each Relax function calls."""
    taken = {kernel.name: kernel.strategy for kernel in schedules.report(mod)}
    found: dict[str, set[str]] = {}
    for variable, function in mod.functions.items():
        if isinstance(function, relax.Function):
            names: set[str] = set()

            def visit(node: Any, names: set[str] = names) -> None:
                names |= {node.name_hint} if isinstance(node, relax.GlobalVar) else set()

            relax.analysis.post_order_visit(function, visit)
            found[variable.name_hint] = {taken[name] for name in names if name in taken}
    return found


def values(*shapes: Any, seed: int = 0) -> list[np.ndarray]:
    """Normally distributed arrays of the shapes."""
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype("float32") for shape in shapes]


def scheduled(mod: Any, target: Any = "native") -> Any:
    """The module after all schedules."""
    return run_phases(mod, resolve(target), "graph", "schedule")


def machine(mod: Any, target: Any = "native") -> Any:
    """The functions of a scheduled module."""
    resolved = resolve(target)
    library = run_phases(mod, resolved, "bytecode", "code")
    return virtual_machine(library)


def compiled(mod: Any, target: Any = "native") -> Any:
    """The main function of a scheduled module."""
    return machine(mod, target)["main"]


def run(mod: Any, arrays: Any, target: Any = "native") -> np.ndarray:
    """What a scheduled module computes."""
    return compiled(mod, target)(*map(runtime_tensor, arrays)).numpy()


def plain_machine(mod: Any) -> Any:
    """The functions of a module that TVM compiles with nothing of ours.

    They run a few times: that LLVM makes them fast, and that they check their arguments, would
    cost more.
    """
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        library = relax.build(mod, tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    return virtual_machine(library)


def unscheduled(mod: Any) -> Any:
    """The main function of a module that TVM compiles with nothing of ours."""
    return plain_machine(mod)["main"]


def plain(mod: Any, arrays: Any) -> np.ndarray:
    """What TVM computes with nothing of ours."""
    return unscheduled(mod)(*map(runtime_tensor, arrays)).numpy()


def outcomes(machine: Any, arrays: Mapping[str, Any]) -> dict[str, list[np.ndarray]]:
    """What the functions of a machine give for their inputs, as lists."""
    return {
        name: [found.numpy() for found in machine[name](*map(runtime_tensor, given))]
        for name, given in arrays.items()
    }


def compare(references: Any, machine: Any, kernels: Mapping[str, tuple[Any, Any]]) -> None:
    """Compares what the functions of a machine compute with what TVM makes of other modules."""
    arrays = {
        name: [random(kind, n) for n, kind in enumerate(types)]
        for name, (_, types) in kernels.items()
    }
    found = outcomes(machine, arrays)
    for reference in references:
        for name, results in outcomes(plain_machine(reference), arrays).items():
            for one, other in zip(found[name], results, strict=True):
                assert one.shape == other.shape
                scale = max(1.0, float(np.abs(other.astype("float64")).max(initial=0)))
                np.testing.assert_allclose(one, other, 2e-5, 2e-5 * scale, err_msg=name)


def strategies(mod: Any) -> set[str | None]:
    """The strategies that took the kernels of a module."""
    return {kernel.strategy for kernel in schedules.report(mod)}


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
        plain=plain, strategies=strategies, compiled=compiled, unscheduled=unscheduled,
        agrees=agrees, functions=functions, random=random, fused=fused,
        strategies_by_function=strategies_by_function, machine=machine, compare=compare,
        resolved=resolve,
    )  # fmt: skip
