"""``tvm-nnef quantize MODEL DST``: a model written in codes of 8 or fewer bits."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tvm_nnef.api.conversion import check_destination
from tvm_nnef.api.quantization import quantize
from tvm_nnef.cli.arguments import compose_options, load_options
from tvm_nnef.cli.inputs import read_inputs
from tvm_nnef.cli.reading import Composed, read_composed
from tvm_nnef.diagnostics import error, plural
from tvm_nnef.model.model import Model, save_model


def run(options: argparse.Namespace) -> int:
    """Quantizes a model, writes it, and prints the errors by operator."""
    check_destination(options.model, options.destination, overwrite=options.overwrite)
    model = _quantized(options)
    save_model(model, options.destination, overwrite=options.overwrite)
    report = model.quantization_report
    if options.json:
        print(json.dumps(report.to_json(), indent=2))
    elif not options.quiet:
        print(report.summary())
        print(f"wrote {options.destination}")
    return 0


def _quantized(options: argparse.Namespace) -> Model:
    """Return the model, with the inputs of a folder if there is one."""
    how = {
        "weights": options.weights,
        "activations": options.activations,
        "block": options.block,
        "method": options.method,
        "percentile": options.percentile,
        "keep_float": _kept(options.keep_float),
        "progress": not options.quiet,
    }
    if options.data is None:
        return quantize(options.model, **how, **load_options(options), **compose_options(options))
    files = _files(options.data)
    options.input = files[:1]
    found = read_composed(options)
    return quantize(found.model, _Inputs(files, found, options), **how, **found.options)


def _kept(words: list[str]) -> int | list[str]:
    """Return a number of operators, or names."""
    match words:
        case []:
            return 0
        case [word] if word.isdecimal():
            return int(word)
    return words


class _Inputs:
    """The inputs in files, each read when it is needed."""

    def __init__(self, files: list[str], found: Composed, options: argparse.Namespace) -> None:
        """Take files, each with the inputs of a call; NnefError if these are several arrays."""
        count = len(found.graph.inputs)
        if count > 1 and any(Path(file).suffix != ".npz" for file in files):
            hint = "numpy.savez(file, name=array, ...) writes one, with the names of the inputs"
            message = f"the graph has {plural(count, 'input')}: give a .npz file for each call"
            raise error(message, file=options.data, hint=hint)
        self._files, self._found, self._options = files, found, options

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._files)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Return the inputs of each file, in order."""
        images, graph = self._found.model.metadata.inputs, self._found.graph
        for file in self._files:
            self._options.input = [file]
            yield tuple(read_inputs(images, graph, self._options))


def _files(folder: str) -> list[str]:
    """Return the files of a folder by name, hidden ones left out; NnefError if there are none."""
    hint = "give a folder with a .npy or .npz file, or an image, for each input of the calibration"
    if not Path(folder).is_dir():
        raise error("there is no such folder", file=folder, hint=hint)
    every = (each for each in Path(folder).iterdir() if not each.name.startswith("."))
    files = sorted(str(each) for each in every if each.is_file())
    if not files:
        raise error("the folder has no files", file=folder, hint=hint)
    return files
