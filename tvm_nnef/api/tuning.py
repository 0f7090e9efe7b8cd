"""A model tuned in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm_nnef.api.building import lowered
from tvm_nnef.formats.reading import AnyModel
from tvm_nnef.support.argument_kinds import with_checked_arguments

if TYPE_CHECKING:
    import os

    import tvm
    from typing_extensions import Unpack

    from tvm_nnef.model.options import LowerOptions
    from tvm_nnef.tuning.report import TuningReport, TuningState


@with_checked_arguments
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
    """Search for faster schedules of a model's kernels, by measuring them on this machine.

    Parameters
    ----------
    model_or_mod, target
        As for :func:`build`. The machine must be able to run code for the target.
    trials
        How many schedules to measure at most; those that the database has already count.
    database
        A folder to keep the schedules in, after each trial. An interrupted search
        (KeyboardInterrupt is raised) is continued by the same call. ``build(database=...)`` uses
        for each kernel the tuned schedule if it was faster than the default one, both measured in
        turns.
    progress
        Show a progress bar; or a function that gets the state after each trial.
    threads
        How many cores kernels run on; all by default.
    **from_nnef_options
        Those of :func:`from_nnef`; not with a module.

    Returns
    -------
    TuningReport
        The time of each kernel before and after.

    Raises
    ------
    NnefError
        For errors in the model, a target that this machine cannot run, and a folder with other
        content, or of another target or version of TVM.

    Examples
    --------
    >>> import tempfile
    >>> import tvm_nnef
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = tvm_nnef.tune(
    ...         "docs/examples/digits", trials=2, database=folder, progress=False
    ...     )
    >>> report.trials
    2
    """
    from tvm_nnef.tuning.session import tune_module

    module = lowered(model_or_mod, from_nnef_options)
    return tune_module(
        module, target, trials=trials, database=database, progress=progress, threads=threads
    )
