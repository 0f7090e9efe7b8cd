"""The backend test suite of ONNX: converted, printed, read back, composed, run, compared.

Converting prints the model and reads it back; what is evaluated and built here comes from text.
The quick run takes a part of the cases on the evaluator, the slow one all of them there and a part
of them, with every operator of the suite, compiled; with ``TVM_NNEF_SUITE=whole`` in the
environment all of them are. The cases that fail are listed in ``expected_failures.txt``, those
that fail compiled in ``expected_failures_compiled.txt``: one more is a failure of this test, and
one less as well, until it is taken off the list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

import tvm_nnef

LEAST = 1764
"""The cases that must pass, on the evaluator and compiled; the number may only grow."""
PART = 25
WHOLE = os.environ.get("TVM_NNEF_SUITE") == "whole"


def _evaluated(model: Any) -> Callable[..., Any]:
    graph = tvm_nnef.compose(model)
    return lambda *inputs: tvm_nnef.evaluate(graph, *inputs, variables=model.variables)


def _built(model: Any) -> Callable[..., Any]:
    return tvm_nnef.build(model, progress=False)


def _outcomes(cases: Iterable[Any], make: Callable[[Any], Callable[..., Any]]) -> dict[str, str]:
    """What went wrong, by case; empty for those that pass."""
    found = {}
    for case in cases:
        try:
            run = make(tvm_nnef.convert(case.model))
            for inputs, outputs in case.feeds():
                case.check(run(*inputs), outputs)
            found[case.name] = ""
        except Exception as problem:  # whatever it is, it is this case's result
            found[case.name] = f"{type(problem).__name__}: {problem}"[:300]
    return found


def _judge(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    failed = {name: why for name, why in found.items() if why and name not in expected}
    mended = [name for name in expected if found.get(name) == ""]
    text = "\n".join(f"{name}: {why}" for name, why in failed.items())
    assert not failed, f"{len(failed)} cases fail that must pass:\n{text}"
    assert not mended, f"take off the list, for they pass: {', '.join(mended)}"


def _every(step: int, cases: Iterable[Any]) -> Iterator[Any]:
    """One in so many cases, and those that are the first with an operator."""
    seen: set[str] = set()
    for number, case in enumerate(cases):
        operators = case.operators()
        if number % step == 0 or not operators <= seen:
            yield case
        seen |= operators


def test_the_lists_name_cases_of_the_suite(
    suite: Any, expected_failures: Any, expected_compiled: Any
) -> None:
    for expected in (expected_failures, expected_compiled):
        assert set(expected) <= set(suite)
        assert len(suite) - len(expected) >= LEAST


def test_a_part_of_the_suite_on_the_evaluator(suite: Any, expected_failures: Any) -> None:
    part = [case for name, case in list(suite.items())[::PART] if not name.startswith("light_")]
    _judge(_outcomes(part, _evaluated), expected_failures)


@pytest.mark.slow
def test_the_suite_on_the_evaluator(suite: Any, expected_failures: Any) -> None:
    cases = [case for name, case in suite.items() if not name.startswith("light_")]
    _judge(_outcomes(cases, _evaluated), expected_failures)


@pytest.mark.slow
def test_the_suite_compiled(suite: Any, expected_compiled: Any) -> None:
    cases = [case for name, case in suite.items() if not name.startswith("light_")]
    part = list(_every(1 if WHOLE else PART // 2, cases))
    names = {case.name for case in part}
    expected = {name: why for name, why in expected_compiled.items() if name in names}
    _judge(_outcomes(part, _built), expected)


@pytest.mark.slow
def test_light_models_compiled(suite: Any, expected_failures: Any) -> None:
    cases = [case for name, case in suite.items() if name.startswith("light_")]
    _judge(_outcomes(cases, _built), expected_failures)
