"""The backend test suite of ONNX: converted, printed, read back, composed, run, compared.

Converting prints the model and reads it back; what is evaluated and built here comes from text.
The slow run takes all of them on three routes,
the evaluator, and compiled from the mappings and from the formulas, and on a simulated GPU. Cases
that fail are listed in ``expected_failures.txt``, those that fail only when compiled in
``expected_failures_compiled.txt``; a case that fails and is not listed fails this test, and so does
a listed case that passes. With a GPU the quick run takes one case in 25 there, the slow run all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")

LEAST = 1932
"""The cases that must pass on all routes; the number may only grow."""
STEP = 25
PARTS = 48
"""The slow run is this many tests, so that it can be spread over processes."""


@pytest.fixture
def unexpected(onnx_suite: Any) -> Callable[..., list[str]]:
    """Returns a line for each case that fails unexpectedly, or passes although it is listed.

    Gets the cases, and by the names of routes those that are expected to fail.
    """

    def lines(cases: Iterable[Any], routes: Mapping[str, Mapping[str, str]]) -> list[str]:
        found = []
        for case in cases:
            convert = cache(partial(tvm_nnef.convert, case.model))
            for route, expected in routes.items():
                run = onnx_suite.ROUTES[route]
                outcome = onnx_suite.outcome(case, lambda: run(convert()))  # noqa: B023
                found += _unexpected(case.name, route, outcome, expected)
        return found

    return lines


def _unexpected(name: str, route: str, outcome: str, expected: Mapping[str, str]) -> list[str]:
    """A line if a case has another outcome than it is expected to have."""
    if bool(outcome) == (name in expected):
        return []
    return [f"{route}: {name}: {outcome or 'passes, so take it off the list'}"]


@pytest.mark.slow
@pytest.mark.rotated(1)
def test_the_lists_name_cases_of_the_suite(
    suite: Any, expected_failures: Any, expected_compiled: Any
) -> None:
    for expected in (expected_failures, expected_compiled):
        assert set(expected) <= set(suite)
        assert len(suite) - len(expected) >= LEAST


@pytest.mark.slow
@pytest.mark.rotated(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_suite_on_three_routes(
    part: int, suite: Any, expected_failures: Any, expected_compiled: Any, unexpected: Any
) -> None:
    cases = [case for name, case in suite.items() if not name.startswith("light_")][part::PARTS]
    compiled = {**expected_failures, **expected_compiled}
    routes = {"reference": expected_failures, "mapped": compiled, "formula": compiled}
    lines = unexpected(cases, routes)
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_suite_on_a_simulated_gpu(
    part: int,
    suite: Any,
    expected_failures: Any,
    expected_compiled: Any,
    simulated_gpu: Any,
    unexpected: Any,
) -> None:
    simulated_gpu(reverse=part % 2 == 1)
    cases = [case for name, case in suite.items() if not name.startswith("light_")][part::PARTS]
    lines = unexpected(cases, {"mapped": {**expected_failures, **expected_compiled}})
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_operators_of_constants(
    part: int, suite: Any, expected_failures: Any, unexpected: Any
) -> None:
    """They are computed in converting, or not, with the same results."""
    single = [case for case in suite.values() if len(case.model.graph.node) == 1]
    cases = [_with_constants(case) for case in single if case.name not in expected_failures]
    lines = unexpected(cases[part::4], {"reference": {}})
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


@pytest.fixture(scope="module")
def worker(onnx_suite: Any) -> Iterator[Any]:
    """A process that runs cases on a GPU, as one may end it."""
    made = onnx_suite.worker("cuda")
    yield made
    made.close()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(0, id="sample"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, STEP)),
    ],
)
def test_the_suite_on_a_gpu(
    part: int, suite: Any, expected_failures: Any, expected_compiled: Any, worker: Any
) -> None:
    names, expected = [*suite][part::STEP], {**expected_failures, **expected_compiled}
    lines = [
        line
        for name in names
        if not name.startswith("light_")
        for line in _unexpected(name, "cuda", worker.outcome(name), expected)
    ]
    assert not lines, "\n".join(lines)


@pytest.mark.slow
def test_light_models_compiled(suite: Any, expected_failures: Any, unexpected: Any) -> None:
    """As they are shipped; ``test_light_models`` has others with random weights."""
    cases = [suite[f"light_{name}"] for name in ("shufflenet", "squeezenet")]
    lines = unexpected(cases, {"mapped": expected_failures})
    assert not lines, "\n".join(lines)
