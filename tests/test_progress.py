"""Progress of long work: a bar on a terminal, a line in a notebook, nothing in a pipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tvm_nnef.support import progress

ROOT = Path(__file__).resolve().parents[1]

WORK = {
    "build": (
        "tvm_nnef.build('docs/examples/digits', cache=False)",
        rb"reading|simplifying|scheduling|planning|machine code",
    ),
    "convert": (
        "import onnx; from onnx import helper as h; p = h.make_tensor_value_info;"
        "n = [h.make_node('Neg', [f't{i}'], [f't{i + 1}']) for i in range(2000)];"
        "g = h.make_graph(n, 'g', [p('t0', 1, [2])], [p('t2000', 1, [2])]);"
        "tvm_nnef.convert(h.make_model(g))",
        rb"converting Neg",
    ),
}


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("work", WORK)
def test_a_bar_on_a_terminal_names_steps_and_disappears(work: str) -> None:
    import pty

    program, words = WORK[work]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    command = [sys.executable, "-c", f"import tvm_nnef; {program}"]
    process = subprocess.Popen(command, stderr=theirs, cwd=ROOT, env=environment)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # The end of a pseudo-terminal on Linux.
        while part := os.read(ours, 1 << 16):
            shown += part
    os.close(ours)
    assert process.wait() == 0
    assert re.search(words, shown)
    assert shown.rstrip().endswith(b"\x1b[2K"), "the line is erased"


class Handle:
    """What IPython's ``display`` returns: it keeps the texts that a cell shows."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.texts.append(content["text/plain"])


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Handle:
    """A cell of a notebook, in which the clock advances by a second each time it is read."""
    handle = Handle()

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert display_id and not handle.texts
        handle.update(content, raw=raw)
        return handle

    shell = types.SimpleNamespace(kernel=object())
    notebook: Any = types.ModuleType("IPython")
    notebook.get_ipython = lambda: shell
    notebook.display = types.SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    seconds = iter(range(1000))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    return handle


def test_a_notebook_shows_a_line_with_the_time_left_which_disappears(cell: Handle) -> None:
    with progress.progress_reported() as report:
        report("first", 0, 4)
        report("second", 1, 4)
        with progress.progress_reported():  # Work inside of work.
            progress.report("third", 2, 4)
    # The clock is read once at the beginning, and once in each report.
    assert cell.texts == [
        "first: 0 %, 1 s",
        "second: 25 %, 2 s, 6 s left",
        "third: 50 %, 3 s, 3 s left",
        "",
    ]


def test_work_of_an_instant_and_unwanted_progress_show_nothing(
    cell: Handle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.progress_reported(wanted=False) as report:
        report("first", 1, 4)
        progress.report("second", 2, 4)
    monkeypatch.setattr(progress.time, "monotonic", lambda: 1.0)
    with progress.progress_reported() as report:
        report("first", 1, 4)
    assert cell.texts == []


def test_a_program_of_ipython_in_a_pipe_shows_nothing(
    cell: Handle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    with progress.progress_reported() as report:
        report("first", 1, 4)
    assert cell.texts == []
