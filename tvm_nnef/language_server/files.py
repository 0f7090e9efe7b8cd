"""The files of the model that a document belongs to, with the unsaved texts of an editor.

Input: the path of a document, and the texts of all open documents by path. Output: a
:class:`Container` that is checked and loaded like any other model. A document that is a module of
operators gets a main module that imports it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tvm_nnef.diagnostics import Source, Span
from tvm_nnef.language_server.positions import without_texts
from tvm_nnef.model.options import search_folder
from tvm_nnef.stdlib.library import tools_names
from tvm_nnef.storage.container import Container, open_files
from tvm_nnef.storage.names import MAIN_FILE
from tvm_nnef.syntax import detect

_SUFFIX = ".sknd"
_GRAPH = re.compile(r"^\s*graph\s+\w", re.MULTILINE)
_MAIN_OF_MODULE = """\
import {name};
graph G {{ @input {{ x: real[1]; }} @output {{ y: real[1]; }} @compose {{ y = x; }} }}
"""
_GENERATED = "<generated>"
_MAX_DEPTH = 8
"""Number of folders above a document that are searched for the main module of its model."""


@dataclass(frozen=True)
class EditedFiles(Container):
    """A model whose texts are those of an editor, and otherwise those on disk.

    ``texts`` are by name, ``paths`` the paths of names that have another one than in the folder.
    ``document`` is the name of the file of the document. ``folders`` have modules that the model
    imports and does not hold.
    """

    path: str
    main: str
    document: str
    texts: Mapping[str, bytes] = field(repr=False)
    paths: Mapping[str, str] = field(repr=False)
    saved: Container | None = field(repr=False)
    folders: Sequence[Container] = field(default=(), repr=False)

    def names(self) -> tuple[str, ...]:
        """The names of all files, sorted; those of a folder without a model are not listed."""
        if self.saved is None or (MAIN_FILE in self.paths and not self.saved.exists(MAIN_FILE)):
            return (self.main, self.document)
        return tuple(sorted({*self.saved.names(), *self.texts}))

    def exists(self, name: str) -> bool:
        """Whether a file of that name is there."""
        return name in self.texts or self._holder(name) is not None

    def size(self, name: str) -> int:
        """The size of a file in bytes; raises :class:`NnefError` if it is missing."""
        if name in self.texts:
            return len(self.texts[name])
        holder = self._holder(name)
        if holder is None:
            raise self._missing(name)
        return holder.size(name)

    def location(self, name: str) -> str:
        """The path of a file."""
        holder = None if name in self.texts else self._holder(name)
        if holder is not None and holder is not self.saved:
            return holder.location(name)
        return self.paths.get(name) or (Path(self.path) / name).as_posix()

    def _read(self, name: str, count: int) -> bytes:
        if name in self.texts:
            return self.texts[name][:count]
        holder = self._holder(name)
        assert holder is not None
        return holder._read(name, count)

    def _holder(self, name: str) -> Container | None:
        """Return the container of a saved file: the model's folder, else one of other modules."""
        saved = () if self.saved is None else (self.saved,)
        return next((each for each in (*saved, *self.folders) if each.exists(name)), None)

    @property
    def dialect(self) -> str:
        """The dialect of the model, detected from all of its texts."""
        names = [name for name in self.names() if name.endswith(_SUFFIX)]
        return detect((self.read_source(name) for name in names), tools_names())[0]

    def original(self, span: Span) -> Span:
        """The same offsets in the text of the editor, if that is where they are."""
        for name in self.texts:
            if self.location(name) == span.source.path:
                return Span(self.read_source(name), span.start, span.end)
        return span

    def source(self, name: str) -> Source | None:
        """The text of a module's file; None if there is none."""
        return self.read_source(name) if self.exists(name) else None


def files_of(
    path: str, texts: Mapping[str, str], search_path: Sequence[str | os.PathLike[str]] = ()
) -> EditedFiles:
    """The files of the model of an open document, which finds modules in folders as well.

    Raises :class:`NnefError` for a folder that is not there.
    """
    return replace(_files_of(path, texts), folders=tuple(map(search_folder, search_path)))


def _files_of(path: str, texts: Mapping[str, str]) -> EditedFiles:
    document = Path(path)
    if document.name == MAIN_FILE:
        return _folder(document.parent, texts, MAIN_FILE)
    if _GRAPH.search(without_texts(texts[path])):
        name = document.name
        return EditedFiles(path, name, name, {name: _encoded(texts[path])}, {name: path}, None)
    root = _root(document, texts)
    files = _folder(root, texts, document.relative_to(root).as_posix())
    return _with_main(files, path, texts[path])


def _folder(folder: Path, texts: Mapping[str, str], document: str) -> EditedFiles:
    edited = {
        Path(path).relative_to(folder).as_posix(): _encoded(text)
        for path, text in texts.items()
        if path.endswith(_SUFFIX) and Path(path).is_relative_to(folder)
    }
    # A document that was never saved has a name and no folder.
    saved = open_files(folder) if folder.is_absolute() and folder.is_dir() else None
    return EditedFiles(str(folder), MAIN_FILE, document, edited, {}, saved)


def _root(document: Path, texts: Mapping[str, str]) -> Path:
    """The nearest folder with a main module; the folder of the document if there is none."""
    for folder in [*document.parents][:_MAX_DEPTH] if document.is_absolute() else ():
        main = folder / MAIN_FILE
        if str(main) in texts or main.is_file():
            return folder
    return document.parent


def _with_main(files: EditedFiles, path: str, text: str) -> EditedFiles:
    """The files of a module, with a main module that imports it."""
    parts = files.document.removesuffix(_SUFFIX).split("/")
    names = [re.sub(r"\W|^(?=\d)", "_", part, flags=re.ASCII) for part in parts]
    document = "/".join(names) + _SUFFIX
    main = _MAIN_OF_MODULE.format(name=".".join(names))
    texts = {
        **files.texts,
        document: _encoded(text),
        MAIN_FILE: main.encode(),
    }
    paths = {document: path, MAIN_FILE: _GENERATED}
    return EditedFiles(files.path, MAIN_FILE, document, texts, paths, files.saved)


def _encoded(text: str) -> bytes:
    """The text in UTF-8, of the same number of characters."""
    return text.encode(errors="replace")
