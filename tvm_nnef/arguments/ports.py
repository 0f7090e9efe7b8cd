"""The inputs and outputs of a compiled library, as its metadata describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.graph.nodes import Graph, Port, Tensor
from tvm_nnef.symbolic import trees


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The shape and dtype of a tensor of an input or output.

    A dynamic dimension is text: the name of a symbol, or an expression of such. A pack
    of dynamic length is ``stacked``: a list in Python, whose length is the first dimension.
    ``source`` is its name in the model that this one was converted from, if that is another one;
    ``has_default`` says that a call may leave the input out.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    stacked: bool = False
    source: str = ""
    has_default: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class PackInfo:
    """An input or output that is a list of tensors."""

    name: str
    items: tuple[TensorInfo, ...]
    source: str = ""

    def __str__(self) -> str:
        return f"{self.name}: list of {len(self.items)}"


PortInfo: TypeAlias = "TensorInfo | PackInfo"


def dtypes_of(ports: Sequence[PortInfo]) -> list[str]:
    """The dtypes of the tensors of ports, one after the other."""
    every = ([port] if isinstance(port, TensorInfo) else port.items for port in ports)
    return [tensor.dtype for tensors in every for tensor in tensors]


def port_info(description: Mapping[str, Any]) -> PortInfo:
    """Return the metadata of an input or output in a library."""
    name = str(description["name"])
    if "items" in description:
        items = tuple(map(tensor_info, description["items"]))
        return PackInfo(name, items, str(description.get("source", "")))
    return tensor_info(description)


def tensor_info(description: Mapping[str, Any]) -> TensorInfo:
    """Return the metadata of a tensor in a library."""
    shape = tuple(e if isinstance(e, int) else trees.text(e) for e in description["shape"])
    stacked = bool(description.get("stacked"))
    name, dtype = str(description["name"]), str(description["dtype"])
    source, has_default = str(description.get("source", "")), bool(description.get("default"))
    return TensorInfo(name, shape, dtype, stacked, source, has_default)


def signature(metadata: Mapping[str, Any]) -> Graph:
    """The inputs of a library as those of a Graph, whose dimensions are trees.

    So the code that checks inputs is the same for every route.
    """
    types: dict[Tensor, str] = {}
    attributes: Mapping[str, Any] = metadata.get("attributes", {})

    def tensor(info: Mapping[str, Any]) -> Tensor:
        dtype = str(info["dtype"])
        made = Tensor(str(info["name"]), DTYPES[dtype], tuple(info["shape"]), "input")
        types[made] = dtype
        return made

    inputs = tuple(
        Port(str(port["name"]), tuple(map(tensor, port["items"])), source=port.get("source", ""))
        if "items" in port
        else Port(
            str(port["name"]),
            tensor(port),
            bool(port.get("stacked")),
            tuple(attributes.get(port["name"], ())),
            str(port.get("source", "")),
            bool(port.get("default")),
        )
        for port in metadata["inputs"]
    )
    fixed = tuple(metadata.get("fixed_inputs", ()))
    bounds = dict(metadata["bounds"])
    return Graph("main", inputs, (), (), machine_types=types, bounds=bounds, fixed_inputs=fixed)
