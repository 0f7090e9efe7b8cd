"""Output of PyTorch's exporter as debug messages: warnings, logs, printed programs."""

from __future__ import annotations

import io
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

_LOG = logging.getLogger(__name__)
_EXPORTER = ("torch", "onnx_ir", "onnxscript")


class _PassedOn(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Log a message of the exporter again, as a debug message."""
        _LOG.debug("%s: %s", record.name, record.getMessage())


@contextmanager
def passed_on() -> Iterator[None]:
    """A block in which the exporter's messages are debug messages of this logger alone.

    They stay as they are if ``TORCH_LOGS`` asks for them.
    """
    loggers = [] if os.environ.get("TORCH_LOGS") else _loggers()
    before = [(each, each.handlers, each.propagate) for each in loggers]
    printed = io.StringIO()
    caught: list[warnings.WarningMessage] = []
    try:
        for each in loggers:
            each.handlers, each.propagate = [_PassedOn()], False
        with (
            warnings.catch_warnings(record=True) as found,
            redirect_stdout(printed),
            redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            caught = found
            yield
    finally:
        for warning in caught:
            _LOG.debug("%s: %s", warning.category.__name__, warning.message)
        if printed.tell():
            _LOG.debug("%s", printed.getvalue())
        for each, handlers, propagate in before:
            each.handlers, each.propagate = handlers, propagate


def _loggers() -> list[logging.Logger]:
    """The exporter's loggers that write messages themselves, or pass them to the root."""
    inner = (
        each
        for name, each in logging.root.manager.loggerDict.items()
        if name.partition(".")[0] in _EXPORTER and isinstance(each, logging.Logger)
    )
    tops = [logging.getLogger(name) for name in _EXPORTER]
    return [*tops, *(each for each in inner if each.handlers and each not in tops)]
