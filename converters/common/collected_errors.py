"""Collection of the errors in independent parts of a document, so that all are reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tvm_nnef.diagnostics import Diagnostic, NnefError


class Problems:
    """A collector of the errors of independent parts.

    Examples
    --------
    >>> from tvm_nnef.diagnostics import error
    >>> problems = Problems()
    >>> for part in ("first", "second"):
    ...     with problems.collected():
    ...         raise error(f"the {part} part is wrong")
    >>> len(problems.found)
    2
    """

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        self.found = list(found)

    def add(self, problem: NnefError) -> None:
        """Keep the diagnostics of an error, each once."""
        self.found += [each for each in problem.diagnostics if each not in self.found]

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Yield; keep an error of the block instead of raising it."""
        try:
            yield
        except NnefError as problem:
            self.add(problem)

    def check(self) -> None:
        """Raise NnefError with all collected errors, in the order of the text."""
        if self.found:
            raise NnefError(sorted(self.found, key=_offset))


def _offset(problem: Diagnostic) -> int:
    return problem.span.start if problem.span else 0
