"""Output files and folders: written whole or not at all, by one rule for all calls and commands.

Input: a path that a user gave, and bytes or a function that writes a file. A file is written in a
temporary folder next to its target and renamed; devices and pipes are written to directly; the
target of a symbolic link is replaced, the link stays; ``-`` is standard output.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.storage.names import MAIN_FILE, METADATA_FILE

OutputPath: TypeAlias = "str | os.PathLike[str]"

STANDARD_OUTPUT = "-"
"""The name of standard output."""

_TEMPORARY = ".tvm-nnef-"
"""The prefix of the names of temporary folders, which are locked while they are in use."""

_REPLACED = "replaced"
"""The subfolder of a temporary folder in which a replaced folder waits until another has its
name.
"""

_MODEL_SUFFIXES = (".sknd", ".dat")


def check_output(path: OutputPath, inputs: Iterable[OutputPath] = ()) -> None:
    """Check that an output file can be written, before the work that makes its content.

    ``inputs`` are files and model folders that the same command reads. Raises :class:`NnefError`
    for an empty or invalid name, a folder, a missing or protected folder around the file, and an
    output that would replace an input.
    """
    name = os.fspath(path)
    if name == STANDARD_OUTPUT:
        return
    if not name:
        raise error("the name of an output file is empty", hint="give it a name")
    status = _status(path)
    if name.endswith("/") or (status is not None and stat.S_ISDIR(status.st_mode)):
        raise _refused(path, f"'{name}' is a folder", "give the name of a file in it")
    if status is not None and stat.S_ISSOCK(status.st_mode):
        raise _refused(path, "it is a socket", "give the name of a file")
    if is_stream(path):
        if not os.access(path, os.W_OK):
            raise _refused(path, "permission denied")
        return
    check_parent(path)
    for each in inputs:
        if status is not None and _is_part_of(path, status, each):
            raise _refused(
                path, f"it is an input of the same command ('{each}')", "choose another name"
            )


def check_outputs(paths: Iterable[OutputPath], inputs: Iterable[OutputPath] = ()) -> None:
    """Check several output files of one command, which must differ, as :func:`check_output` does.

    Raises :class:`NnefError`.
    """
    targets, read = set[Path](), list(inputs)
    for path in paths:
        check_output(path, read)
        if is_stream(path):
            continue
        target = Path(path).resolve()
        if target in targets:
            raise _refused(path, "two outputs have this name", "give each its own name")
        targets.add(target)


def is_stream(path: OutputPath) -> bool:
    """Whether an output is standard output, a device or a pipe: written to, not replaced."""
    if os.fspath(path) == STANDARD_OUTPUT:
        return True
    status = _status(path)
    return (
        status is not None and not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode)
    )


def is_same_file(path: OutputPath, other: OutputPath) -> bool:
    """Whether two paths lead to the same existing file or folder."""
    try:
        return Path(path).samefile(other)
    except (OSError, ValueError):
        return False


def check_parent(path: OutputPath) -> None:
    """Check that a file or folder can be created at a path; raises :class:`NnefError`."""
    _status(path)
    parent = Path(path).resolve().parent
    if not parent.is_dir():
        raise _refused(path, f"there is no folder '{parent}'", "create the folder first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise _refused(path, f"no permission to write in the folder '{parent}'")


def write_file(path: OutputPath, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file whole or not at all.

    Raises :class:`NnefError` if that fails.
    """
    with replacing(path) as draft, draft.open("wb") as stream:
        stream.writelines([data] if isinstance(data, bytes) else data)


@contextmanager
def replacing(path: OutputPath) -> Iterator[Path]:
    """Yield a path for a file whose content becomes that of ``path`` when the block ends.

    Raises :class:`NnefError` if it cannot be written; an OSError of the block counts as that.
    """
    check_output(path)
    with diagnosed(path):
        if is_stream(path):
            with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as folder:
                yield Path(folder) / "output"
                _send(Path(folder) / "output", path)
            return
        target = Path(path).resolve()
        with workspace(target.parent) as space:
            draft = space / target.name
            yield draft
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)


