"""Output of commands besides their results: errors in colour, and log messages."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from tvm_nnef.diagnostics import Diagnostic, NnefError, NnefWarning

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""The level of log messages for none, one and two ``-v``."""


def is_coloured(stream: TextIO) -> bool:
    """Whether a stream shows colours: a terminal, unless ``NO_COLOR`` is set (no-color.org).

    ``FORCE_COLOR`` colours what goes elsewhere, too.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def rendered(found: Diagnostic) -> str:
    """A diagnostic as standard error shows it."""
    return found.render(colour=is_coloured(sys.stderr))


def rendered_error(problem: NnefError) -> str:
    """All diagnostics of an error as standard error shows them."""
    return "\n".join(map(rendered, problem.diagnostics))


@contextmanager
def logged(verbosity: int, *, quiet: bool = False) -> Iterator[None]:
    """A block whose log messages are printed on standard error, more with each ``-v``.

    Warnings are printed as diagnostics, unless ``quiet``.
    """
    logger = logging.getLogger("tvm_nnef")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level = _LEVELS[min(verbosity, len(_LEVELS) - 1)]
    if quiet and not verbosity:
        level = logging.ERROR
    before = logger.level, logger.propagate
    logger.setLevel(level)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if quiet else "always", NnefWarning)
            warnings.showwarning = _shown_by(warnings.showwarning)
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def _shown_by(others: Callable[..., None]) -> Callable[..., None]:
    """Return a function that prints warnings: ours as diagnostics, others by ``others``."""

    def show(message: Warning | str, *rest: Any, **named: Any) -> None:
        if isinstance(message, NnefWarning):
            print(rendered(message.diagnostic), file=sys.stderr)
        else:
            others(message, *rest, **named)

    return show
