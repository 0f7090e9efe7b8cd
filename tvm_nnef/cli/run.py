"""``tvm-nnef run MODEL``: compiles a model for the host, runs it, and prints what comes out."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_nnef.api import build, compose, evaluate
from tvm_nnef.cli.inputs import flat_tensors, read_inputs, read_model
from tvm_nnef.diagnostics import error, plural, printable
from tvm_nnef.storage.output import STANDARD_OUTPUT, check_outputs, is_stream, write_file
from tvm_nnef.variables import check_variables

MAX_PRINTED = 64
"""Outputs of at most so many elements are printed whole."""


def run(options: argparse.Namespace) -> int:
    """Runs the model and prints its outputs, as classes where ``model.json`` has labels."""
    _check_files(options)
    model, composing, _ = read_model(options)
    graph = compose(model, **composing)
    inputs = read_inputs(model, graph, options.input, options.seed)
    if len(options.output) > len(flat_tensors(graph.outputs)):
        outputs = plural(len(flat_tensors(graph.outputs)), "output")
        listed = ", ".join(name for name, _ in flat_tensors(graph.outputs))
        hint = f"give --output at most once for each of {listed}"
        message = f"the graph has {outputs}, but {len(options.output)} files are to be written"
        raise error(message, hint=hint)
    if options.route == "reference":
        check_variables(model, graph)
        results = evaluate(graph, *inputs, variables=model.variables)
    else:
        executable = build(
            model,
            options.target,
            route=options.route,
            threads=options.threads,
            checked=options.checked,
            **composing,
        )
        results = executable(*inputs)
    arrays = [array for result in results for array in _arrays(result)]
    for file, array in zip(options.output, arrays, strict=False):
        write_file(file, _npy(array))
    names = [name for name, _ in flat_tensors(graph.outputs)]
    text = sys.stderr if STANDARD_OUTPUT in options.output else sys.stdout
    for name, array in zip(
        names[len(options.output) :], arrays[len(options.output) :], strict=True
    ):
        print(_described(name, array, model.metadata.labels, options.top), file=text)
    return 0


def _check_files(options: argparse.Namespace) -> None:
    """Raises NnefError for outputs that cannot be written, or have the suffix of other data."""
    read = (part for given in options.input for part in (given, given.partition("=")[2]) if part)
    check_outputs(options.output, [options.model, *options.search_path, *read])
    for file in options.output:
        suffix = Path(file).suffix
        if suffix not in ("", ".npy") and not is_stream(file):
            hint = f"name it '{Path(file).with_suffix('.npy')}'"
            raise error(f"outputs are written as '.npy', not as '{suffix}'", hint=hint, file=file)


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
        # NumPy orders and formats neither bfloat16 nor negated booleans.
        rows = array.reshape(-1, len(labels)).astype(np.float64)
        are_probabilities = array.dtype != bool and _are_probabilities(rows)
        return "\n".join([head, *_classes(rows, labels, top, are_probabilities)])
    if array.size <= MAX_PRINTED:
        return f"{head}\n{array}"
    wide = array.astype(np.float64)
    return f"{head}, from {wide.min():.6g} to {wide.max():.6g}, mean {wide.mean():.6g}"


def _classes(rows: Any, labels: Sequence[str], top: int, are_probabilities: bool) -> list[str]:
    """The classes of the largest values of each row; probabilities with a bar."""
    titles = [printable(label, single_line=True) for label in labels]
    width = max(map(len, titles))
    lines: list[str] = []
    for number, row in enumerate(rows):
        if len(rows) > 1:
            lines.append(f"  [{number}]")
        # NaN is sorted to the end.
        for index in np.argsort(-row, kind="stable")[:top]:
            value = row[index]
            shown = f"{value:7.2%}  {_bar(value)}" if are_probabilities else f"{value:10.4g}"
            lines.append(f"  {titles[index]:<{width}}  {shown}".rstrip())
    return lines


def _are_probabilities(rows: Any) -> bool:
    inside = np.all((rows >= 0) & (rows <= 1))
    return bool(inside and np.allclose(rows.sum(axis=-1), 1, atol=1e-2))


def _bar(probability: float) -> str:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    block = "█" if encoding.lower().replace("-", "").startswith("utf") else "#"
    return block * round(30 * probability)
