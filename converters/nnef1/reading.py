"""The files of an NNEF 1 model (section 5.1): ``graph.nnef``, ``graph.quant``, ``.dat`` files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tvm_nnef.converters.common.detection import HEAD
from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.parser import parse, parse_quantization
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean, error
from tvm_nnef.storage.archive import is_archive
from tvm_nnef.storage.container import Container, decode_source, is_text, open_files
from tvm_nnef.storage.names import NNEF1_FILE

QUANTIZATION_FILE = "graph.quant"
TEXT_PATH = "<text>"

ModelSource: TypeAlias = "str | bytes | os.PathLike[str] | Container"


@dataclass(frozen=True)
class Nnef1Model:
    """A model that was read; its tensor files are read on demand.

    ``container`` is None for a text without other files.
    """

    path: str
    document: nodes.Document
    quantization: tuple[nodes.Quantized, ...]
    container: Container | None = field(repr=False)


def read(source: ModelSource) -> Nnef1Model:
    """Read a model: a folder, an archive, a ``graph.nnef``, or its text.

    Raises NnefError for missing files, and with the syntax errors of both texts.
    """
    if isinstance(source, str) and is_text(source):
        source = source.encode("utf-8", "surrogatepass")
    if isinstance(source, bytes):
        return Nnef1Model(TEXT_PATH, parse(decode_source(source, TEXT_PATH)), (), None)
    container, name = _open(source)
    if not container.exists(name):
        near = did_you_mean(name, container.names())
        hint = near or f"an NNEF 1 model has its graph in '{NNEF1_FILE}'"
        raise error(f"the model has no '{name}'", hint=hint, file=container.path)
    problems: list[Diagnostic] = []
    document: nodes.Document | None = None
    try:
        document = parse(container.read_source(name))
    except NnefError as problem:
        problems += problem.diagnostics
    quantization: tuple[nodes.Quantized, ...] = ()
    if container.exists(QUANTIZATION_FILE):
        try:
            quantization = parse_quantization(container.read_source(QUANTIZATION_FILE))
        except NnefError as problem:
            problems += problem.diagnostics
    if problems or document is None:
        raise NnefError(problems)
    return Nnef1Model(container.path, document, quantization, container)


def _open(source: str | os.PathLike[str] | Container) -> tuple[Container, str]:
    """Return the files of a model, and the name of the graph among them."""
    if isinstance(source, Container):
        return source, NNEF1_FILE
    path = Path(source)
    if _is_graph(path):
        return open_files(path.parent), path.name
    return open_files(source), NNEF1_FILE


def _is_graph(path: Path) -> bool:
    """Whether a path is that of a file that can be read, and is not an archive."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return not is_archive(file.read(HEAD))
    except (OSError, ValueError):
        return False
