"""``tvm-nnef run MODEL``: compiles a model for the host, runs it, and prints what comes out."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_nnef.api import build, compose, evaluate
from tvm_nnef.cli.arguments import compose_options, load_options, plural
from tvm_nnef.cli.files import write_file
from tvm_nnef.cli.inputs import flat_tensors, read_inputs
from tvm_nnef.diagnostics import error
from tvm_nnef.model import check_variables, load_model

MAX_PRINTED = 64
"""Outputs of at most so many elements are printed whole."""


def run(options: argparse.Namespace) -> int:
    """Runs the model and prints its outputs, as classes where ``model.json`` has labels."""
    model = load_model(options.model, **load_options(options))
    graph = compose(model, **compose_options(options))
    inputs = read_inputs(model, graph, options.input, options.seed)
    if len(options.output) > len(flat_tensors(graph.outputs)):
        outputs = plural(len(flat_tensors(graph.outputs)), "output")
        raise error(f"the graph has {outputs}, but {len(options.output)} files are to be written")
    if options.route == "reference":
        check_variables(model, graph)
        results = evaluate(graph, *inputs, variables=model.variables)
    else:
        executable = build(
            model,
            options.target,
            route=options.route,
            threads=options.threads,
            **compose_options(options),
        )
        results = executable(*inputs)
    arrays = [array for result in results for array in _arrays(result)]
    for file, array in zip(options.output, arrays, strict=False):
        write_file(file, _npy(array))
    names = [name for name, _ in flat_tensors(graph.outputs)]
    for name, array in zip(
        names[len(options.output) :], arrays[len(options.output) :], strict=True
    ):
        print(_described(name, array, model.metadata.labels, options.top))
    return 0


def _arrays(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, list | tuple) else [result]


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
