"""A library file, loaded as an executable. TVM's compiler is not imported."""

from __future__ import annotations

import os

from tvm_nnef.diagnostics import error
from tvm_nnef.library_file import LibraryFile, read_library
from tvm_nnef.library_metadata import read_metadata
from tvm_nnef.runtime import Executable
from tvm_nnef.tvm_support import runtime


def load(path: str | os.PathLike[str]) -> Executable:
    """Load the library that :meth:`Executable.export` wrote, whatever the name of its file.

    It needs TVM's runtime, not its compiler. Raises NnefError if the file or its parameter file is
    missing, is not such a library, is not as it was written, or is for another kind of machine, a
    CPU with other features, or another version.
    """
    return loaded(read_library(path), os.fspath(path))


def loaded(file: LibraryFile, path: str) -> Executable:
    """The executable of a library file, which messages call by a path; NnefError."""
    device = str(read_metadata(file.metadata)["target"]["device"])
    try:
        library = runtime.load_library(str(file.path), device)
        return Executable(library, file=file, metadata=file.metadata, weights=file.weights)
    except (RuntimeError, AttributeError, ValueError, TypeError, LookupError) as problem:
        missing = runtime.missing_library(device)
        if missing is not None:
            message = f"'{path}' is a library for {device}, whose driver this machine does not have"
            hint = f"load it on a machine with such a device and its driver ({missing})"
            raise error(message, hint=hint) from None
        reason = str(problem).strip().splitlines() or ["unknown reason"]
        hint = "load reads what Executable.export wrote, for the same kind of machine"
        raise error(f"cannot load '{path}': {reason[0]}", hint=hint) from None
