"""Results of tuning in a folder: a file that says for what, and one file for each kernel.

The files are JSON, and each is written whole or not at all, so that any moment is a good one to
stop. Everything read is checked: a folder may be damaged, or come from anybody.

- ``database.json``: ``format``, the version of TVM (``tvm``), the ``target``;
- ``<hash>.json``: a :class:`Record`, under the hash of the PrimFunc as it is before scheduling;
- ``.<name>.<process>``: a file that is being written, or that a process died over.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm_ffi

from tvm_nnef.compilation.traces import Trace, complaint, function_of, scheduled_by
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.schedules import Scheduled
from tvm_nnef.storage.output import write_file
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import PrimFunction, Target

FORMAT = 3
HEADER = "database.json"
MAX_BYTES = 16 << 20
_ELSEWHERE = "tune into another folder"
MAX_TRACES = 16
"""Number of the best schedules of a kernel that are kept, for a search that goes on."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A schedule and the seconds that it took while searching."""

    seconds: float
    trace: Trace


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a kernel.

    ``traces`` are the best schedules that were measured, the fastest first, of so many ``trials``.
    ``chosen`` is the one that was most ahead of the ``strategy`` when both were measured in turns,
    on ``threads``, and ``tuned_seconds`` and ``strategy_seconds`` are what was measured then; None
    where the strategy was as good. ``judged`` says that the fastest of the traces had its turn.
    ``strategy_hash`` identifies the version of the strategy's schedule. ``plans`` are the
    seconds of the alternatives of the strategy's plan (None: it is of no use); ``plan`` is the
    number of the one that was chosen, instead of a trace.
    """

    name: str
    strategy: str
    strategy_hash: str
    threads: int
    trials: int
    strategy_seconds: float
    tuned_seconds: float | None = None
    chosen: Trace | None = None
    traces: tuple[Measured, ...] = ()
    judged: bool = True
    plans: tuple[float | None, ...] = ()
    plan: int | None = None

    @property
    def gain(self) -> float:
        """Return how many times faster than the strategy's kernel the best one is, at least 1."""
        return 1.0 if self.tuned_seconds is None else self.strategy_seconds / self.tuned_seconds


