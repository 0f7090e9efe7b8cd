"""The options of a compilation, which :func:`tvm_nnef.build` creates once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tvm_nnef.compilation.timings import Timings
    from tvm_nnef.measurement.kernel_report import KernelReport

Verbose: TypeAlias = "bool | Callable[[KernelReport], None]"
"""Gets the report of the kernels; true prints it."""


@dataclass(frozen=True, slots=True)
class Compiling:
    """The compilation of a module: the options of :func:`tvm_nnef.build` for that.

    ``dump_dir`` receives a file for each pass that changed the module, and lists of the passes and
    of the kernels with the strategies that scheduled them. ``database`` is a folder that ``tune``
    wrote. ``verbose`` is called with the report of the kernels, or true to print it; kernels are
    timed for it if this machine runs code for the target. ``timings`` is called with the time of
    each pass, or true to print it. ``threads`` is how many threads kernels and calls of the
    executable use. ``checked`` compiles bounds checks into the kernels. ``verify`` compares each
    scheduled kernel with its unscheduled TIR (:mod:`tvm_nnef.compilation.verify`), if this machine
    runs code for the target. ``cuda_graphs`` captures launches of kernels as CUDA graphs.
    ``int8_activations`` rounds what many rows multiply with weights of few bits.
    """

    dump_dir: str | os.PathLike[str] | None = None
    database: str | os.PathLike[str] | None = None
    verbose: Verbose = False
    timings: bool | Callable[[Timings], None] = False
    threads: int | None = None
    checked: bool = False
    verify: bool = False
    cuda_graphs: bool = False
    int8_activations: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked for that a library which was built before cannot give."""
        reports = self.verbose or self.timings or self.verify or self.dump_dir
        return not (reports or self.cuda_graphs or self.database)


DEFAULT = Compiling()
"""The options of a plain build."""
