"""A model in ONNX Runtime, to be run beside what was built here: a file in, a function out."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.support.requirements import needed_for

_HINT = "give the ONNX model that this one was converted from"

_NAMES = {"float": "float32", "double": "float64"}
"""Names of dtypes in ONNX Runtime."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session of ONNX Runtime with all of its optimizations, on so many threads."""

    path: str
    names: tuple[str, ...]
    _session: Any

    def prepared(self, inputs: Mapping[str, Any]) -> Callable[[], list[Any]]:
        """Return a function that runs the model on arrays by the names of the inputs."""
        import onnxruntime

        given, failures = dict(inputs), _failures(onnxruntime)

        def call() -> list[Any]:
            try:
                found: list[Any] = self._session.run(None, given)
            except failures as problem:
                raise _refused(self.path, problem) from None
            return found

        return call

    def prepared_in_order(self, inputs: Sequence[Any]) -> Callable[[], list[Any]]:
        """The same for arrays in the order of the inputs, converted to their dtypes.

        Raises NnefError if the ONNX model takes another number of inputs, or others.
        """
        if len(inputs) != len(self.names):
            raise error(
                f"'{self.path}' takes {len(self.names)} inputs, but the model has {len(inputs)}",
                hint=_HINT,
            )
        expected = self._session.get_inputs()
        arrays = map(self._converted, expected, map(np.asarray, inputs))
        return self.prepared(dict(zip(self.names, arrays, strict=True)))

    def _converted(self, expected: Any, array: Any) -> Any:
        """An array as an input takes it."""
        name = expected.type.removeprefix("tensor(").removesuffix(")")
        dtype = _NAMES.get(name, name)
        shape = expected.shape
        fits = len(shape) == array.ndim and all(
            not isinstance(size, int) or size == given
            for size, given in zip(shape, array.shape, strict=True)
        )
        if not fits or not _convertible(array.dtype, dtype):
            sizes = ", ".join("?" if size is None else str(size) for size in shape)
            raise error(
                f"input '{expected.name}' of '{self.path}' is {dtype} [{sizes}], "
                f"but the model's is {array.dtype} {list(array.shape)}",
                hint=_HINT if fits else f"{_HINT}, with the sizes of that (no --shape)",
            )
        return array.astype(dtype, copy=False) if dtype in np.sctypeDict else array


def installed() -> bool:
    """Whether ONNX Runtime is there."""
    return importlib.util.find_spec("onnxruntime") is not None


def open_session(path: Path, threads: int) -> Session:
    """The session of an ONNX file; NnefError if it is not installed or refuses the model."""
    if not path.is_file():
        raise error("there is no such file", hint="give the path of a .onnx file", file=str(path))
    with needed_for("running the ONNX model"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except _failures(onnxruntime) as problem:
        raise _refused(str(path), problem) from None
    return Session(str(path), tuple(item.name for item in session.get_inputs()), session)


def largest_relative_error(found: Any, expected: Any) -> float:
    """The largest difference of two arrays, relative to the largest element of the second."""
    difference = np.abs(np.asarray(found, "float64") - np.asarray(expected, "float64"))
    scale = np.abs(np.asarray(expected, "float64")).max(initial=0.0)
    return float(difference.max(initial=0.0) / max(1e-30, scale))


def _convertible(given: Any, wanted: str) -> bool:
    """Whether values of a dtype are converted to another: within a kind, and int to int."""
    if str(given) == wanted:
        return True
    if wanted not in np.sctypeDict:
        return False
    kinds = ["iu" if kind in "iu" else kind for kind in (given.kind, np.dtype(wanted).kind)]
    return kinds[0] == kinds[1]


def _refused(path: str, problem: Exception) -> NnefError:
    reason = str(problem).strip().splitlines()[0]
    hint = "check it with onnx.checker, update onnxruntime, or measure without --against"
    return error(f"ONNX Runtime refuses '{path}': {reason}", hint=hint)


def _failures(runtime: Any) -> tuple[type[Exception], ...]:
    kinds = vars(runtime.capi.onnxruntime_pybind11_state).values()
    own = (each for each in kinds if isinstance(each, type) and issubclass(each, Exception))
    return (RuntimeError, ValueError, *own)
