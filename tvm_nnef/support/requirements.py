"""Optional requirements: packages that only some calls need, and how to install them."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tvm_nnef.diagnostics import NnefError, error

_WITHOUT_TVM = (
    "; without it, static models are checked, shown, converted and run (--route reference)"
)

_PACKAGES: Mapping[str, tuple[str, str, str]] = {
    "PIL": ("pillow", "", ", or give a '.npy' file"),
    "jax": ("jax", "jax", ""),
    "jaxlib": ("jax", "jax", ""),
    "lark": ("lark", "", ""),
    "lsprotocol": ("pygls", "lsp", ""),
    "ml_dtypes": ("ml-dtypes", "", ""),
    "numpy": ("numpy", "", ""),
    "onnx": ("onnx", "onnx", ""),
    "onnxruntime": ("onnxruntime", "onnx", ""),
    "onnxscript": ("onnxscript", "torch", ""),
    "pygls": ("pygls", "lsp", ""),
    "rich": ("rich", "", ""),
    "torch": ("torch", "torch", ""),
    "tvm": ("apache-tvm", "", _WITHOUT_TVM),
    "tvm_ffi": ("apache-tvm-ffi", "", _WITHOUT_TVM),
}
"""The requirement of a module: its package, the extra that installs it, and an alternative."""


@contextmanager
def needed_for(work: str, file: str | None = None) -> Iterator[None]:
    """Yield; the block imports packages that ``work`` (on a file) needs. Also a decorator.

    Raises NnefError, instead of ImportError, for one that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as cause:
        if (found := missing_package(cause, work, file)) is None:
            raise
        raise found from cause


def missing_package(
    cause: ModuleNotFoundError, work: str, file: str | None = None
) -> NnefError | None:
    """Return the error for a package that ``work`` (on a file) needs; None for other modules."""
    name = (cause.name or "").partition(".")[0]
    if name not in _PACKAGES:
        return None
    if (hidden := hidden_package(name)) is not None:
        return hidden
    package, extra, otherwise = _PACKAGES[name]
    hint = installing(extra, package) + otherwise
    return error(f"{work} needs the package '{package}'", hint=hint, file=file)


def hidden_package(missing: str | None = None) -> NnefError | None:
    """Return the error for a file of the user that hides a required package; None if none does.

    ``missing`` is a package that was searched, but may not have been imported.
    """
    # Python searches a program's folder and PYTHONPATH before installed packages.
    before = {str(Path(each or ".").resolve()) for each in (".", *_python_path())}
    for name in _PACKAGES:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is None and name == missing:
            file = getattr(importlib.util.find_spec(name), "origin", None)
        if file is None:
            continue
        folder = Path(file).resolve().parent
        root = folder.parent if folder.name == name else folder
        # PYTHONPATH may name a folder of installed packages, each of which has such a folder.
        described = f"{_PACKAGES[name][0].replace('-', '_')}-*.dist-info"
        if str(root) in before and not any(root.glob(described)):
            hint = "rename it, or run the command in another folder"
            return error(f"this file hides the package '{name}'", hint=hint, file=file)
    return None


def _python_path() -> list[str]:
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)


def installing(extra: str, package: str) -> str:
    """Return the command that installs the packages of an extra, or a standard package.

    It names the packages, as this one need not be in the index that pip reads.

    >>> installing("onnx", "onnx")
    "pip install 'onnx>=1.19' 'onnxruntime>=1.20'"
    """
    return f"pip install {' '.join(_requirements(extra, package)) or package}"


def _requirements(extra: str, package: str) -> list[str]:
    """Return the packages of an extra with their versions, or those of one standard package."""
    from importlib import metadata  # Takes as long to import as half of this package.

    try:
        declared = metadata.requires("tvm-nnef") or []
    except metadata.PackageNotFoundError:
        return []
    requirements = []
    for each in declared:
        requirement, _, marker = each.partition(";")
        match = re.match(r"([\w.-]+)(?:\[(\w+)\])?", requirement)
        name, inner = match.groups() if match else ("", None)
        of_extra = re.search(r"extra == ['\"](\w+)['\"]", marker)
        if (of_extra[1] if of_extra else "") != extra or (not extra and name != package):
            continue
        own = name == "tvm-nnef" and inner is not None
        requirements += _requirements(str(inner), "") if own else [f"'{requirement.strip()}'"]
    return requirements
