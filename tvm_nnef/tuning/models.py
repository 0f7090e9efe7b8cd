"""A model tuned in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm_nnef.api import lowered
from tvm_nnef.model import AnyModel

if TYPE_CHECKING:
    import os

    import tvm
    from typing_extensions import Unpack

    from tvm_nnef.options import LowerOptions
    from tvm_nnef.tuning.report import TuningReport, TuningState


def tune(
    model_or_mod: AnyModel | tvm.IRModule,
    target: Any = "native",
    *,
    trials: int,
    database: str | os.PathLike[str],
    progress: bool | Callable[[TuningState], None] = True,
    threads: int | None = None,
    **from_nnef_options: Unpack[LowerOptions],
) -> TuningReport:
    """Searches faster schedules for the kernels of a model, by measuring them on this machine.

    At most ``trials`` schedules are measured, those included that the folder ``database`` has of
    these kernels already. What is found is kept there after each trial, so that an
    interruption (KeyboardInterrupt is raised on) loses nothing, and the same call goes on where
    it was. ``build(..., database=...)`` takes it: for each kernel the tuned schedule if it was
    faster than the default one, both measured in turns, else the default. ``progress`` shows a bar,
    or is called with the state after each trial. Kernels run on ``threads`` cores, or on all.

    Raises NnefError for everything that is wrong with the model, for a target whose code this
    machine does not run, and for a folder that holds something else, or what was tuned for another
    target or version of TVM.
    """
    from tvm_nnef.tuning.session import tune_module

    module = lowered(model_or_mod, dict(from_nnef_options))
    return tune_module(
        module, target, trials=trials, database=database, progress=progress, threads=threads
    )