@contextmanager
def diagnosed(path: OutputPath) -> Iterator[None]:
    """Yield.

    Convert an OSError of the block to an :class:`NnefError`: the output cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as cause:
        reason = cause.strerror or str(cause)
        hint = "check permissions, free disk space and limits on file sizes"
        raise _refused(path, reason, hint) from cause


@contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder in another one; remove those that killed processes left there."""
    _sweep(folder)
    space, lock = _locked_folder(folder)
    try:
        yield space
    finally:
        shutil.rmtree(space, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def replace_folder(target: Path, fresh: Path, space: Path) -> None:
    """Replace a folder, if there is one, by a folder from a workspace.

    A process that is killed between the two renames leaves the old folder in the workspace, from
    where the next write beside it brings it back.
    """
    if not target.is_dir():
        fresh.rename(target)
        return
    shutil.copymode(target, fresh)
    old = space / _REPLACED / target.name
    old.parent.mkdir()
    target.rename(old)
    try:
        fresh.rename(target)
    except BaseException:
        old.rename(target)
        raise


def _status(path: OutputPath) -> os.stat_result | None:
    """Return the status of the target of a path; None if it does not exist."""
    try:
        return os.stat(path)  # noqa: PTH116 - a Path would drop a trailing slash
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise _refused(path, cause.strerror or str(cause), "choose another name") from None
    except ValueError:
        name = os.fspath(path).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        hint = "choose a name without zero bytes and unpaired surrogates"
        raise _refused(name, "this is not a valid file name", hint) from None


def _refused(path: OutputPath, reason: str, hint: str | None = None) -> NnefError:
    default = "check the permissions, or choose another folder"
    return error(f"cannot be written: {reason}", hint=hint or default, file=str(path))


def _is_part_of(path: OutputPath, found: os.stat_result, source: OutputPath) -> bool:
    """Whether an existing file is a given one, or a file of the model in a given folder."""
    with suppress(OSError, ValueError):
        folder, target = Path(source), Path(path).resolve()
        if not folder.is_dir():
            if os.path.samestat(found, folder.stat()):
                return True
            if folder.name != MAIN_FILE:  # Which stands for the folder around it.
                return False
            folder = folder.parent
        is_file_of_model = target.suffix in _MODEL_SUFFIXES or target.name == METADATA_FILE
        return is_file_of_model and target.is_relative_to(folder.resolve())
    return False


def _send(draft: Path, path: OutputPath) -> None:
    """Copy a file to standard output, a device or a pipe."""
    with draft.open("rb") as source:
        if os.fspath(path) == STANDARD_OUTPUT:
            sys.stdout.flush()
            stream = getattr(sys.stdout, "buffer", None)
            if stream is None:
                raise OSError("standard output takes text only")
            shutil.copyfileobj(source, stream)
            stream.flush()
        else:
            with Path(path).open("wb") as stream:
                shutil.copyfileobj(source, stream)


def _locked_folder(folder: Path) -> tuple[Path, int | None]:
    """Return a new temporary folder, and the descriptor that holds its lock; None on Windows."""
    while True:
        space = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=folder))
        if sys.platform == "win32":
            return space, None
        lock = os.open(space, os.O_RDONLY)
        _lock(lock, wait=True)
        if space.is_dir():  # Another process may have swept it before it was locked.
            return space, lock
        os.close(lock)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock an open folder until it is closed; false if another process has locked it."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # In use, or a file system without locks.
        return False
    return True


def _sweep(folder: Path) -> None:
    """Remove temporary folders whose process has ended without doing so, except on Windows."""
    if sys.platform == "win32":
        return
    for leftover in sorted(folder.glob(f"{_TEMPORARY}*")):
        with suppress(OSError):
            if leftover.lstat().st_uid != os.getuid() or leftover.is_symlink():
                continue
            handle = os.open(leftover, os.O_RDONLY)
            try:
                if _lock(handle, wait=False):
                    _bring_back(leftover)
                    shutil.rmtree(leftover)
            finally:
                os.close(handle)


def _bring_back(leftover: Path) -> None:
    """Rename back a folder that was being replaced when the process was killed."""
    for old in (leftover / _REPLACED).glob("*"):
        target = leftover.parent / old.name
        if not target.exists():
            old.rename(target)
