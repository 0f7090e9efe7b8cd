"""A library file, loaded as an executable. TVM's compiler is not imported."""

from __future__ import annotations

import os

from tvm_nnef.diagnostics import error
from tvm_nnef.executable import devices
from tvm_nnef.executable.library_file import LibraryFile, read_library
from tvm_nnef.executable.metadata import read_metadata
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.support.argument_kinds import with_checked_arguments
from tvm_nnef.tvm_support import runtime


@with_checked_arguments
def load(path: str | os.PathLike[str]) -> Executable:
    """Load a library that :meth:`Executable.export` or ``tvm-nnef build`` wrote.

    TVM's runtime is needed, not its compiler.

    Parameters
    ----------
    path
        The library; its kind is detected from the content. A parameter file must be beside it.

    Returns
    -------
    Executable
        The compiled model.

    Raises
    ------
    NnefError
        If a file is missing, damaged or not a library, or if the library is for another machine,
        CPU features or version. This is checked before any code is mapped.

    Examples
    --------
    >>> import tempfile
    >>> import tvm_nnef
    >>> executable = tvm_nnef.build("docs/examples/digits", progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     executable.export(f"{folder}/digits.tar")
    ...     tvm_nnef.load(f"{folder}/digits.tar")
    <Executable (image: float32[1, 1, 8, 8]) -> (probabilities: float32[1, 10])>
    """
    return loaded(read_library(path), os.fspath(path))


def loaded(file: LibraryFile, path: str) -> Executable:
    """The executable of a library file, which messages call by a path; NnefError."""
    device = str(read_metadata(file.metadata)["target"]["device"])
    try:
        library = devices.load_library(str(file.path), device)
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
