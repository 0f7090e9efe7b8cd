"""A model in ONNX Runtime, to be run beside what was built here: a file in, a function out."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_nnef.diagnostics import error


@dataclass(frozen=True, slots=True)
class Session:
    """A session of ONNX Runtime with all of its optimizations, on so many threads."""

    names: tuple[str, ...]
    _session: Any

    def prepared(self, inputs: Mapping[str, Any]) -> Callable[[], list[Any]]:
        """What runs the model on arrays by the names of the inputs."""

        def call() -> list[Any]:
            found: list[Any] = self._session.run(None, dict(inputs))
            return found

        return call

    def prepared_in_order(self, inputs: Sequence[Any]) -> Callable[[], list[Any]]:
        """The same for arrays in the order of the inputs; NnefError for another number of them."""
        if len(inputs) != len(self.names):
            raise error(
                f"the ONNX model takes {len(self.names)} inputs, but {len(inputs)} are given",
                hint="compare a model with the ONNX model that it was converted from",
            )
        return self.prepared(dict(zip(self.names, inputs, strict=True)))


def installed() -> bool:
    """Whether ONNX Runtime is there."""
    return importlib.util.find_spec("onnxruntime") is not None


def open_session(path: Path, threads: int) -> Session:
    """The session of an ONNX file; NnefError where it is not installed or refuses the model."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        hint = "pip install 'tvm-nnef[onnx]'"
        raise error("ONNX Runtime is not installed", hint=hint) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except _failures(onnxruntime) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise error(f"ONNX Runtime refuses '{path}': {reason}") from None
    return Session(tuple(item.name for item in session.get_inputs()), session)


def largest_relative_error(found: Any, expected: Any) -> float:
    """The largest difference of two arrays, relative to the largest element of the second."""
    difference = np.abs(np.asarray(found, "float64") - np.asarray(expected, "float64"))
    scale = np.abs(np.asarray(expected, "float64")).max(initial=0.0)
    return float(difference.max(initial=0.0) / max(1e-30, scale))


def _failures(runtime: Any) -> tuple[type[Exception], ...]:
    kinds = vars(runtime.capi.onnxruntime_pybind11_state).values()
    own = (each for each in kinds if isinstance(each, type) and issubclass(each, Exception))
    return (RuntimeError, ValueError, *own)
