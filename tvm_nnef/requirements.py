"""Packages of others that only some calls need: what to install if one is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tvm_nnef.diagnostics import error

_WITHOUT_TVM = (
    "; without it, static models are checked, shown, converted and run (--route reference)"
)

_PACKAGES: Mapping[str, tuple[str, str, str]] = {
    "PIL": ("pillow", "", ", or give a '.npy' file"),
    "grandalf": ("grandalf", "", ""),
    "jax": ("jax", "[jax]", ""),
    "jaxlib": ("jax", "[jax]", ""),
    "lsprotocol": ("pygls", "[lsp]", ""),
    "ml_dtypes": ("ml-dtypes", "", ""),
    "onnx": ("onnx", "[onnx]", ""),
    "onnxruntime": ("onnxruntime", "[onnx]", ""),
    "onnxscript": ("onnxscript", "[torch]", ""),
    "pygls": ("pygls", "[lsp]", ""),
    "rich": ("rich", "", ""),
    "torch": ("torch", "[torch]", ""),
    "tvm": ("apache-tvm", "", _WITHOUT_TVM),
    "tvm_ffi": ("apache-tvm-ffi", "", _WITHOUT_TVM),
}
"""What a module is part of: its package, the extra of ours that installs it, and another way."""


@contextmanager
def needed_for(work: str, file: str | None = None) -> Iterator[None]:
    """A block, or a function, that imports packages of others, which ``work`` (on a file) needs.

    Raises NnefError, instead of ImportError, for one that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as cause:
        name = (cause.name or "").partition(".")[0]
        if name not in _PACKAGES:
            raise
        package, extra, otherwise = _PACKAGES[name]
        requirement = f"'tvm-nnef{extra}'" if extra else "tvm-nnef"
        hint = f"pip install {requirement}{otherwise}"
        raise error(f"{work} needs the package '{package}'", hint=hint, file=file) from cause
