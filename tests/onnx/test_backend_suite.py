"""The backend test suite of ONNX: converted, printed, read back, composed, run, compared.

Converting prints the model and reads it back; what is evaluated and built here comes from text.
The quick run takes one case in 25 on the evaluator. The slow run takes all of them on three routes:
the evaluator, and compiled from the mappings and from the formulas. Cases that fail are listed in
``expected_failures.txt``, those that fail only when compiled in ``expected_failures_compiled.txt``;
a case that fails and is not listed fails this test, and so does a listed case that passes. With
a GPU the quick run takes one case in 25 there, the slow run all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")

LEAST = 1768
"""The cases that must pass on all routes; the number may only grow."""
STEP = 25
PARTS = 48
"""The slow run is this many tests, so that it can be spread over processes."""


def _evaluated(model: Any) -> Callable[..., Any]:
    graph = tvm_nnef.compose(model)
    return lambda *inputs: tvm_nnef.evaluate(graph, *inputs, variables=model.variables)


def _mapped(model: Any) -> Callable[..., Any]:
    return tvm_nnef.build(model, progress=False)


def _formula(model: Any) -> Callable[..., Any]:
    return tvm_nnef.build(model, progress=False, route="formula")


def _on_gpu(model: Any) -> Callable[..., Any]:
    return tvm_nnef.build(model, "cuda", progress=False)


Routes = Mapping[Callable[[Any], Callable[..., Any]], Mapping[str, str]]
"""From a converted model to a function of its inputs; for each the cases that fail."""


def _unexpected(cases: Iterable[Any], routes: Routes) -> list[str]:
    """A line for each case that fails unexpectedly, or passes although it is listed."""
    lines = []
    for case in cases:
        convert = cache(partial(tvm_nnef.convert, case.model))
        for route, expected in routes.items():
            outcome = _outcome(case, lambda: route(convert()))  # noqa: B023 It is called at once.
            if bool(outcome) != (case.name in expected):
                found = outcome or "passes, so take it off the list"
                lines.append(f"{route.__name__.strip('_')}: {case.name}: {found}")
    return lines


def _outcome(case: Any, make: Callable[[], Callable[..., Any]]) -> str:
    """What went wrong, empty if nothing did."""
    try:
        run = make()
        for inputs, outputs in case.feeds():
            case.check(run(*inputs), outputs)
    except Exception as problem:  # whatever it is, it is the outcome of this case
        return f"{type(problem).__name__}: {problem}"[:300]
    return ""


@pytest.mark.slow
@pytest.mark.every_run
def test_the_lists_name_cases_of_the_suite(
    suite: Any, expected_failures: Any, expected_compiled: Any
) -> None:
    for expected in (expected_failures, expected_compiled):
        assert set(expected) <= set(suite)
        assert len(suite) - len(expected) >= LEAST


def test_a_part_of_the_suite_on_the_evaluator(suite: Any, expected_failures: Any) -> None:
    part = [
        case for name, case in list(suite.items())[:: 2 * STEP] if not name.startswith("light_")
    ]
    lines = _unexpected(part, {_evaluated: expected_failures})
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.every_run
@pytest.mark.parametrize("part", range(PARTS))
def test_the_suite_on_three_routes(
    part: int, suite: Any, expected_failures: Any, expected_compiled: Any
) -> None:
    cases = [case for name, case in suite.items() if not name.startswith("light_")][part::PARTS]
    compiled = {**expected_failures, **expected_compiled}
    routes = {_evaluated: expected_failures, _mapped: compiled, _formula: compiled}
    lines = _unexpected(cases, routes)
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_operators_of_constants(part: int, suite: Any, expected_failures: Any) -> None:
    """They are computed in converting, or not, with the same results."""
    single = [case for case in suite.values() if len(case.model.graph.node) == 1]
    cases = [_with_constants(case) for case in single if case.name not in expected_failures]
    lines = _unexpected(cases[part::4], {_evaluated: {}})
    assert not lines, "\n".join(lines)


def _with_constants(case: Any) -> Any:
    """A case whose inputs are initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)  # Before it, initializers were inputs, too.
    initialized = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in initialized]
    arrays, _ = next(case.feeds())
    for name, array in zip(names, arrays, strict=False):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del model.graph.input[:]
    return replace(case, model=model, data=[([], case.data[0][1])])


@pytest.mark.gpu
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(0, id="sample"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, STEP)),
    ],
)
def test_the_suite_on_a_gpu(
    part: int, suite: Any, expected_failures: Any, expected_compiled: Any
) -> None:
    cases = [case for name, case in suite.items() if not name.startswith("light_")][part::STEP]
    lines = _unexpected(cases, {_on_gpu: {**expected_failures, **expected_compiled}})
    assert not lines, "\n".join(lines)


@pytest.mark.slow
def test_light_models_compiled(suite: Any, expected_failures: Any) -> None:
    """As they are shipped; ``test_light_models`` has others with random weights."""
    cases = [suite[f"light_{name}"] for name in ("shufflenet", "squeezenet")]
    lines = _unexpected(cases, {_mapped: expected_failures})
    assert not lines, "\n".join(lines)
