"""The state of an executable: the variables that ``@update`` changes, by name.

Input: tensors of TVM and their descriptions. Output: NumPy arrays, to be read and to be set.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_nnef.arguments.inputs import bind_variables
from tvm_nnef.arguments.ports import TensorInfo
from tvm_nnef.arrays.coded_arrays import storable
from tvm_nnef.diagnostics import NnefError, did_you_mean, error
from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.storage.output import OutputPath, write_file
from tvm_nnef.tvm_support.runtime import Array, array_of, numpy_view, runtime_tensors


class State(Mapping[str, Array]):
    """The variables that ``@update`` changes: arrays by full name, to be read and to be set.

    What is read is a copy. Setting raises NnefError for a name that no such variable has, and for
    an array of another shape or kind of dtype; within a kind values are converted.
    """

    def __init__(self, infos: Sequence[TensorInfo], tensors: Sequence[Any], device: Any) -> None:
        """Takes the descriptions of the variables, and their values as tensors on a device."""
        self._infos = list(infos)
        self._places = {info.name: location for location, info in enumerate(infos)}
        self.tensors = list(tensors)
        self._device = device

    def __getitem__(self, name: str) -> Array:
        location = self._place(name)
        return array_of(self.tensors[location], self._infos[location].dtype)

    def __setitem__(self, name: str, value: Any) -> None:
        location = self._place(name)
        info = self._infos[location]
        shape = tuple(size for size in info.shape if isinstance(size, int))
        variable = Tensor(name, DTYPES[info.dtype], shape, "variable")
        graph = Graph("state", (), (), (), variables=(variable,))
        bound = bind_variables(graph, {name: numpy_view(value)}, {variable: info.dtype})
        (self.tensors[location],) = runtime_tensors([bound[variable]], self._device)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._infos)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __repr__(self) -> str:
        return f"State({dict(self)})"

    def save(self, path: OutputPath) -> None:
        """Write the values to a file of NumPy (``.npz``), which :meth:`load` reads."""
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **{name: storable(self[name]) for name in self})
        write_file(path, packed.getvalue())

    def load(self, path: OutputPath) -> None:
        """Set all values from a file that :meth:`save` has written.

        Raises NnefError for a file that is not such, and for values that do not fit; nothing is
        set then.
        """
        file = os.fspath(path)
        try:
            with np.load(file, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
        except (OSError, ValueError, zipfile.BadZipFile) as problem:
            reason = f"it has no state: {problem}"
            raise error(reason, hint="give a file of save_state", file=file) from None
        if set(found) != set(self):
            missing = ", ".join(sorted(set(self) ^ set(found)))
            hint = "give a file that the same model has written"
            raise error(f"it has the state of another model: {missing}", hint=hint, file=file)
        old = list(self.tensors)
        try:
            for info in self._infos:
                self[info.name] = found[info.name]
        except NnefError:
            self.tensors = old
            raise

    def copied(self) -> list[Any]:
        """Return copies of the tensors: a run may write to the memory of those that it gets."""
        return runtime_tensors(map(array_of, self.tensors), self._device)

    def own(self) -> None:
        """Replace the tensors by copies, if others may read their memory."""
        self.tensors = self.copied()

    def _place(self, name: str) -> int:
        if name not in self._places:
            message = f"'{name}' is not a variable that @update changes"
            raise error(message, hint=did_you_mean(name, self._places) or f"these are {[*self]}")
        return self._places[name]
