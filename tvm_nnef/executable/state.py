"""The state of an executable: the variables that ``@update`` changes, by name.

Input: tensors of TVM and their descriptions. Output: NumPy arrays, to be read and to be set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm_nnef.arguments.inputs import bind_variables
from tvm_nnef.arguments.ports import TensorInfo
from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.graph.nodes import Graph, Tensor
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
        shape = tuple(extent for extent in info.shape if isinstance(extent, int))
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

    def _place(self, name: str) -> int:
        if name not in self._places:
            message = f"'{name}' is not a variable that @update changes"
            raise error(message, hint=did_you_mean(name, self._places) or f"these are {[*self]}")
        return self._places[name]
