"""A program and its metadata as texts, for ``pickle`` and ``copy``, and back."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_nnef.diagnostics import NnefError, Source
from tvm_nnef.semantics.check import check_program
from tvm_nnef.semantics.program import MAIN, Program
from tvm_nnef.stdlib.library import standard_module
from tvm_nnef.storage.metadata import Metadata, read_metadata, write_metadata
from tvm_nnef.storage.names import METADATA_FILE


@dataclass(frozen=True, slots=True)
class Texts:
    """The modules of a program by name, each with its path and content, and ``model.json``."""

    modules: dict[str, tuple[str, str]]
    dialect: str
    metadata: bytes


def texts_of(program: Program, metadata: Metadata) -> Texts:
    """The texts of a program, without those of the standard library."""
    modules = {
        name: (module.source.path, module.source.text)
        for name, module in program.modules.items()
        if not module.is_standard
    }
    return Texts(modules, program.dialect, write_metadata(metadata))


def program_of(texts: Texts) -> tuple[Program, Metadata]:
    """The program and the metadata of texts.

    Raises NnefError if the standard library is another one, in which they are not valid.
    """
    sources = {name: Source(*text) for name, text in texts.modules.items()}

    def load(parts: tuple[str, ...]) -> Source | tuple[Source, ...] | None:
        own = sources.get(".".join(parts))
        return own or (standard_module(parts[0], texts.dialect) if len(parts) == 1 else ()) or None

    program, found = check_program(sources[MAIN], load, dialect=texts.dialect)
    if program is None:
        raise NnefError(found)
    return program, read_metadata(texts.metadata, METADATA_FILE)
