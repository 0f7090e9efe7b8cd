"""The time of each operation of a model, as :meth:`Executable.profile` returns it. Measures
nothing.

The time of a kernel that several operations were fused into is measured as a whole; that of each
operation in it is an estimate, by its share of the multiply-adds or elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_nnef.diagnostics import plural
from tvm_nnef.support.html_table import html_table
from tvm_nnef.support.text_table import text_table


@dataclass(frozen=True, slots=True)
class OperationTime:
    """The time that an operation of the model takes in a run.

    Attributes
    ----------
    name
        The full name of its first result, as in the Graph that ``compose`` returns.
    operator
        The name of its operator; ``if`` and ``loop`` for branches and loops.
    seconds
        Its share of the time of the kernels that it is in, those of the operations inside of it
        included. 0 if it is computed when the model is built, or needs no computation.
    is_estimate
        Whether a kernel that it is in has other operations, too.
    kernels
        The names of the kernels that it is in.
    parent
        The name of the composite around it, if that was opened; None at the outer level.
    place
        File, line and column of the invocation; empty if unknown.
    source
        The operation in the model that this one was converted from; empty if there is none.
    """

    name: str
    operator: str
    seconds: float
    is_estimate: bool = False
    kernels: tuple[str, ...] = ()
    parent: str | None = None
    place: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of the calls of a kernel for the same operations, in a run.

    ``calls`` is the number of calls, ``operations`` are the names of the operations in it.
    """

    name: str
    operations: tuple[str, ...]
    seconds: float
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """The time of a run of a model, by its operations and by its kernels.

    :meth:`Executable.profile` returns it; ``print`` shows a table.

    Attributes
    ----------
    operations
        The operations of the model, in the order of the graph.
    kernels
        The kernels in the order in which they are called first. Their times are measured.
    overhead
        The seconds of a run that no kernel takes: allocation, and calls by the virtual machine.
    runs
        The number of runs that the medians are of.

    Examples
    --------
    >>> import tvm_nnef
    >>> profile = tvm_nnef.build("docs/examples/digits", progress=False).profile(repeat=5)
    >>> profile.operations[0].operator, len(profile.operations), profile.runs
    ('nn.conv', 11, 5)
    """

    operations: tuple[OperationTime, ...]
    kernels: tuple[KernelTime, ...]
    overhead: float
    runs: int

    @property
    def total(self) -> float:
        """The seconds of a run: the sum of all kernels and the overhead."""
        return sum(kernel.seconds for kernel in self.kernels) + self.overhead

    def to_json(self) -> dict[str, Any]:
        """Return the same as JSON can hold it; times are in seconds."""
        return {
            "operations": list(map(_operation_json, self.operations)),
            "kernels": [
                {
                    "name": kernel.name,
                    "operations": list(kernel.operations),
                    "seconds": kernel.seconds,
                    "calls": kernel.calls,
                }
                for kernel in self.kernels
            ],
            "overhead": self.overhead,
            "total": self.total,
            "runs": self.runs,
        }

    def __str__(self) -> str:
        return "\n".join([*text_table([_HEADS, *self._rows()], _TEXTS), *self._notes()])

    def __repr__(self) -> str:
        operations = plural(len(self.operations), "operation")
        return f"<Profile: {operations}, {_milliseconds(self.total)} ms>"

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], _HEADS, list(self._rows()), numbers=(2, 3))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """Yield operations by time, each followed by its inner ones, then the overhead and the
        total.
        """
        prefix = _common_prefix([each.name for each in self.operations])
        inner: dict[str | None, list[OperationTime]] = {}
        for each in self.operations:
            if each.seconds:
                inner.setdefault(each.parent, []).append(each)

        def rows(parent: str | None, depth: int) -> Iterator[tuple[str, ...]]:
            for each in sorted(inner.get(parent, ()), key=lambda each: -each.seconds):
                mark = "~" if each.is_estimate else ""
                operator = f"{each.operator} ({each.source})" if each.source else each.operator
                name = "  " * depth + each.name.removeprefix(prefix)
                yield (
                    name,
                    operator,
                    mark + _milliseconds(each.seconds),
                    self._share(each.seconds),
                )
                yield from rows(each.name, depth + 1)

        yield from rows(None, 0)
        others = sum(kernel.seconds for kernel in self.kernels if not kernel.operations)
        rest = (("other kernels", others), ("overhead", self.overhead))
        for title, seconds in rest[0 if others else 1 :]:
            yield (title, "", _milliseconds(seconds), self._share(seconds))
        yield ("total", "", _milliseconds(self.total), "")

    def _share(self, seconds: float) -> str:
        return f"{seconds / self.total:.1%}" if self.total else ""

    def _notes(self) -> list[str]:
        """Return notes below the table: shared kernels, and operations without a time."""
        prefix = _common_prefix([each.name for each in self.operations])
        shared = [kernel for kernel in self.kernels if len(kernel.operations) > 1]
        notes = ["", "~ estimated share of a kernel with other operations:"] if shared else []
        for kernel in sorted(shared, key=lambda kernel: -kernel.seconds):
            names = ", ".join(name.removeprefix(prefix) for name in kernel.operations)
            notes.append(f"  {_milliseconds(kernel.seconds)} ms  {names}")
        free = sum(not each.seconds for each in self.operations)
        if free:
            verb = "takes" if free == 1 else "take"
            said = f"{plural(free, 'operation')} {verb} no time: computed at build time, or a view"
            notes += ["", said]
        return notes


_HEADS = ("operation", "operator", "ms", "share")
_TEXTS = 2
"""The number of columns of text."""


def _operation_json(each: OperationTime) -> dict[str, Any]:
    return {
        "name": each.name,
        "operator": each.operator,
        "seconds": each.seconds,
        "is_estimate": each.is_estimate,
        "kernels": list(each.kernels),
        "parent": each.parent,
        "place": each.place,
        "source": each.source,
    }


def _common_prefix(names: Sequence[str]) -> str:
    """Return the common scopes of all names, with the dot after them."""
    scopes = [name.split(".")[:-1] for name in names]
    shared = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*scopes, strict=False))
    return "".join(f"{parts[0]}." for parts in shared)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.4f}"
