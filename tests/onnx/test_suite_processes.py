"""The script that runs the suite in processes: a case that ends one is named, the others go on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

PROGRAM = """
import os, sys, time
for number, line in enumerate(sys.stdin):
    match line.strip():
        case "aborts":
            print("terminate called", file=sys.stderr, flush=True)
            os.abort()
        case "exits":
            raise SystemExit(3)
        case "hangs":
            time.sleep(60)
        case "breaks":
            answer = '["the GPU is broken", false]'
        case _:
            answer = f'["", true]' if number == int(line) else '["another process", true]'
    print(answer, flush=True)
"""


@pytest.fixture
def worker(onnx_suite: Any) -> Iterator[Any]:
    made = onnx_suite.Worker([sys.executable, "-c", PROGRAM], 5)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("aborts", "ended the process with SIGABRT: terminate called"),
        ("exits", "ended the process with status 3: "),
        ("breaks", "the GPU is broken"),
    ],
)
def test_a_case_that_ends_its_process_is_named(name: str, outcome: str, worker: Any) -> None:
    """The next case has another process, in which it is the first one."""
    assert [worker.outcome("0"), worker.outcome("1")] == ["", ""]
    assert worker.outcome(name) == outcome
    assert [worker.outcome("0"), worker.outcome("1")] == ["", ""]


def test_a_case_that_takes_too_long(onnx_suite: Any) -> None:
    made = onnx_suite.Worker([sys.executable, "-c", PROGRAM], 0.3)
    assert made.outcome("hangs") == "takes more than 0 seconds"
    made.close()


@pytest.mark.slow
def test_the_script_runs_cases_on_a_route(onnx_suite: Any) -> None:
    command = [sys.executable, onnx_suite.__file__, "mapped", "--processes", "1"]
    done = subprocess.run(
        [*command, "--cases", "test_tril_zero"],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("1 cases on the route mapped, 0 failed")
