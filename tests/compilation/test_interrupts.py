"""Interrupts: a build, an export and an endless loop end with KeyboardInterrupt, and no other."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_nnef
import tvm_nnef.cli.check
from tvm_nnef.executable.loading import load
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.lower.values import Values
from tvm_nnef.schedules.relax.legalization import LEGALIZATIONS
from tvm_nnef.tvm_support.interrupts import interrupts_deferred

SECONDS = 60
"""How long a test waits for something that would never come to an end."""

LOOPS = {
    # The condition is computed before the step: the virtual machine runs it.
    "while": "y = with v = x while math.lt(v, 1.0) do math.mul(v, 0.5);",
    # The condition is computed in the step: one kernel runs all steps.
    "do while": "y = with v = x do math.mul(v, 0.5) while math.lt(v, 1.0);",
    "branches": "y = with v = x while math.lt(v, 1.0) do { c = math.lt(v, 0.1);"
    " w = if c then v else math.mul(v, 0.5); yield w; };",
    "inner": "y = with v = x do..(2) { w = with u = v while math.lt(u, 1.0) do math.mul(u, 0.5);"
    " yield w; };",
    "long count": "y = with v = x do..(n) math.mul(v, 0.5);",
}


def built(body: str) -> Executable:
    text = f"""
import math;
graph G {{ @input {{ x: real[]; n: int[]; }} @output {{ y: real[]; }} @compose {{ {body} }} }}
"""
    return tvm_nnef.build(text, progress=False)


@contextmanager
def interrupted_soon(handler: Any = signal.default_int_handler) -> Iterator[None]:
    """A block in which the process gets SIGINT, and is ended if that has no effect."""
    before = signal.signal(signal.SIGINT, handler)
    soon = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    last = threading.Timer(SECONDS, os.kill, (os.getpid(), signal.SIGKILL))
    for timer in (soon, last):
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        soon.cancel()
        last.cancel()
        signal.signal(signal.SIGINT, before)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", LOOPS)
def test_an_endless_loop_can_be_interrupted_and_the_next_call_runs(
    name: str, tmp_path: Path
) -> None:
    exe = built(LOOPS[name])
    exe.export(tmp_path / "model.so")
    for each in (exe, load(tmp_path / "model.so")):
        with interrupted_soon(), pytest.raises(KeyboardInterrupt):
            each(np.float32(0.75), 2**31 - 1)
        (result,) = each(np.float32(2), 1)
        assert result in (1, 2)


class Stop(Exception):
    """What a signal handler of a program raises."""


@pytest.mark.slow
def test_a_loop_ends_with_whatever_the_signal_handler_raises() -> None:
    def handler(*_: object) -> None:
        raise Stop

    exe = built(LOOPS["while"])
    with interrupted_soon(handler), pytest.raises(Stop):
        exe(np.float32(0.75), 0)


@pytest.mark.slow
def test_a_library_needs_no_more_than_the_library_of_tvm_that_c_programs_link(
    tmp_path: Path,
) -> None:
    import tvm_ffi

    built(LOOPS["do while"]).export(tmp_path / "model.so")
    command = ["nm", "-D", "--undefined-only", str(tmp_path / "model.so")]
    names = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    wanted = [name for name in names if name.startswith("TVM")]
    assert "TVMFFIEnvCheckSignals" in wanted
    for name in wanted:
        assert hasattr(tvm_ffi.LIB, name)


def test_an_interrupt_in_a_function_that_tvm_calls_stays_one() -> None:
    @tvm.transform.module_pass(opt_level=0, name="interrupted")
    def interrupted(mod: Any, context: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tvm.transform.Sequential([interrupted])(tvm.IRModule({}))


PROGRAM = """
import os, signal, sys, threading
from tvm_nnef.cli import main
import tvm_nnef.compilation.pipeline
def interrupt(): os.kill(os.getpid(), signal.SIGINT)
threading.Timer(float(sys.argv[1]), interrupt).start()
sys.exit(main(["build", sys.argv[2], "-o", sys.argv[3]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 2.5])
def test_an_interrupted_build_says_so_in_one_line(delay: float, tmp_path: Path) -> None:
    digits = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits"
    command = [sys.executable, "-c", PROGRAM, str(delay), str(digits), str(tmp_path / "x.so")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        pytest.skip("the build was faster")
    assert (run.returncode, run.stderr) == (130, "interrupted\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("interrupts", [1, 2])
def test_the_first_interrupt_waits_for_the_end_of_a_pass_and_the_second_does_not(
    interrupts: int,
) -> None:
    ended = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_deferred():
            for _ in range(interrupts):
                signal.raise_signal(signal.SIGINT)
            ended.append(True)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [True] * (interrupts == 1)


def test_an_interrupt_within_a_rewriting_pass_prints_nothing_of_tvm(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A function that LegalizeOps calls while its builder has a block open."""
    legalize = LEGALIZATIONS["relax.maximum"]

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return legalize(*arguments)

    monkeypatch.setitem(LEGALIZATIONS, "relax.maximum", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            tvm_nnef.build(
                "import math; graph G { @input { x: real[3]; } @output { y: real[3]; }"
                " @compose { y = math.max(x, 1.0); } }",
                progress=False,
            )
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_tvm_prints_nothing_if_lowering_is_interrupted(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(Values, "get", interrupt)
    with pytest.raises(error):
        built("y = with v = x do..(2) math.mul(v, 0.5);")
    gc.collect()
    assert capfd.readouterr().err == ""


def test_an_interrupt_that_a_library_turns_into_another_error_stays_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(SECONDS)
        except KeyboardInterrupt:
            raise RuntimeError from None

    monkeypatch.setattr(tvm_nnef.cli.check, "check", check)
    # A shell that starts tests in the background has them ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert tvm_nnef.cli.main(["check", "model"]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


def test_an_interrupt_while_the_command_line_is_loaded() -> None:
    """The module of the arguments is interrupted while it is imported: one line, no traceback."""
    script = """
import builtins, sys
imported = builtins.__import__
def interrupted(name, *rest):
    if name == "tvm_nnef.cli.arguments":
        raise KeyboardInterrupt
    return imported(name, *rest)
builtins.__import__ = interrupted
from tvm_nnef.cli import main
sys.exit(main(["env"]))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")
