"""Object files in, a shared library out: by a C++ compiler or a linker that is installed."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tvm_nnef.diagnostics import NnefError, error

_COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")
"""Compilers that link; in this order, the first one that is installed is used."""

_LINKERS = ("ld.lld", "ld") if sys.platform == "linux" else ()
"""Linkers that do without a compiler: kernels need nothing but the C library of the program."""


def find_linker() -> list[str]:
    """The command that links a shared library, without the names of files.

    It is ``$CXX`` or ``$CC`` if set, or else a compiler or linker on the ``PATH``, or the PyPI
    package ``ziglang``. Raises :class:`NnefError` if there is none.
    """
    for variable in ("CXX", "CC"):
        words = _words(os.environ.get(variable, ""))
        if words and shutil.which(words[0]) is None:
            hint = f"install it, or unset {variable}"
            raise error(f"the compiler '{words[0]}' that ${variable} names is missing", hint=hint)
        if words:
            return _shared(words)
    if found := next(filter(None, map(shutil.which, _COMPILERS)), None):
        return _shared([found])
    if found := next(filter(None, map(shutil.which, _LINKERS)), None):
        return [found, "-shared"]
    if importlib.util.find_spec("ziglang") is not None:
        return _shared([sys.executable, "-m", "ziglang", "cc"])
    raise error(
        "a shared library cannot be linked: there is no C++ compiler",
        hint="install one ('apt install g++', 'pip install ziglang') or name it in $CXX; "
        "a library whose name ends in '.tar' is linked where it is loaded",
    )


def link(objects: Sequence[Path], library: Path) -> None:
    """Link object files to a shared library.

    Raises :class:`NnefError` if there is no linker or it fails.
    """
    command = [*find_linker(), "-o", str(library), *map(str, objects)]
    try:
        run = subprocess.run(command, capture_output=True, check=False)
    except OSError as cause:
        raise _failed(command, cause.strerror or str(cause)) from None
    if run.returncode:
        lines = (run.stderr or run.stdout).decode(errors="replace").strip().splitlines()
        raise _failed(command, lines[0] if lines else f"exit status {run.returncode}")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _shared(command: list[str]) -> list[str]:
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    return [*command, "-shared", "-fPIC", *undefined]


def _failed(command: Sequence[str], reason: str) -> NnefError:
    hint = "check the compiler, the free disk space and limits on file sizes"
    return error(f"linking with '{command[0]}' fails: {reason}", hint=hint)
