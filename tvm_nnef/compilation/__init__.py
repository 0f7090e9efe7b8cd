"""IRModule in, :class:`tvm_nnef.runtime.Executable` out; the stages stand in ``pipeline.py``."""

from __future__ import annotations

import os

from tvm_nnef.compilation.pipeline import Progress, compile_module
from tvm_nnef.compilation.target import resolve
from tvm_nnef.runtime import Executable
from tvm_nnef.tvm_compat import Module

__all__ = ["build_module", "compile_module", "resolve"]


def build_module(
    mod: Module,
    target: object = "native",
    *,
    progress: bool | Progress = False,
    dump_dir: str | os.PathLike[str] | None = None,
) -> Executable:
    """The executable of a module for a target.

    ``progress`` is what is told of each stage, or true for a bar on standard error, plain
    lines where that is no terminal. Raises NnefError for an unknown target.
    """
    if not isinstance(progress, bool):
        return Executable(compile_module(mod, target, dump_dir=dump_dir, progress=progress))
    if not progress:
        return Executable(compile_module(mod, target, dump_dir=dump_dir))
    from tvm_nnef.compilation.progress import progress_reported

    with progress_reported() as report:
        return Executable(compile_module(mod, target, dump_dir=dump_dir, progress=report))
