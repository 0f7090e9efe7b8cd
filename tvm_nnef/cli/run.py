"""``tvm-nnef run MODEL``: compile a model for the host, or load a library, and print outputs."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_nnef.api.building import build, evaluate
from tvm_nnef.arguments.calls import Outputs, by_source
from tvm_nnef.arguments.ports import PortInfo, TensorInfo
from tvm_nnef.arrays.coded_arrays import storable
from tvm_nnef.cli.images import read_labels
from tvm_nnef.cli.inputs import flat_tensors, naming_random, read_inputs
from tvm_nnef.cli.library import load_library, model_metadata
from tvm_nnef.cli.reading import read_composed
from tvm_nnef.diagnostics import did_you_mean, error, plural, printable
from tvm_nnef.model.variables import check_variables
from tvm_nnef.storage.metadata import Metadata
from tvm_nnef.storage.output import (
    STANDARD_OUTPUT,
    check_output,
    check_outputs,
    is_stream,
    write_file,
)

if TYPE_CHECKING:
    from tvm_nnef.executable.runtime import Executable
    from tvm_nnef.profiling.profile import Profile

_TOP = 5
"""The classes that are printed by default."""

MAX_PRINTED = 64
"""Outputs of at most so many elements are printed whole."""


def run(options: argparse.Namespace) -> int:
    """Run the model and print its outputs, as classes if ``model.json`` has labels."""
    files = [_file_of(each) for each in options.output]
    _check_files(options, files)
    _check_profile(options, files)
    executable = load_library(options)
    if executable is not None:
        metadata, shapes = model_metadata(executable), _shapes(executable.outputs)
        labels = _labels(options, metadata, shapes)
        targets = _targets(options.output, list(shapes), by_source(executable.outputs))
        inputs = read_inputs(metadata.inputs, executable.signature, options)
        outputs, profile = _run_executable(executable, inputs, options)
    else:
        outputs, labels, profile, targets = _run_model(options)
    arrays = dict(_named_arrays(outputs))
    written = _write(files, targets, arrays)
    to_stdout = STANDARD_OUTPUT in (*files, options.profile_json)
    text = sys.stderr if to_stdout else sys.stdout
    for file in [] if options.quiet else files:
        if file != STANDARD_OUTPUT:
            print(f"wrote {file}", file=text)
    for name in (each for each in arrays if each not in written):
        print(_described(name, arrays[name], labels, options.top), file=text)
    if profile is not None and options.profile:
        print(profile, file=text)
    if profile is not None and options.profile_json is not None:
        content = json.dumps(profile.to_json(), indent=2) + "\n"
        write_file(options.profile_json, content.encode())
        if options.profile_json != STANDARD_OUTPUT and not options.quiet:
            print(f"wrote {options.profile_json}", file=text)
    return 0


def _run_executable(
    executable: Executable, inputs: Sequence[Any], options: argparse.Namespace
) -> tuple[Outputs, Profile | None]:
    """The outputs, and the profile if one is wanted, which begins with the same state."""
    wanted = options.profile or options.profile_json is not None
    with naming_random(options):
        profile = executable.profile(*inputs) if wanted else None
        return executable(*inputs), profile


def _run_model(
    options: argparse.Namespace,
) -> tuple[Outputs, Sequence[str], Profile | None, dict[str, str]]:
    """The outputs of a model that is not built yet, names of classes, a profile, and the files."""
    found = read_composed(options)
    model, graph = found.model, found.graph
    shapes = {name: tensor.shape for name, tensor in flat_tensors(graph.outputs)}
    labels = _labels(options, model.metadata, shapes)
    inputs = read_inputs(model.metadata.inputs, graph, options, model.variables)
    targets = _targets(options.output, list(shapes), by_source(graph.outputs))
    if options.route == "reference":
        check_variables(model, graph)
        with naming_random(options):
            found_outputs = evaluate(graph, *inputs, variables=model.variables)
        return found_outputs, labels, None, targets
    executable = build(
        model,
        options.target,
        route=options.route,
        threads=options.threads,
        progress=not options.quiet,
        cache=not options.no_cache,
        checked=options.checked,
        **found.options,
    )
    outputs, profile = _run_executable(executable, inputs, options)
    return outputs, labels, profile, targets


def _check_profile(options: argparse.Namespace, files: Sequence[str]) -> None:
    """Raises NnefError for a profile that cannot be made or written."""
    if options.profile_json is not None:
        check_output(options.profile_json, [options.model, *files])
    elif not options.profile:
        return
    if options.route == "reference":
        hint = "profile the compiled model: --route mapped"
        raise error("the reference evaluator has no kernels to profile", hint=hint)


def _shapes(ports: Sequence[PortInfo]) -> dict[str, Sequence[Any]]:
    """The shapes of the outputs of a library; the items of a pack are numbered from 1."""
    found: dict[str, Sequence[Any]] = {}
    for port in ports:
        if isinstance(port, TensorInfo):
            found[port.name] = port.shape
        else:
            items = enumerate(port.items, 1)
            found |= {f"{port.name}:{number}": item.shape for number, item in items}
    return found


def _labels(
    options: argparse.Namespace, metadata: Metadata, shapes: Mapping[str, Sequence[Any]]
) -> Sequence[str]:
    """The names of classes. Raises NnefError for those of a file that fit no output."""
    if options.labels is None:
        return metadata.labels
    labels = read_labels(options.labels)
    sizes = [shape[-1] for shape in shapes.values() if shape]
    if all(isinstance(size, int) and size != len(labels) for size in sizes):
        hint = f"the last dimensions of the outputs are {', '.join(map(str, sizes)) or 'none'}"
        message = f"no output has as many classes as there are labels: {len(labels)}"
        raise error(message, hint=hint, file=options.labels)
    return labels


def _named_arrays(outputs: Outputs) -> Iterator[tuple[str, Any]]:
    """The arrays of outputs by name; the items of a pack are numbered from 1."""
    for name, value in zip(outputs.names, outputs, strict=True):
        if isinstance(value, list | tuple):
            yield from ((f"{name}:{number}", item) for number, item in enumerate(value, 1))
        elif value is not None:
            yield name, value


def _file_of(given: str) -> str:
    """The file of FILE or NAME=FILE."""
    return given.rpartition("=")[2]


def _targets(
    outputs: Sequence[str], names: Sequence[str], sources: Mapping[str, str]
) -> dict[str, str]:
    """The ``.npy`` file of each output that has one; none for a ``.npz`` file of all.

    ``sources`` are names of outputs by those in the source. Files without a name are for the
    outputs that are left, in order. Raises NnefError for unknown names, and for more files than
    outputs.
    """
    if any(map(_is_npz, outputs)):
        return {}
    known = {**sources, **{name: name for name in names}}
    named: dict[str, str] = {}
    for asked, _, file in (each.rpartition("=") for each in outputs if "=" in each):
        if asked not in known:
            hint = did_you_mean(asked, known) or f"outputs are {', '.join(names)}"
            raise error(f"the graph has no output '{asked}'", hint=hint, file=file)
        if known[asked] in named:
            raise error(f"output '{asked}' is given two files", hint="keep one", file=file)
        named[known[asked]] = file
    rest = [name for name in names if name not in named]
    unnamed = [each for each in outputs if "=" not in each]
    if len(unnamed) > len(rest):
        hint = f"give --output at most once for each of {', '.join(names)}"
        message = f"the graph has {plural(len(names), 'output')}"
        raise error(f"{message}, but {len(outputs)} files are to be written", hint=hint)
    return named | dict(zip(rest, unnamed, strict=False))


def _write(files: Sequence[str], targets: Mapping[str, str], arrays: Mapping[str, Any]) -> set[str]:
    """Write outputs to their files, or all to a ``.npz`` file; the names of those written."""
    if files and not targets:
        stream = io.BytesIO()
        held: dict[str, Any] = {name: storable(array) for name, array in arrays.items()}
        np.savez(stream, **held)
        write_file(files[0], stream.getvalue())
        return set(arrays)
    written = [name for name in arrays if name in targets]
    for name in written:
        write_file(targets[name], _npy(arrays[name]))
    return set(written)


def _is_npz(file: str) -> bool:
    return Path(file).suffix == ".npz" and not is_stream(file)


def _check_files(options: argparse.Namespace, files: Sequence[str]) -> None:
    """Raises NnefError for outputs that cannot be written, or have the suffix of other data."""
    read = (part for given in options.input for part in (given, given.partition("=")[2]) if part)
    check_outputs(files, [options.model, *options.search_path, *read])
    for given, file in zip(options.output, files, strict=True):
        suffix = Path(file).suffix
        if _is_npz(file):
            if len(files) > 1 or given != file:
                hint = "give it alone, or a .npy file for each output"
                raise error("a .npz file has all outputs by name", hint=hint, file=file)
        elif suffix not in ("", ".npy") and not is_stream(file):
            hint = f"name it '{Path(file).with_suffix('.npy')}', or '.npz' for all outputs"
            raise error(f"outputs are written as '.npy', not as '{suffix}'", hint=hint, file=file)


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, storable(array))
    return stream.getvalue()


def _described(name: str, array: Any, labels: Sequence[str], top: int | None) -> str:
    head = f"{name}: {array.dtype} {list(array.shape)}"
    if labels and _are_classes(array, len(labels)):
        named = (printable(labels[index], single_line=True) for index in array[:MAX_PRINTED])
        return "\n".join([head, *(f"  [{row}] {each}" for row, each in enumerate(named))])
    if top is not None and not labels and array.ndim and array.size:
        labels = [str(number) for number in range(array.shape[-1])]
    if labels and array.ndim and array.shape[-1] == len(labels):
        # NumPy orders and formats neither bfloat16 nor negated booleans.
        rows = array.reshape(-1, len(labels)).astype(np.float64)
        are_probabilities = array.dtype != bool and _are_probabilities(rows)
        return "\n".join([head, *_classes(rows, labels, top or _TOP, are_probabilities)])
    if array.size <= MAX_PRINTED:
        return f"{head}\n{array}"
    wide = array.astype(np.float64)
    return f"{head}, from {wide.min():.6g} to {wide.max():.6g}, mean {wide.mean():.6g}"


def _are_classes(array: Any, count: int) -> bool:
    """Whether an array has the index of a class for each row."""
    is_list = array.dtype == np.int64 and array.ndim == 1
    return is_list and bool(np.all((array >= 0) & (array < count)))


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