@dataclass(slots=True)
class Database:
    """A folder of records for a target; ``stale`` names kernels whose strategies changed since."""

    folder: Path
    stale: list[str] = field(default_factory=list)

    @staticmethod
    def opened(path: str | os.PathLike[str], target: Target, *, create: bool = False) -> Database:
        """The database in a folder, a new one if there is none and ``create`` says so.

        Raises NnefError if the folder is none, is for another target or version of TVM, or
        cannot be read or made.
        """
        folder = Path(path)
        header = folder / HEADER
        expected = _header(target)
        if not _is_file(header):
            if not create or (folder.exists() and not _is_empty_folder(folder)):
                hint = "tune writes one: tvm-nnef tune MODEL --database DIR"
                hint = "give an empty or a new folder" if create else hint
                raise error(f"'{folder}' is not a tuning database", hint=hint)
            _create(folder)
            write_json(header, expected)
            return Database(folder)
        found = _read_json(header)
        if found.get("format") != FORMAT:
            raise error(
                f"the tuning database is of format {found.get('format')!r}, not {FORMAT}",
                file=str(header),
                hint=_ELSEWHERE,
            )
        for key, what in (("tvm", "version of TVM"), ("target", "target")):
            if found.get(key) != expected[key]:
                raise error(
                    f"the tuning database is for another {what}: {_short(found.get(key))}, "
                    f"here it is {_short(expected[key])}",
                    file=str(header),
                    hint=_ELSEWHERE,
                )
        return Database(folder)

    @contextmanager
    def kept_from_others(self) -> Iterator[None]:
        """Locks the folder against other tuning processes; NnefError if it is locked.

        What processes that died have left half-written is removed.
        """
        import fcntl  # Not on Windows, where databases can be read all the same.

        with (self.folder / HEADER).open("rb") as header:
            try:
                fcntl.flock(header, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"another process is tuning into '{self.folder}'"
                raise error(message, hint=f"wait for it, or {_ELSEWHERE}") from None
            except OSError:
                # A file system that has no locks: whoever writes last is right.
                yield
                return
            with suppress(OSError):
                for file in filter(_is_draft, self.folder.iterdir()):
                    file.unlink()
            yield

    def read(self, function: PrimFunction) -> Record | None:
        """Return the record of a PrimFunc. Raises NnefError if its file is damaged."""
        file = self._file(function)
        if not file.is_file():
            return None
        return _record(_read_json(file), file)

    def write(self, function: PrimFunction, record: Record) -> None:
        """Keeps a record; the file is that before or that after, at any moment."""
        content = {
            "format": FORMAT,
            "name": record.name,
            "strategy": record.strategy,
            "strategy_hash": record.strategy_hash,
            "threads": record.threads,
            "trials": record.trials,
            "strategy_seconds": record.strategy_seconds,
            "tuned_seconds": record.tuned_seconds,
            "chosen": record.chosen,
            "traces": [{"seconds": each.seconds, "trace": each.trace} for each in record.traces],
            "judged": record.judged,
            "plans": record.plans,
            "plan": record.plan,
        }
        write_json(self._file(function), content)

    def tuned(
        self, name: str, function: PrimFunction, by_strategies: Callable[[], Scheduled]
    ) -> PrimFunction | None:
        """The tuned schedule of a PrimFunc; None if there is none that beats the strategies.

        Raises NnefError if its file is damaged.
        """
        record = self.read(function)
        if record is None or (record.chosen is None and record.plan is None):
            return None
        by_strategy, choice = by_strategies()
        if record.strategy_hash != hash_of(by_strategy):
            self.stale.append(name)
            return None
        if record.plan is not None:
            alternatives = choice.alternatives()
            if record.plan >= len(alternatives):
                raise _damaged(self._file(function), "its plan is not one of this kernel")
            return alternatives[record.plan]
        assert record.chosen is not None
        schedule = scheduled_by(function, record.chosen)
        if schedule is None:
            raise _damaged(self._file(function), "its schedule does not fit the kernel")
        return function_of(schedule)

    def _file(self, function: PrimFunction) -> Path:
        return self.folder / f"{hash_of(function)}.json"


def hash_of(function: PrimFunction) -> str:
    """A name for what a PrimFunc is, whatever its variables are called."""
    return f"{tvm_ffi.structural_hash(function) % (1 << 64):016x}"


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file whole or not at all; raises NnefError if that fails."""
    write_file(file, json.dumps(content).encode())


def _header(target: Target) -> dict[str, Any]:
    described = json.loads(json.dumps(dict(target.export()), default=_plain_target))
    return {"format": FORMAT, "tvm": compat.version(), "target": described}


def _plain_target(value: Any) -> Any:
    """TVM's own containers as those of JSON."""
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return list(value) if hasattr(value, "__iter__") else str(value)


def _create(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        message = f"cannot make the folder '{folder}': {problem.strerror}"
        raise error(message, hint=_ELSEWHERE) from None


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:
        return False


def _is_empty_folder(folder: Path) -> bool:
    try:
        return all(map(_is_draft, folder.iterdir()))
    except OSError:
        return False


def _is_draft(file: Path) -> bool:
    return re.fullmatch(r"\.(database|[0-9a-f]{16})\.json\.\d+", file.name) is not None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise _damaged(file, "it is too large")
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        message = f"cannot read the tuning database: {problem.strerror}"
        raise error(message, hint="check its permissions", file=str(file)) from None
    except (ValueError, RecursionError) as problem:
        raise _damaged(file, f"it is not JSON ({problem})") from None
    if not isinstance(content, dict):
        raise _damaged(file, "a JSON object is expected")
    return content


def _record(content: Mapping[str, Any], file: Path) -> Record:
    try:
        measured = tuple(
            Measured(_seconds(each["seconds"]), _checked(each["trace"], file))
            for each in content["traces"][:MAX_TRACES]
        )
        chosen, tuned = content["chosen"], content["tuned_seconds"]
        return Record(
            name=str(content["name"]),
            strategy=str(content["strategy"]),
            strategy_hash=str(content["strategy_hash"]),
            threads=_number(content["threads"]),
            trials=_number(content["trials"]),
            strategy_seconds=_seconds(content["strategy_seconds"]),
            tuned_seconds=None if tuned is None else _seconds(tuned),
            chosen=None if chosen is None else _checked(chosen, file),
            traces=measured,
            judged=content["judged"] is True,
            plans=tuple(None if s is None else _seconds(s) for s in content.get("plans", [])),
            plan=None if content.get("plan") is None else _number(content["plan"]),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise _damaged(file, f"an entry is missing or of another type ({problem})") from None


def _checked(trace: Any, file: Path) -> Trace:
    problem = complaint(trace)
    if problem is not None:
        raise _damaged(file, problem)
    checked: Trace = trace
    return checked


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"seconds are a number, not {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"seconds are more than 0, not {value!r}")
    return float(value)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"a count is expected, not {value!r}")
    return value


def _damaged(file: Path, reason: str) -> NnefError:
    hint = "remove the file to have the kernel tuned again"
    if file.name == HEADER:
        hint = _ELSEWHERE
    return error(f"the tuning database is damaged: {reason}", file=str(file), hint=hint)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 200 else f"{text[:200]}…"
