"""A small module with one kernel, and strategies that leave it much to gain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tvm import relax, te

import tvm_nnef.schedules as schedules
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.plan.plan import Choice, Plan

EXTENT = 96


def distances(x: Any, w: Any) -> Any:
    """The sum over k of ``abs(x[i, k] - w[k, j])``, in an order that vectors like little."""
    k = te.reduce_axis((0, EXTENT), name="k")
    return te.compute(
        (EXTENT, EXTENT), lambda i, j: te.sum(te.abs(x[i, k] - w[k, j]), axis=k), name="distances"
    )


def module() -> Any:
    """A main with one kernel."""
    builder = relax.BlockBuilder()
    kind = relax.TensorType((EXTENT, EXTENT), "float32")
    inputs = [relax.Var("x", kind), relax.Var("w", kind)]
    with builder.function("main", inputs, attrs={"num_input": 2}):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(distances, *inputs))
        builder.emit_func_output(output)
    return builder.get()


class LazyPlan(Plan):
    """The function as it is; its alternative is the ``better`` one, if there is one."""

    strategy = "lazy"
    cost = 0.0

    def __init__(self, function: Any, better: Any = None) -> None:
        self.function, self.better = function, better

    def decisions(self) -> dict[str, int | str]:
        return {}

    def emit(self, function: Any) -> Any:
        return self.function

    def alternatives(self) -> Any:
        if self.better is not None:
            yield LazyPlan(self.better)


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``module``, the native target, and ``slow``, which takes the good strategies away.

    With ``better`` they are an alternative of the plan.
    """
    right = schedules._STRATEGIES["llvm"]

    def slow(*, better: bool = False) -> None:
        def lazy(function: Any, target: Any) -> schedules.Scheduled:
            plan = LazyPlan(function, right(function, target)[0] if better else None)
            return function, Choice(plan, "for tests", lambda other: other.emit(function))

        monkeypatch.setattr(schedules, "_STRATEGIES", {"llvm": lazy})

    return SimpleNamespace(module=module, target=resolve("native"), slow=slow)
