"""A model as texts and arrays, for ``pickle`` and ``copy``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvm_nnef.diagnostics import NnefError, Source
from tvm_nnef.semantics.check import check_program
from tvm_nnef.semantics.program import MAIN
from tvm_nnef.standard_library import standard_module
from tvm_nnef.storage.metadata import read_metadata, write_metadata
from tvm_nnef.storage.names import METADATA_FILE

if TYPE_CHECKING:
    from tvm_nnef.model import Model


def reduced(model: Model) -> tuple[Any, tuple[Any, ...]]:
    """The function that makes an equal model, and its arguments."""
    texts = {
        name: (module.source.path, module.source.text)
        for name, module in model.program.modules.items()
        if not module.is_standard
    }
    variables = {name: model.variables[name] for name in model.variables}
    metadata = write_metadata(model.metadata)
    return restored, (
        texts,
        model.dialect,
        variables,
        metadata,
        model.path,
        model.given_variables,
    )


def restored(
    texts: Mapping[str, tuple[str, str]],
    dialect: str,
    variables: Mapping[str, Any],
    metadata: bytes,
    path: str,
    given_variables: bool,
) -> Model:
    """A model of the texts of its modules (path and content, by name), its arrays and metadata."""
    from tvm_nnef.model import Model

    sources = {name: Source(*text) for name, text in texts.items()}

    def load(parts: tuple[str, ...]) -> Source | tuple[Source, ...] | None:
        own = sources.get(".".join(parts))
        return own or (standard_module(parts[0], dialect) if len(parts) == 1 else ()) or None

    program, found = check_program(sources[MAIN], load, dialect=dialect)
    if program is None:
        raise NnefError(found)  # The standard library is that of another version.
    return Model(program, path, variables, read_metadata(metadata, METADATA_FILE), given_variables)
