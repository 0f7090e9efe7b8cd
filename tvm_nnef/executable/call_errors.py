"""Errors of calls of a compiled model, with hints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

from tvm_nnef.diagnostics import Diagnostic, NnefError, TargetError, error
from tvm_nnef.executable import devices
from tvm_nnef.executable.metadata import mismatch
from tvm_nnef.graph.check_failure import CheckFailure
from tvm_nnef.graph.checks import complaint
from tvm_nnef.tvm_support.device_errors import OUT_OF_MEMORY

Sizes: TypeAlias = tuple[tuple[str, int], ...]
"""Symbols and their values."""


def refuse_copy(executable: object) -> NoReturn:
    """Raises NnefError for ``pickle`` and ``copy``."""
    hint = "another process loads what export() wrote; clone() makes one for another thread"
    raise error("an executable cannot be pickled or copied", hint=hint)


def check_sizes(checks: Iterable[Mapping[str, Any]], values: Mapping[str, int]) -> None:
    """Raises NnefError if values of the symbols fail checks of the model."""
    failures = ((check, complaint(check, values)) for check in checks)
    problems = [
        Diagnostic(message, None, check.get("hint"), (), file=check["place"] or None)
        for check, message in failures
        if message
    ]
    if problems:
        raise NnefError(problems)


def run_error(problem: Exception) -> NnefError | None:
    """The error for an exception of TVM in a run; None for one that is not known."""
    if "std::bad_alloc" in str(problem):
        return error("not enough memory for the tensors of the model", hint=OUT_OF_MEMORY)
    failure = CheckFailure.of(problem)
    if failure is None:
        return None
    hint = "give inputs for which the model's check holds"
    return error(failure.message, hint=hint, file=failure.location or None)


def missing_device(metadata: Mapping[str, Any], kind: str) -> NnefError:
    """The error for a call on a machine that cannot run the model."""
    hint = "export it, and load the library on such a machine"
    needed = mismatch(metadata)
    if needed is None and kind == "vulkan":
        return devices.missing_vulkan() or error("this machine has no GPU", hint=hint)
    needed = needed or f"{kind.upper()}, and there is no such GPU here"
    return error(f"this model is built for {needed}", hint=hint, kind=TargetError)
