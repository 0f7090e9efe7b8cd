"""Streams that are closed, full or not read: the exit status, and what is written."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TEXT = "graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = x; } }\n"
MODEL = "model.sknd"
FULL = "error: No space left on device\n  hint: "
BUILD = ["build", MODEL, "-o", "model.so"]
RUN = ["run", MODEL, "--route", "reference", "-o"]

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@dataclass(frozen=True)
class Case:
    """A command, its streams 0, 1 and 2, its exit status, its errors, and the file it writes."""

    command: list[str]
    streams: tuple[str, str, str] = ("open", "open", "open")
    status: int = 0
    errors: str = ""
    file: str = ""


CASES = {
    "check, no input": Case(["check", MODEL], ("closed", "open", "open")),
    "check, no output": Case(["check", MODEL], ("open", "closed", "open")),
    "check, nothing": Case(["check", MODEL], ("closed", "closed", "closed")),
    "check, full": Case(["check", MODEL], ("open", "full", "open"), 1, FULL),
    "build, nothing": Case(BUILD, ("closed", "closed", "closed"), file="model.so"),
    "build, full": Case(BUILD, ("open", "full", "open"), 1, FULL, "model.so"),
    "build, not read": Case(BUILD, ("open", "unread", "unread"), file="model.so"),
    "run, not read": Case([*RUN, "y.npy"], ("open", "unread", "unread"), file="y.npy"),
    "run, endless input": Case([*RUN, "y.npy"], ("full", "open", "open"), file="y.npy"),
    "array, full": Case([*RUN, "-"], ("open", "full", "open"), 1, "-: error: cannot be written"),
    "array, not read": Case([*RUN, "-"], ("open", "unread", "open")),
    "picture, not read": Case(["show", MODEL, "--svg", "-"], ("open", "unread", "open")),
    "mistake, full": Case(["check", "absent"], ("open", "full", "full"), 1),
    "mistake, not read": Case(["check", "absent"], ("open", "unread", "unread"), 1),
    "mistake, no errors": Case(["check", "absent"], ("open", "open", "closed"), 1),
    "usage, full": Case(["chek", "absent"], ("open", "full", "full"), 2),
    "usage, no errors": Case(["chek", "absent"], ("open", "open", "closed"), 2),
    "help, full": Case(["--help"], ("open", "full", "open"), 1, FULL),
    "help, not read": Case(["--help"], ("open", "unread", "open")),
    "version, full": Case(["--version"], ("open", "full", "open"), 1, FULL),
    "list, not read": Case(["ops"], ("open", "unread", "open")),
}

_EACH = """
import gc, importlib, json, os, sys
import tvm_nnef
from tvm_nnef import cli

for name in ("cli.check", "cli.ops", "cli.run", "cli.show", "compilation.pipeline", "lower"):
    importlib.import_module("tvm_nnef." + name)
given = json.loads(sys.argv[1])
tvm_nnef.check(os.path.join(given[0][0], given[0][1][1]))  # Reads the grammar, for all.
gc.freeze()  # Otherwise each process copies the memory when it ends.


def connect(number, kind):
    if kind == "closed":
        os.close(number)
    elif kind == "unread":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, number)
    else:
        name = {"full": "/dev/full", "open": f"stream{number}"}[kind]
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    # As Python opens them.
    mode = dict(mode="w", buffering=1 if number == 2 else -1) if number else {}
    return None if kind == "closed" else open(number, closefd=False, **mode)


for folder, command, streams in given:
    child = os.fork()
    if not child:
        os.chdir(folder)
        sys.argv = ["tvm-nnef", *command]
        sys.stdin, sys.stdout, sys.stderr = opened = [*map(connect, range(3), streams)]
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = opened
        sys.exit(cli.main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs each command in a separate process, which is forked: one loads the packages for all."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, Path]]:
    """The exit status and the working folder of each case."""
    folders = {name: tmp_path_factory.mktemp("streams") for name in CASES}
    for folder in folders.values():
        (folder / MODEL).write_text(TEXT)
    given = [(str(folders[name]), case.command, case.streams) for name, case in CASES.items()]
    done = subprocess.run(
        [sys.executable, "-c", _EACH, json.dumps(given)], capture_output=True, check=True, text=True
    )
    return dict(
        zip(CASES, zip(map(int, done.stdout.split()), folders.values(), strict=True), strict=True)
    )


@pytest.mark.parametrize("name", CASES)
def test_streams(name: str, found: dict[str, tuple[int, Path]]) -> None:
    case = CASES[name]
    status, folder = found[name]
    errors = folder / "stream2"
    shown = errors.read_text() if errors.exists() else ""
    assert status == case.status
    assert shown.startswith(case.errors) and "Exception" not in shown
    written = {each.name for each in folder.iterdir() if not each.name.startswith("stream")}
    assert written == ({MODEL, case.file} if case.file else {MODEL})
