"""The backend test suite of ONNX: converted, printed, read back, composed, run, compared.

Converting prints the model and reads it back; what is evaluated and built here comes from text.
The quick run takes a part of the cases on the evaluator, the slow one all of them, on the
evaluator and compiled. The cases that fail are listed in ``expected_failures.txt``: one more is
a failure of this test, and one less as well, until it is taken off the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

import tvm_nnef

LEAST = 1737
"""The cases that must pass; the number may only grow."""
PART = 25


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


def test_the_list_names_cases_of_the_suite(suite: Any, expected_failures: Any) -> None:
    assert set(expected_failures) <= set(suite)
    assert len(suite) - len(expected_failures) >= LEAST


def test_a_part_of_the_suite_on_the_evaluator(suite: Any, expected_failures: Any) -> None:
    part = [case for name, case in list(suite.items())[::PART] if not name.startswith("light_")]
    _judge(_outcomes(part, _evaluated), expected_failures)


@pytest.mark.slow
def test_the_suite_on_the_evaluator(suite: Any, expected_failures: Any) -> None:
    cases = [case for name, case in suite.items() if not name.startswith("light_")]
    _judge(_outcomes(cases, _evaluated), expected_failures)


@pytest.mark.slow
def test_a_part_of_the_suite_compiled(suite: Any, expected_compiled: Any) -> None:
    items = [(name, case) for name, case in suite.items() if not name.startswith("light_")]
    part = [case for name, case in items[:: PART // 2] if name not in expected_compiled]
    _judge(_outcomes(part, _built), {})


@pytest.mark.slow
def test_light_models_compiled(suite: Any, expected_failures: Any) -> None:
    cases = [case for name, case in suite.items() if name.startswith("light_")]
    _judge(_outcomes(cases, _built), expected_failures)
