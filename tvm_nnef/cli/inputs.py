"""The values of a graph's inputs, from files or random, for commands that run a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_nnef import extents
from tvm_nnef.cli.arguments import plural
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Graph, Operand, Port, Tensor, tensors
from tvm_nnef.model import Model
from tvm_nnef.random_inputs import random_inputs
from tvm_nnef.storage.image import load_image


def read_inputs(model: Model, graph: Graph, files: Sequence[str], seed: int) -> list[Any]:
    """A value for each input, from the files given, or random where there are none.

    Raises NnefError for another number of files, and for a file that cannot be read.
    """
    if not files:
        return random_inputs(graph, seed)
    wanted = flat_tensors(graph.inputs)
    if len(files) != len(wanted):
        names = ", ".join(name for name, _ in wanted)
        expected = f"the graph has {plural(len(wanted), 'input')} ({names})"
        raise error(f"{expected}, but {plural(len(files), 'file')} came")
    values = (
        _read(model, name, tensor, file) for (name, tensor), file in zip(wanted, files, strict=True)
    )
    return [_grouped(port.operand, values) for port in graph.inputs]


def flat_tensors(ports: Sequence[Port]) -> list[tuple[str, Tensor]]:
    """The tensors of inputs or outputs with names; the items of a pack are numbered from 1."""
    found: list[tuple[str, Tensor]] = []
    for port in ports:
        if isinstance(port.operand, Tensor):
            found.append((port.name, port.operand))
        else:
            items = enumerate(tensors(port.operand), 1)
            found += [(f"{port.name}:{number}", tensor) for number, tensor in items]
    return found


def _grouped(operand: Operand, values: Iterator[Any]) -> Any:
    match operand:
        case None:
            return None
        case Tensor():
            return next(values)
        case pack:
            return [next(values) for _ in pack]


def _read(model: Model, name: str, tensor: Tensor, file: str) -> Any:
    """An array from a ``.npy`` file, else from an image."""
    if not Path(file).is_file():
        raise error(f"no such file, given for input '{name}'", file=file)
    with Path(file).open("rb") as stream:
        is_array = stream.read(6) == b"\x93NUMPY"
    if is_array:
        try:
            return np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as cause:
            raise error(f"no readable .npy file: {cause}", file=file) from None
    if Path(file).suffix in (".npy", ".npz"):
        hint = "numpy.save writes one; a .npz file holds several arrays: save each by itself"
        raise error("no readable .npy file", file=file, hint=hint)
    image = model.metadata.inputs.get(name)
    if image is None:
        hint = "give a .npy file, or describe the image in model.json"
        raise error(
            f"input '{name}' of the model is not declared to be an image", file=file, hint=hint
        )
    shape = tuple(extent for extent in tensor.shape if extents.is_static(extent))
    if len(shape) != tensor.rank:
        hint = f"give it, as in --shape {name}=1,3,224,224"
        raise error(f"an image is given for input '{name}', whose shape is open", hint=hint)
    return load_image(file, shape, image)
