# PYTHON_ARGCOMPLETE_OK
"""The command line: ``tvm-nnef COMMAND …``.

Exit status 0 for success, 1 for a problem in the user's model or files (diagnostics on standard
error, no traceback), 2 for wrong usage, 70 for a defect of this program (the traceback goes to a
log file), 130 after an interruption, 143 after a request to terminate.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

from tvm_nnef.diagnostics import NnefError

_SHORT = ("check", "env", "ops", "show")
"""Commands that only read: nearly all objects they make live until they end."""

_FAILED, _USAGE, _INTERNAL = 1, 2, 70

_ENDING = {signal.SIGINT: ("interrupted", 130), signal.SIGTERM: ("terminated", 143)}
"""Message and exit status after signals that end a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    _open_streams()
    _print_any_text()
    return run_reporting(lambda: _run_given(arguments), is_process=arguments is None)


def _run_given(arguments: Sequence[str] | None) -> int:
    # Imported here, so that an interrupt while modules are loaded is reported as any other.
    from tvm_nnef.cli.arguments import make_parser
    from tvm_nnef.cli.terminal import logged

    if arguments is None:  # This process is the command, which takes no tensors of PyTorch.
        sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # TVM takes seconds to load it.
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:  # The shell asks for completions.
        _complete(parser)
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser.print_help(sys.stderr)
        return _USAGE
    if given[0] == "help":
        given = [*given[1:2], "--help"]
    try:
        options = parser.parse_args(given)
    except SystemExit:  # It printed help, the version or an error.
        sys.stdout.flush()
        raise
    with logged(options.log_level, quiet=options.quiet):
        return _run(options)


def _complete(parser: argparse.ArgumentParser) -> None:
    """Print completions for the shell and exit, if the package for it is installed."""
    with suppress(ImportError):
        importlib.import_module("argcomplete").autocomplete(parser)


def run_reporting(action: Callable[[], int], *, is_process: bool = False) -> int:
    """The exit status of an action, whose exceptions are reported on standard error.

    ``is_process`` says that the process ends with it: signals that come later are ignored, for the
    work is done, and Python would end with a traceback.
    """
    signals: list[signal.Signals] = []
    try:
        with _noted(signals, is_process=is_process):
            status = action()
        if not sys.stdout.closed:  # The language server closes it.
            sys.stdout.flush()
        return status
    except NnefError as problem:
        from tvm_nnef.cli.terminal import rendered_error

        return _fail(rendered_error(problem), _FAILED)
    except KeyboardInterrupt as ended:
        return _fail(*_ENDING[next(iter((*ended.args, *signals)), signal.SIGINT)])
    except BrokenPipeError:
        # The reader of our output has gone, and needs no more. Unread errors are still errors.
        _is_written(sys.stdout)
        return 0 if _is_written(sys.stderr) else _FAILED
    except MemoryError:
        hint = "try smaller inputs or --shape, or a machine with more memory"
        return _fail(f"error: not enough memory\n  hint: {hint}", _FAILED)
    except OSError as problem:
        return _fail(_system_error(problem), _FAILED)
    except Exception as problem:
        if signals:  # What a library made of the interrupt.
            return _fail(*_ENDING[signals[0]])
        from tvm_nnef.cli.terminal import rendered_error
        from tvm_nnef.support.requirements import hidden_package

        if (hidden := hidden_package()) is not None:
            return _fail(rendered_error(hidden), _FAILED)
        return _fail(_internal_error(problem), _INTERNAL)
    finally:
        _is_written(sys.stderr)


@contextmanager
def _noted(signals: list[signal.Signals], *, is_process: bool) -> Iterator[None]:
    """A block in which signals that end it are appended to a list, and raise KeyboardInterrupt.

    So temporary files are removed. Signals that are ignored, or are the concern of the program that
    calls us, stay as they are.
    """

    def note(number: int, frame: FrameType | None) -> None:
        signals.append(signal.Signals(number))
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in _ENDING}
    is_main = threading.current_thread() is threading.main_thread()
    default = (signal.default_int_handler, signal.SIG_DFL)
    taken = {each: handler for each, handler in before.items() if is_main and handler in default}
    for each in taken:
        signal.signal(each, note)
    try:
        yield
    finally:
        for each, handler in taken.items():
            signal.signal(each, signal.SIG_IGN if is_process else handler)


def _run(options: argparse.Namespace) -> int:
    from tvm_nnef.support.requirements import needed_for

    if options.command in _SHORT:
        gc.disable()  # A tenth of their time went into searching for garbage; there is none.
    try:
        # One module a command, so that `check` and `ops` start without TVM.
        with needed_for(f"'tvm-nnef {options.command}'"):
            command = importlib.import_module(f"tvm_nnef.cli.{options.command}")
            return int(command.run(options))
    finally:
        gc.enable()


def _open_streams() -> None:
    """Discard what is printed to a stream that the caller has closed, as some daemons do."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # It stays open for as long as the process runs.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def _print_any_text() -> None:
    """Let a terminal without Unicode show '?' for the characters that it lacks."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")


def _is_written(stream: TextIO) -> bool:
    """Whether a stream takes what was printed; otherwise all is discarded.

    The interpreter would try again at exit, complain, and change the exit status.
    """
    try:
        if not stream.closed:
            stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


def _fail(message: str, status: int) -> int:
    """The exit status of a failure, after its message was printed, if the streams take it."""
    _is_written(sys.stdout)
    with suppress(OSError):
        print(message, file=sys.stderr)
    return status


def _system_error(problem: OSError) -> str:
    """An error of the operating system that no command expects, such as a full disk."""
    place = f"{problem.filename}: " if problem.filename is not None else ""
    hint = "check permissions, free disk space and limits of the system"
    return f"{place}error: {problem.strerror or problem}\n  hint: {hint}"


def _internal_error(problem: Exception) -> str:
    """One line for an exception that no user should see, and a log file to report it with."""
    message = f"internal error: {_first_line(problem)}"
    try:
        return f"{message}\n  hint: please report it, with the log in {_write_log()}"
    except OSError:
        return message


def _first_line(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0][:200]}" if lines else type(problem).__name__


def _write_log() -> Path:
    with tempfile.NamedTemporaryFile(
        "w", prefix="tvm-nnef-", suffix=".log", encoding="utf-8", errors="replace", delete=False
    ) as log:
        print("command:", *sys.argv, file=log)
        traceback.print_exc(file=log)
    return Path(log.name)
