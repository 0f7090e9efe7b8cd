"""Arrays that a user has allocated for the outputs of a model.

Input: the arrays, checked before the model runs; then its outputs as tensors of TVM. Output: the
arrays, filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.arguments.calls import OutputPorts, Outputs
from tvm_nnef.arguments.ports import PortInfo, TensorInfo
from tvm_nnef.diagnostics import InputError, NnefError, did_you_mean, error, plural
from tvm_nnef.tvm_support.runtime import Array, array_of, copy_to, dtype_name, numpy_view

Buffers: TypeAlias = "Mapping[str, Any] | Sequence[Any] | object"
"""Preallocated outputs: an array for a single output, a sequence in order, or arrays by name."""


class OutputBuffers:
    """Arrays for some outputs of a model, which have their names, shapes and dtypes."""

    def __init__(self, outputs: OutputPorts, given: Buffers) -> None:
        """Raises InputError for arrays that do not fit the outputs."""
        self._outputs = outputs
        self._given = _ordered(outputs, given)
        self._targets = [
            target
            for port, value in zip(outputs.ports, self._given, strict=True)
            for target in _targets(port, value)
        ]

    def filled(self, tensors: Sequence[Any]) -> Outputs:
        """The outputs: what was given with the values of the tensors, new arrays for the others.

        Raises InputError for an array whose shape is not that of the output, if it is dynamic.
        """
        outputs = self._outputs
        for (info, target), tensor in zip(self._targets, tensors, strict=True):
            if target is None or target.shape == info.shape:
                continue  # Without symbols in the shape it was checked before the run.
            if target.shape != (actual := tuple(tensor.shape)):
                raise _misfit(info.name, f"shape {actual}", target.shape)
        arrays = [
            array_of(tensor, dtype) if target is None else copy_to(target, tensor)
            for (_, target), tensor, dtype in zip(
                self._targets, tensors, outputs.dtypes, strict=True
            )
        ]
        made = outputs.grouped(arrays, list)
        values = [
            new if given is None else given for given, new in zip(self._given, made, strict=True)
        ]
        return Outputs(outputs.names, values, outputs.by_source)


def _ordered(outputs: OutputPorts, given: Buffers) -> list[Any]:
    """The preallocated array of each output in order, None for one that has none.

    Raises InputError for an unknown name and for too many arrays.
    """
    names, others = outputs.names, outputs.by_source
    if isinstance(given, Mapping):
        given = {name if name in names else others.get(name, name): given[name] for name in given}
        for name in given:
            if name not in names:
                hint = did_you_mean(str(name), names) or f"the outputs are {', '.join(names)}"
                raise error(f"the model has no output '{name}'", hint=hint, kind=InputError)
        return [given.get(name) for name in names]
    buffers = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(buffers) != len(names):
        hint = "give one for each, or a mapping from names to arrays for some of them"
        message = f"the model has {plural(len(names), 'output')} ({', '.join(names)})"
        raise error(f"{message}, got {len(buffers)} in 'out'", hint=hint, kind=InputError)
    return buffers


def _targets(port: PortInfo, given: Any) -> list[tuple[TensorInfo, Array | None]]:
    """Each tensor of an output, and the array that receives it, if there is one."""
    if isinstance(port, TensorInfo):
        return [(port, None if given is None else _checked(port, given))]
    if given is None:
        return [(item, None) for item in port.items]
    if not isinstance(given, (list, tuple)) or len(given) != len(port.items):
        hint = f"give a list of {plural(len(port.items), 'array')}"
        raise error(f"output '{port.name}' is a pack", hint=hint, kind=InputError)
    return [(i, _checked(i, value)) for i, value in zip(port.items, given, strict=True)]


def _checked(info: TensorInfo, given: Any) -> Array:
    array = numpy_view(given)
    if info.stacked:
        hint = "leave it out of 'out': its items are returned as a list"
        message = f"output '{info.name}' is a pack whose length is known only at run time"
        raise error(message, hint=hint, kind=InputError)
    if not isinstance(array, np.ndarray) or dtype_name(array.dtype) != info.dtype:
        raise _misfit(info.name, info.dtype, getattr(array, "dtype", type(given).__name__))
    if array.shape != info.shape:  # Some dimensions may be texts.
        sizes = zip(info.shape, array.shape, strict=False)
        fits = len(array.shape) == len(info.shape)
        if not fits or any(isinstance(n, int) and n != m for n, m in sizes):
            wanted = ", ".join(map(str, info.shape))
            raise _misfit(info.name, f"shape ({wanted})", array.shape)
    if not array.flags.writeable:
        raise _misfit(info.name, "an array that can be written to", "one that is read-only")
    return array


def _misfit(name: str, wanted: object, got: object) -> NnefError:
    hint = "allocate it as numpy.empty(shape, dtype), as the executable's 'outputs' describe it"
    message = f"output '{name}': expected {wanted}, got {got}"
    return error(message, hint=hint, kind=InputError)
