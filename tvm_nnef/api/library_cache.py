"""Compiled libraries in the user's cache folder, from one process to the next.

Input: a model with the options it is built with. Output: a key, under which the library that was
built once is found again. Nothing here fails: what cannot be read is built again, and what cannot
be written is not kept. A key covers the texts, weights and options of the model, the target and
this machine, and the versions and files of the compiler, so that an entry is never stale.

Entries are folders that are renamed into place when they are complete, so writers of the same
entry do not disturb each other; a library is verified by its digest before it is loaded. Those
that were not used for the longest time are removed once all take more than :func:`capacity`.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable.library_file import read_entry, write_entry
from tvm_nnef.executable.loading import loaded
from tvm_nnef.executable.metadata import mismatch
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.storage.metadata import write_metadata
from tvm_nnef.storage.output import workspace
from tvm_nnef.support import host_machine, user_cache
from tvm_nnef.support.environment import whole_number
from tvm_nnef.tvm_support import runtime
from tvm_nnef.version import __version__

if TYPE_CHECKING:
    from tvm_nnef.compilation.options import Compiling
    from tvm_nnef.model.model import Model
    from tvm_nnef.model.options import Composing, Lowering

_LOG = logging.getLogger(__name__)

_VARIABLE = "TVM_NNEF_CACHE_MIB"
_DEFAULT = 1024
"""Entries take at most so many MiB, unless the environment variable has another number."""

_TURNS = 16
"""Old entries are removed after one new entry in so many, and after each that is large."""

_WRITABLE_BY_OTHERS = 0o022


def capacity() -> int:
    """The most bytes that entries take, from ``TVM_NNEF_CACHE_MIB``; with 0 nothing is kept."""
    given = whole_number(_VARIABLE, 0)
    return (_DEFAULT if given is None else given) << 20


def key_of(
    model: Model,
    composing: Composing,
    lowering: Lowering,
    target: object,
    options: Compiling,
) -> str | None:
    """The name of the entry for a model that is built with options; None if it is not kept."""
    if not capacity() or user_cache.folder() is None or lowering.lowerings:
        return None
    try:
        parts = [
            json.dumps({**_given(composing), **_given(lowering)}, sort_keys=True),
            f"{options.int8_activations=}",
            target if isinstance(target, str) else json.dumps(target, sort_keys=True),
            *_machine(),
            *_versions(),
            *_texts(model),
        ]
        return user_cache.key_of(*parts, *_weights(model.variables))
    except (NnefError, TypeError, ValueError, OSError):
        return None  # An option or a weight that has no text, or is wrong: the build reports it.


def find(key: str) -> Executable | None:
    """The library of a key, if it is there and as it was written."""
    entry = _folder() / key
    if not entry.is_dir() or not _is_trusted(entry.parent):
        return None
    try:
        found = loaded(read_entry(entry), str(entry))
        os.utime(entry)
    except (NnefError, OSError) as problem:
        _LOG.info("removing the damaged cache entry %s: %s", entry, problem)
        _remove(entry)
        return None
    _LOG.info("loaded the compiled library from the cache entry %s", entry)
    return found


def keep(key: str, built: Executable) -> Executable:
    """The executable from a new entry, whose code is generated once; as it was if that fails."""
    source = built.compiled
    if source is None or str(built.metadata["target"]["device"]) != "cpu":
        return built
    if mismatch(built.metadata) is not None:
        return built  # This machine could not load it.
    root = _folder()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_trusted(root):
            return built
        with workspace(root) as space:
            draft = space / key
            draft.mkdir()
            write_entry(draft, source)
            size = _size(draft)
            if size > capacity():
                return built
            with suppress(OSError):  # Another process has written the same entry.
                draft.rename(root / key)
        # To look through thousands of entries takes longer than a small build.
        if size * _TURNS > capacity() or int(key[:8], 16) % _TURNS == 0:
            _remove_oldest(root, key)
    except (NnefError, OSError) as problem:
        _LOG.info("the compiled library is not kept in the cache: %s", problem)
        return built
    _LOG.info("kept the compiled library in the cache entry %s", root / key)
    return find(key) or built


def _folder() -> Path:
    folder = user_cache.folder()
    assert folder is not None, "there is no key without a folder"
    return folder / "libraries"


def _is_trusted(folder: Path) -> bool:
    """Whether only this user can have written the entries of a folder, which are executed."""
    if not hasattr(os, "geteuid"):
        return True
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE_BY_OTHERS


def _remove(entry: Path) -> None:
    """Remove an entry; under another name first, so that no reader finds a part of it."""
    with suppress(OSError), workspace(entry.parent) as space:
        entry.rename(space / entry.name)


def _remove_oldest(root: Path, kept: str) -> None:
    """Remove entries, those used last before all others, until they take no more than allowed."""
    entries = sorted(_entries(root), key=lambda each: each[1])
    total = sum(size for _, _, size in entries)
    for entry, _, size in entries:
        if total <= capacity():
            break
        if entry.name != kept:
            _remove(entry)
            total -= size


def _entries(root: Path) -> Iterator[tuple[Path, float, int]]:
    """The entries of the cache, when each was used last, and its bytes."""
    for entry in root.iterdir():
        with suppress(OSError):  # Another process removes it.
            if not entry.name.startswith("."):
                yield entry, entry.stat().st_mtime, _size(entry)


def _size(entry: Path) -> int:
    with os.scandir(entry) as files:
        return sum(each.stat().st_size for each in files)


def _given(options: Composing | Lowering) -> dict[str, Any]:
    """The options that say something, whether a program or the command line gave them."""
    every = {each.name: getattr(options, each.name) for each in fields(options)}
    return {name: value for name, value in every.items() if value not in (None, {}, ())}


def _texts(model: Model) -> Iterator[str | bytes]:
    """The texts of a model's modules with their names, and its metadata."""
    yield model.dialect
    for name, module in model.program.modules.items():
        yield from (name, module.source.path, module.source.text)
    yield write_metadata(model.metadata)


def _weights(variables: Mapping[str, Any]) -> Iterator[str]:
    """For each variable its name, dtype, shape, and the digest of its values."""
    for name in sorted(variables):
        array = np.ascontiguousarray(variables[name])
        if array.dtype.hasobject:
            raise TypeError("an array of objects has no digest")
        data = array.reshape(-1).view("uint8").data if array.size else b""
        yield f"{name} {array.dtype} {np.shape(variables[name])} {sha256(data).hexdigest()}"


@functools.cache
def _machine() -> tuple[str, ...]:
    """Return the meaning of ``native`` here: the CPU as the operating system describes it."""
    features = sorted(host_machine.present_features() or ())
    names = (host_machine.architecture(), host_machine.system(), platform.processor())
    return (*names, *host_machine.cpu_names(), *features)


@functools.cache
def _versions() -> tuple[str, ...]:
    """The versions of all that takes part in a build, and the files of this package."""
    versions = (__version__, runtime.version(), runtime.ffi_version())
    return (*versions, np.__version__, platform.python_version(), *_sources())


def _sources() -> Iterator[str]:
    """The names, sizes and times of the files of this package, which a developer changes."""
    for package in ("tvm_nnef", "tvm_nnef.converters", "tvm_nnef.schedules"):
        spec = importlib.util.find_spec(package)  # Imports no compiler.
        root = str(Path(str(spec and spec.origin)).parent)
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                status = Path(folder, name).stat()
                yield f"{folder}/{name} {status.st_size} {status.st_mtime_ns}"
