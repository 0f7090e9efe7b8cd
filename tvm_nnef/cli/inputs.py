"""The values of a graph's inputs, from files or random, for commands that run a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from tvm_nnef.arguments.calls import by_source
from tvm_nnef.arguments.random_inputs import random_inputs
from tvm_nnef.cli.images import given_images
from tvm_nnef.cli.literals import RANDOM, is_literal, literal
from tvm_nnef.diagnostics import NnefError, Note, did_you_mean, error, plural
from tvm_nnef.graph.nodes import Graph, Operand, Port, Tensor, tensors
from tvm_nnef.graph.size_estimates import fitting_sizes
from tvm_nnef.storage.image import load_image
from tvm_nnef.storage.metadata import ImageInput
from tvm_nnef.symbolic import dimensions, trees

_UNREADABLE = (OSError, ValueError, EOFError, MemoryError, BadZipFile, KeyError)
"""Exceptions of NumPy for a file that is damaged, holds objects, or claims more than there is."""

_NPY_HINT = "numpy.save(file, array) writes one; arrays of objects are not read"
_NPZ_HINT = "numpy.savez(file, name=array, ...) writes one, with the names of the inputs"


def read_inputs(
    images: Mapping[str, ImageInput],
    graph: Graph,
    options: argparse.Namespace,
    variables: Mapping[str, Any] | None = None,
) -> list[Any]:
    """A value for each input, from the files given, or random if none are given.

    ``images`` is what the model says, by name, of how inputs are made from images. ``variables``
    are its variables by name, which random ints are compared with.

    A file is given as FILE, in the order of the inputs, or as NAME=FILE; one ``.npz`` file has
    all inputs by name, those of the model or of its source. NAME=1,2,3, NAME=zeros, NAME=ones and
    NAME=random give values without a file. Inputs without a value are random, except for those
    with a default, whose value is None. Raises NnefError for inputs that are unknown, and for a
    file that cannot be read.
    """
    wanted = flat_tensors(graph.inputs)
    images = given_images(images, dict(wanted), options)
    if not options.input:
        options.random_names = [name for name, _ in wanted]
        return random_inputs(graph, options.seed, variables=variables)
    files = [_split(each, graph) for each in options.input]
    if len(files) == 1 and files[0][0] is None and Path(files[0][1]).suffix == ".npz":
        arrays = _read_npz(files[0][1], graph)
    else:
        tensors = dict(wanted)
        named = {name: text for name, text in _by_name(files, graph).items() if text != RANDOM}
        sizes = fitting_sizes(graph)
        arrays = {
            name: literal(text, tensors[name], graph.machine_types[tensors[name]], sizes)
            if is_literal(text) and not _exists(text)
            else _read(images.get(name), name, tensors[name], text)
            for name, text in named.items()
        }
        _complete(arrays, graph, options, variables)
    values = (arrays.get(name) for name, _ in wanted)
    return [_grouped(port.operand, values) for port in graph.inputs]


@contextmanager
def naming_random(options: argparse.Namespace) -> Iterator[None]:
    """A block that runs a model; its errors name the inputs whose values are random."""
    try:
        yield
    except NnefError as problem:
        names = getattr(options, "random_names", [])
        if not names:
            raise
        message = f"random values were given for {', '.join(names)} (-i NAME=VALUE gives others)"
        raise problem.with_note(Note(message)) from problem.__cause__


def _complete(
    arrays: dict[str, Any],
    graph: Graph,
    options: argparse.Namespace,
    variables: Mapping[str, Any] | None,
) -> None:
    """Add random arrays for the inputs that have no value, of sizes that go with the others."""
    wanted = flat_tensors(graph.inputs)
    optional = _optional(graph)
    missing = [name for name, _ in wanted if name not in arrays and name not in optional]
    if not missing:
        return
    sizes = {
        extent: int(size)
        for name, tensor in wanted
        if name in arrays
        for extent, size in zip(map(trees.tree, tensor.shape), np.shape(arrays[name]), strict=False)
        if isinstance(extent, str)
    }
    made = iter(
        item
        for value in random_inputs(graph, options.seed, sizes, variables)
        for item in (value if isinstance(value, list) else [value])
    )
    random = {name: next(made) for name, _ in wanted if name not in optional}
    arrays.update({name: random[name] for name in missing})
    options.random_names = missing
    if not options.quiet:
        print(f"note: random values for {', '.join(missing)}", file=sys.stderr)


def _known(graph: Graph) -> dict[str, str]:
    """The names of the tensors of inputs, by these names and by those in the source."""
    return by_source(graph.inputs) | {name: name for name, _ in flat_tensors(graph.inputs)}


def _optional(graph: Graph) -> set[str]:
    """The names of the inputs that have a default."""
    return {port.name for port in graph.inputs if port.has_default}


def _split(given: str, graph: Graph) -> tuple[str | None, str]:
    """The name of an input, if one is given, and the file; names and files may hold '='."""
    known = _known(graph)
    for name in sorted(known, key=len, reverse=True):
        if given.startswith(f"{name}="):
            return known[name], given.removeprefix(f"{name}=")
    name, equals, file = given.partition("=")
    if not equals or _exists(given):
        return None, given
    return name, file


def _by_name(files: Sequence[tuple[str | None, str]], graph: Graph) -> dict[str, str]:
    """The file of each input; those without a name are for the inputs that are left, in order."""
    names = [name for name, _ in flat_tensors(graph.inputs)]
    expected = f"the graph has {plural(len(names), 'input')} ({', '.join(names)})"
    named: dict[str, str] = {}
    for name, file in files:
        if name is not None and name not in names:
            hint = did_you_mean(name, _known(graph)) or expected
            if name in graph.fixed_inputs:
                hint = f"the source gives it a value; --replaceable {name} makes it an input"
            raise error(f"the graph has no input '{name}'", hint=hint)
        if name in named:
            raise error(f"input '{name}' is given twice", hint=f"keep one; {expected}")
        if name is not None:
            named[name] = file
    rest = [name for name in names if name not in named]
    unnamed = [file for name, file in files if name is None]
    if len(unnamed) > len(rest):
        hint = "give --input at most once for each; inputs without a value are random"
        raise error(f"{expected}, got {plural(len(files), 'file')}", hint=hint)
    return {**named, **dict(zip(rest, unnamed, strict=False))}


def _read_npz(file: str, graph: Graph) -> dict[str, Any]:
    """The arrays of a ``.npz`` file, which has one for each input and no other."""
    if not _exists(file):
        raise error(f"{_fault(file)}, given for the inputs", file=file, hint=_NPZ_HINT)
    tensors, known = dict(flat_tensors(graph.inputs)), _known(graph)
    try:
        with np.load(file, allow_pickle=False) as archive:
            members = {known.get(name, name): name for name in archive.files}
            missing = set(tensors) - set(members) - _optional(graph)
            if missing or not set(members) <= set(tensors) or len(members) < len(archive.files):
                found = ", ".join(archive.files) or "none"
                hint = f"the inputs are {', '.join(tensors)}"
                message = f"the arrays of the file ({found}) are not the inputs of the graph"
                raise error(message, file=file, hint=hint)
            return {name: _member(archive, members[name], tensors[name]) for name in members}
    except _UNREADABLE as cause:
        raise error(f"not a readable .npz file: {cause}", file=file, hint=_NPZ_HINT) from None


def _member(archive: Any, name: str, tensor: Tensor) -> Any:
    """An array of a ``.npz`` file; one of a wrong shape, which may be huge, without its data."""
    with archive.zip.open(f"{name}.npy") as stream:
        formats = np.lib.format
        first = formats.read_magic(stream) == (1, 0)
        read = formats.read_array_header_1_0 if first else formats.read_array_header_2_0
        shape, _, dtype = read(stream)
    pairs = zip(tensor.shape, shape, strict=False)
    fits = len(shape) == tensor.rank and all(
        wanted == found or not dimensions.is_static(wanted) for wanted, found in pairs
    )
    return archive[name] if fits else np.broadcast_to(np.zeros((), dtype), shape)


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


def _read(image: ImageInput | None, name: str, tensor: Tensor, file: str) -> Any:
    """An array from a ``.npy`` file, otherwise from an image."""
    if not _exists(file):
        hint = "'-i NAME=FILE' gives a .npy file or an image for an input"
        raise error(f"{_fault(file)}, given for input '{name}'", file=file, hint=hint)
    with Path(file).open("rb") as stream:
        is_array = stream.read(6) == b"\x93NUMPY"
    if is_array:
        try:
            return np.load(file, allow_pickle=False)
        except _UNREADABLE as cause:
            raise error(f"not a readable .npy file: {cause}", file=file, hint=_NPY_HINT) from None
    if Path(file).suffix == ".npz":
        raise error("a .npz file has all inputs by name: give it alone", file=file, hint=_NPZ_HINT)
    if Path(file).suffix == ".npy":
        raise error("not a readable .npy file", file=file, hint=_NPY_HINT)
    if image is None:
        hint = "give a .npy file, or describe the image: '--layout NCHW', or in model.json"
        raise error(
            f"input '{name}' of the model is not declared to be an image", file=file, hint=hint
        )
    shape = tuple(extent for extent in tensor.shape if dimensions.is_static(extent))
    if len(shape) != tensor.rank:
        hint = f"give it, as in --shape {name}=1,3,224,224"
        raise error(f"input '{name}' is given as an image, but has a dynamic shape", hint=hint)
    return load_image(file, shape, image)


def _exists(file: str) -> bool:
    """Whether there is a regular file of this name; names that no file can have are absent."""
    try:
        return Path(file).is_file()
    except (OSError, ValueError):
        return False


def _fault(file: str) -> str:
    """Return why a name is not that of a regular file."""
    with suppress(OSError, ValueError):
        if file and Path(file).is_dir():
            return "a folder, not a file"
        if Path(file).exists():
            return "not a regular file"
    return "no such file"
