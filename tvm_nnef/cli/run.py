"""``tvm-nnef run MODEL``: compiles a model for the host, runs it, and prints what comes out."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_nnef.api import build, compose, evaluate
from tvm_nnef.cli.arguments import compose_options, load_options, plural
from tvm_nnef.cli.files import write_file
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Graph, Port, Tensor, tensors
from tvm_nnef.model import Model, check_variables, load_model
from tvm_nnef.storage.image import load_image

MAX_PRINTED = 64
"""Outputs of at most so many elements are printed whole."""


def run(options: argparse.Namespace) -> int:
    """Runs the model and prints its outputs, as classes where ``model.json`` has labels."""
    model = load_model(options.model, **load_options(options))
    graph = compose(model, **compose_options(options))
    inputs = _inputs(model, graph, options)
    if len(options.output) > len(_flat(graph.outputs)):
        outputs = plural(len(_flat(graph.outputs)), "output")
        raise error(f"the graph has {outputs}, but {len(options.output)} files are to be written")
    if options.route == "reference":
        check_variables(model, graph)
        results = evaluate(graph, *inputs, variables=model.variables)
    else:
        executable = build(model, options.target, route=options.route, **compose_options(options))
        results = executable(*inputs)
    arrays = [array for result in results for array in _arrays(result)]
    for file, array in zip(options.output, arrays, strict=False):
        write_file(file, _npy(array))
    names = [name for name, _ in _flat(graph.outputs)]
    for name, array in zip(
        names[len(options.output) :], arrays[len(options.output) :], strict=True
    ):
        print(_described(name, array, model.metadata.labels, options.top))
    return 0


def _flat(ports: Sequence[Port]) -> list[tuple[str, Tensor]]:
    """The tensors of inputs or outputs with names; the items of a pack are numbered from 1."""
    found: list[tuple[str, Tensor]] = []
    for port in ports:
        if isinstance(port.operand, Tensor):
            found.append((port.name, port.operand))
        else:
            items = enumerate(tensors(port.operand), 1)
            found += [(f"{port.name}:{number}", tensor) for number, tensor in items]
    return found


def _arrays(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, list | tuple) else [result]


def _inputs(model: Model, graph: Graph, options: argparse.Namespace) -> list[Any]:
    """A value for each input, from the files given, or random."""
    wanted = _flat(graph.inputs)
    files: list[str] = options.input
    if files and len(files) != len(wanted):
        names = ", ".join(name for name, _ in wanted)
        expected = f"the graph has {plural(len(wanted), 'input')} ({names})"
        raise error(f"{expected}, but {plural(len(files), 'file')} came")
    generator = np.random.default_rng(options.seed)
    values: list[Any] = []
    for position, (name, tensor) in enumerate(wanted):
        dtype = graph.machine_types[tensor]
        if files:
            values.append(_read(model, name, tensor, files[position]))
        else:
            values.append(_random(tensor, dtype, generator))
    return _packed(graph.inputs, values)


def _packed(ports: Sequence[Port], values: list[Any]) -> list[Any]:
    rest = iter(values)
    return [
        [next(rest) for _ in port.operand]
        if isinstance(port.operand, tuple)
        else None
        if port.operand is None
        else next(rest)
        for port in ports
    ]


def _random(tensor: Tensor, dtype: str, generator: np.random.Generator) -> Any:
    shape = tuple(int(extent) for extent in tensor.shape)
    match tensor.type:
        case "real":
            return generator.standard_normal(shape).astype(dtype)
        case "int":
            return generator.integers(0, 2, shape).astype(dtype)
        case _:
            return generator.integers(0, 2, shape).astype(bool)


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
    image = model.metadata.inputs.get(name)
    if image is None:
        hint = "give a .npy file, or describe the image in model.json"
        raise error(
            f"input '{name}' of the model is not declared to be an image", file=file, hint=hint
        )
    shape = tuple(int(extent) for extent in tensor.shape)
    return load_image(file, shape, image)


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _described(name: str, array: Any, labels: Sequence[str], top: int) -> str:
    head = f"{name}: {array.dtype} {list(array.shape)}"
    if labels and array.ndim and array.shape[-1] == len(labels):
        return "\n".join([head, *_classes(array.reshape(-1, len(labels)), labels, top)])
    if array.size <= MAX_PRINTED:
        return f"{head}\n{array}"
    return f"{head}, from {array.min():.6g} to {array.max():.6g}, mean {array.mean():.6g}"


def _classes(rows: Any, labels: Sequence[str], top: int) -> list[str]:
    """The most probable classes of each row, with a bar to look at."""
    width = max(len(label) for label in labels)
    lines: list[str] = []
    for number, row in enumerate(rows):
        if len(rows) > 1:
            lines.append(f"  [{number}]")
        for index in np.argsort(-row, kind="stable")[: max(top, 1)]:
            bar = "█" * round(30 * float(np.clip(row[index], 0, 1)))
            lines.append(f"  {labels[index]:<{width}}  {row[index]:7.2%}  {bar}".rstrip())
    return lines
