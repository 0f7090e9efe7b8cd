"""Processes that are forked from one whose kernels ran on several threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_nnef

TEXT = """
import linalg;

graph Product {
    @input { x: real[300, 400]; f: real[400, 300]; }
    @output { y: real[300, 300]; }
    @compose { y = linalg.matmul(x, f); }
}
"""
"""A kernel that all threads share."""

FORKED = """
import multiprocessing, os, sys, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
import numpy as np
import tvm_nnef

exe = tvm_nnef.load(sys.argv[1])
x, f = np.ones((300, 400), "float32"), np.ones((400, 300), "float32")


def run(factor):
    return int(exe(x * factor, f)[0][0, 0])


def calls():
    alone = tvm_nnef.load(sys.argv[1])
    alone.threads = 1
    found = [each(x, f)[0][0, 0] for each in (exe, exe.clone(), alone) for _ in range(3)]
    assert found == [400] * 9, found


def status_of(child):
    # How a process ended that does something and then ends as any other does.
    pid = os.fork()
    if not pid:
        child()
        sys.exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


"""

PATTERNS = {
    "to measure": (
        "from tvm_nnef.tvm_support.runtime import runtime_function\n"
        "from tvm_nnef.tvm_support.threads import use_threads\n"
        "def measure():\n"
        "    use_threads(2)\n"
        "    assert runtime_function('runtime.NumThreads')() == 2\n"
        "    assert os.sched_getaffinity(0) == cores\n"
        "cores = os.sched_getaffinity(0)\ncalls()\nassert status_of(measure) == 3"
    ),
    "before the first call": "assert status_of(calls) == 3",
    "after a call": "calls()\nassert status_of(calls) == 3\ncalls()",
    "without a call": "calls()\nassert status_of(lambda: None) == 3",
    "with an exception": "calls()\nassert status_of(lambda: 1 / 0) == 1",
    "twice": "calls()\nassert status_of(lambda: sys.exit(status_of(calls) + 1)) == 4",
    "after a call in the forked process": (
        "calls()\nassert status_of(lambda: (calls(), sys.exit(status_of(calls) + 1))) == 4"
    ),
    "in another thread": (
        "calls()\nfound = []\nends = lambda: (calls(), os._exit(3))\n"
        "thread = threading.Thread(target=lambda: found.append(status_of(ends)))\n"
        "thread.start(); thread.join()\nassert found == [3], found"
    ),
    "after calls in another thread": (
        "thread = threading.Thread(target=calls)\nthread.start(); thread.join()\n"
        "assert status_of(calls) == 3"
    ),
    "threads of the forked process": (
        "def several():\n"
        "    with ThreadPoolExecutor(3) as pool:\n"
        "        list(pool.map(lambda _: calls(), range(6)))\n"
        "calls()\nassert status_of(several) == 3"
    ),
    "a pool of processes": (
        "calls()\nwith multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    assert pool.map(run, [1, 2, 3]) == [400, 800, 1200]"
    ),
    "processes": (
        "calls()\nProcess = multiprocessing.get_context('fork').Process\n"
        "made = [Process(target=calls) for _ in range(2)]\n"
        "[each.start() for each in made]\n[each.join() for each in made]\n"
        "assert [each.exitcode for each in made] == [0, 0]"
    ),
    "an executor of processes": (
        "calls()\nfork = multiprocessing.get_context('fork')\n"
        "with ProcessPoolExecutor(2, mp_context=fork) as pool:\n"
        "    assert list(pool.map(run, [1, 2, 3])) == [400, 800, 1200]"
    ),
    "a server with workers": (
        "calls()\n"
        "workers = []\n"
        "for number in range(3):\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        try:\n"
        "            calls(); calls(); sys.exit(0)\n"
        "        except SystemExit:\n"
        "            raise\n"
        "    workers.append(pid)\n"
        "for pid in workers:\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "calls()"
    ),
}
"""Ways of forking a process, and how it and its parent end."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forked") / "m.so"
    tvm_nnef.build(TEXT, progress=False).export(path)
    return path


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_forked_processes_run_models_and_end(pattern: str, library: Path) -> None:
    command = [sys.executable, "-c", FORKED + PATTERNS[pattern], str(library)]
    environment = {**os.environ, "TVM_NUM_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr
