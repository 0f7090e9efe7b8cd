"""The formats of models, and the only function that opens the source of a model.

Input: any source of a model. Output: an :class:`OpenedSource`, which knows its format. A format is
an entry of ``FORMATS``: its detection, and the modules that convert, write and execute its models.
These are named here and imported when they are needed, so that reading SkriptND imports no foreign
library.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tvm_nnef.converters.common.detection import (
    HEAD,
    Candidate,
    is_antares,
    is_nnef1,
    is_onnx,
    is_skriptnd,
    is_stablehlo,
    is_tile,
    is_torch,
)
from tvm_nnef.diagnostics import NnefError, did_you_mean, error
from tvm_nnef.formats.other_kinds import damaged_kind, missing_kind, other_kind
from tvm_nnef.model.dtypes import split_dtypes
from tvm_nnef.storage.archive import is_archive
from tvm_nnef.storage.container import Container, is_text, open_container, open_files
from tvm_nnef.storage.names import (
    FOLDER_FILES,
    LIBRARY_FILE,
    LIBRARY_METADATA_FILE,
    SHARED_LIBRARIES,
)
from tvm_nnef.storage.write import ARCHIVE_SUFFIXES
from tvm_nnef.support.requirements import needed_for


@dataclass(frozen=True, slots=True)
class Format:
    """A format of models.

    ``name`` is the value of ``format=``, ``title`` its name in messages, ``source`` describes such
    a model. ``package`` has the function ``convert(source, *, …) -> Model`` and is empty for
    SkriptND itself; ``extra`` is the extra of tvm-nnef that installs its requirements.

    ``suffixes`` decide only if the content does not, as for a damaged file. ``exporter`` is a
    module with ``write_model(graph, variables, path, *, overwrite, source_names)``, for paths that
    end in ``exports``; ``exports_folder`` means that it writes a folder, or an archive if a suffix
    of archives follows.

    ``route`` is the route of ``compare`` on which the format's own library executes the model;
    ``execution`` is the module with ``open_execution(source)`` that does it (:class:`.Execution`),
    ``session`` the one with ``installed()`` and ``open_session(path, threads)`` that measures it.
    ``locations`` is the module with ``operation_locations(source)``, which returns by tensor name
    the file and line of its operation, and the operation; and ``WHAT``, the word for it.
    ``in_memory`` means that models are objects of a program, which the command line cannot name.
    """

    name: str
    title: str
    source: str
    detect: Callable[[Candidate], bool] = field(repr=False)
    package: str = ""
    extra: str = ""
    suffixes: tuple[str, ...] = ()
    exporter: str = ""
    exports: str = ""
    exports_folder: bool = False
    route: str = ""
    execution: str = ""
    session: str = ""
    locations: str = ""
    in_memory: bool = False

    @property
    def is_foreign(self) -> bool:
        """Whether a model has to be converted."""
        return bool(self.package)

    @property
    def on_command_line(self) -> bool:
        """Whether the command line takes such models, and they have to be converted."""
        return self.is_foreign and not self.in_memory

    @property
    def options(self) -> frozenset[str]:
        """The options of the conversion."""
        if not self.is_foreign:
            return frozenset()
        parameters = inspect.signature(self.load(self.package).convert).parameters.values()
        return frozenset(each.name for each in parameters if each.kind == each.KEYWORD_ONLY)

    def load(self, module: str, work: str = "reading") -> ModuleType:
        """Return a module of the format.

        Raises NnefError if a package that it needs is not installed.
        """
        with needed_for(f"{work} {self.title} models"):
            return importlib.import_module(module)

    def convert(self, source: Any, options: Mapping[str, Any]) -> Any:
        """Return the converted model.

        Raises NnefError for options that the format does not have.
        """
        options_of_format = self.options
        for name in (each for each in options if each not in options_of_format):
            hint = (
                did_you_mean(name, options_of_format)
                or f"options are {', '.join(sorted(options_of_format))}"
            )
            raise error(f"the conversion of {self.title} has no option '{name}'", hint=hint)
        for name in split_dtypes(options.get("dtypes"))[0]:
            hint = (
                "give it to the call or command that composes, runs or builds the converted model"
            )
            raise error(f"a conversion has no dtype of '{name}'", hint=hint)
        return self.load(self.package).convert(source, **options)


SKRIPTND = Format(
    "skriptnd",
    "SkriptND",
    "a SkriptND model (a folder, a '.tar' or '.tgz' archive, a '.sknd' file, or text)",
    is_skriptnd,
    suffixes=(".sknd",),
)
FORMATS = (
    SKRIPTND,
    Format(
        "onnx",
        "ONNX",
        "an ONNX model (a file, its bytes, or an onnx.ModelProto)",
        is_onnx,
        package="tvm_nnef.converters.onnx",
        extra="onnx",
        suffixes=(".onnx",),
        exporter="tvm_nnef.converters.onnx.export",
        exports=".onnx",
        route="onnxruntime",
        execution="tvm_nnef.converters.onnx.execution",
        session="tvm_nnef.converters.onnx.runtime",
    ),
    Format(
        "nnef1",
        "NNEF 1",
        "an NNEF 1 model (a folder or archive with 'graph.nnef', or its text)",
        is_nnef1,
        package="tvm_nnef.converters.nnef1",
        suffixes=(".nnef",),
        exporter="tvm_nnef.converters.nnef1.export",
        exports=".nnef1",
        exports_folder=True,
        locations="tvm_nnef.converters.nnef1.locations",
    ),
    Format(
        "antares",
        "Antares IR",
        "a call of einstein_v2 in Antares IR (a file, or its text)",
        is_antares,
        package="tvm_nnef.converters.antares",
        suffixes=(".antares",),
    ),
    Format(
        "stablehlo",
        "StableHLO",
        "a StableHLO module (what jax.export or jax.jit(f).lower gives, its text, or bytes)",
        is_stablehlo,
        package="tvm_nnef.converters.stablehlo",
        extra="jax",
        suffixes=(".mlir", ".stablehlo"),
        route="jax",
        execution="tvm_nnef.converters.stablehlo.execution",
    ),
    Format(
        "torch",
        "PyTorch",
        "a PyTorch model (a torch.nn.Module or a torch.export.ExportedProgram)",
        is_torch,
        package="tvm_nnef.converters.onnx.torch",
        extra="torch",
        in_memory=True,
    ),
    Format(
        "tile",
        "Tile",
        "a Tile function (in Python, or C++ text with a file of it)",
        is_tile,
        package="tvm_nnef.converters.tile",
        suffixes=(".tile",),
    ),
)
"""Every format. A new one needs no other change but its package."""


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source of a model, and its format.

    ``path`` is its name in messages; ``container`` has the files of a folder or an archive.
    """

    source: Any = field(repr=False)
    path: str
    format: Format
    container: Container | None = field(repr=False)

    @property
    def files(self) -> Container:
        """The files of a SkriptND model. Raises NnefError if there is no main module."""
        return open_container(self.source if self.container is None else self.container)


def open_source(
    model: Any, format: str | None = None, formats: Sequence[Format] = FORMATS
) -> OpenedSource:
    """Open a model and detect its format from the content.

    ``format`` is the name of the format if the content is ambiguous. Raises NnefError for a source
    that cannot be read, for an unknown kind of model, for one of several kinds, and for an unknown
    name.
    """
    if isinstance(model, OpenedSource):
        return model
    if isinstance(model, (bytearray, memoryview)):
        model = bytes(model)
    candidate = _candidate(model)
    chosen = _detected(candidate, formats) if format is None else format_named(format, formats)
    if not _is_source_of(chosen, candidate):
        raise _unknown(candidate, formats)
    return OpenedSource(model, _name(candidate), chosen, candidate.container)


def _is_source_of(format: Format, candidate: Candidate) -> bool:
    """Whether a source is of a kind that the reader of a format takes, if not a model of it."""
    match candidate.source:
        case str() | os.PathLike():
            return True
        case bytes():
            return format.is_foreign
        case FunctionType() if format.name == "tile":
            return True  # Only its use of indices is detected.
    return format.detect(candidate)


def format_named(name: str, formats: Sequence[Format] = FORMATS) -> Format:
    """Return the format of a name. Raises NnefError if there is none."""
    for each in formats:
        if each.name == name:
            return each
    names = [each.name for each in formats]
    hint = did_you_mean(name, names) or f"formats are {', '.join(names)}"
    raise error(f"unknown format '{name}'", hint=hint)


def exported_format(path: str | os.PathLike[str]) -> Format | None:
    """Return the format in which a destination of this name is written; None for SkriptND."""
    name = os.fspath(path)
    return next((each for each in FORMATS if each.exports and name.endswith(_endings(each))), None)


def _endings(format: Format) -> tuple[str, ...]:
    """Return the suffixes of the names of destinations of a format."""
    if not format.exports_folder:
        return (format.exports,)
    return tuple(format.exports + end for end in ("", os.sep, *ARCHIVE_SUFFIXES))


def _candidate(model: Any) -> Candidate:
    if isinstance(model, bytes):
        return Candidate(model, model[:HEAD])
    if not isinstance(model, (str, os.PathLike)):
        return Candidate(model)
    if isinstance(model, str) and is_text(model):
        return Candidate(model, model[:HEAD].encode("utf-8", "surrogatepass"))
    if model == "":
        raise error("the name of the model is empty", hint="give a path; '.' is this folder")
    if (missing := missing_kind(os.fspath(model))) is not None:
        raise error(f"this is {missing[0]}, not a model", hint=missing[1], file=os.fspath(model))
    path = Path(model)
    head = b"" if path.name in FOLDER_FILES else _head(path)
    if head and not is_archive(head):
        return Candidate(model, head)
    container = open_files(model)
    is_empty = not head and path.is_file() and path.name not in FOLDER_FILES
    return Candidate(model, head, None if is_empty else container)


def _head(path: Path) -> bytes:
    """Return the beginning of a regular file; empty for anything else: a pipe would block."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(HEAD)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        hint = "check the path and its permissions"
        raise error(f"cannot be read: {reason}", hint=hint, file=str(path)) from cause


def _detected(candidate: Candidate, formats: Sequence[Format]) -> Format:
    matching = [each for each in formats if each.detect(candidate)]
    if not matching and (other := other_kind(candidate)) is not None:
        name, hint = other
        raise error(f"this is {name}", hint=hint, file=_name(candidate))
    if len(matching) > 1:
        titles = " and ".join(each.title for each in matching)
        options = " or ".join(f"format='{each.name}'" for each in matching)
        hint = f"say which one is meant: {options} (--format)"
        raise error(f"this is a model of two kinds: {titles}", hint=hint, file=_name(candidate))
    return matching[0] if matching else _by_suffix(candidate, formats)


def _by_suffix(candidate: Candidate, formats: Sequence[Format]) -> Format:
    """Return the format by the suffix, if the content does not decide.

    Its reader reports the errors.
    """
    source = candidate.source
    is_path = isinstance(source, (str, os.PathLike)) and not _is_inline(source)
    suffix = Path(source).suffix if is_path else ""
    named = [each for each in formats if suffix in each.suffixes]
    if named:
        return named[0]
    if candidate.head and candidate.container is None and (kind := damaged_kind(candidate)):
        hint = "it is damaged or cut off: get it again"
        raise error(f"this is not {kind}, as its name says", hint=hint, file=_name(candidate))
    if candidate.text is not None and not isinstance(source, bytes):
        return SKRIPTND
    if candidate.container is not None or (is_path and not candidate.head):
        raise _nothing_inside(candidate, formats)
    raise _unknown(candidate, formats)


def _nothing_inside(candidate: Candidate, formats: Sequence[Format]) -> NnefError:
    """Return the error for a folder or archive without a model in it, or for an empty file."""
    container = candidate.container
    if container is None:
        return error("the file is empty", hint=_kinds(formats), file=_name(candidate))
    suffixes = tuple(suffix for each in formats for suffix in each.suffixes if each.is_foreign)
    inner = next((each for each in container.near_names() if each.endswith(suffixes)), None)
    if _is_library(candidate):
        return _unknown(candidate, formats)
    if inner is not None:
        message, hint = "this holds no model as a folder or archive", container.location(inner)
        return error(message, hint=f"did you mean '{hint}'?", file=container.path)
    try:
        open_container(container)
    except NnefError as problem:
        return problem
    return _unknown(candidate, formats)


def _is_library(candidate: Candidate) -> bool:
    """Whether a source is a library that ``build`` wrote, or similar to one."""
    container = candidate.container
    if container is not None:
        return any(map(container.exists, (LIBRARY_FILE, LIBRARY_METADATA_FILE)))
    return candidate.head.startswith(SHARED_LIBRARIES)


def _unknown(candidate: Candidate, formats: Sequence[Format]) -> NnefError:
    if _is_library(candidate):
        hint = "'run', 'bench', 'show' and 'check' take it, and tvm_nnef.load; for anything else "
        hint += "give the model that it was built from"
        return error("this is a library, not a model", hint=hint, file=_name(candidate))
    if callable(candidate.source):
        hint = "of a Tile function that uses no index, say format='tile'; of a function of JAX, "
        hint += "give what jax.jit(f).lower(…) or jax.export gives"
    elif candidate.head.startswith(b"PK\3\4"):
        hint = "zip archives are not read; unpack it and give the folder, or pack it as '.tgz'"
    else:
        hint = _kinds(formats)
    if isinstance(candidate.source, bytes):
        return error("the bytes are not a model of a known kind", hint=hint)
    if not isinstance(candidate.source, (str, os.PathLike)):
        kind = type(candidate.source).__name__
        return error(f"an object of type {kind} is not a model", hint=hint)
    return error("this is not a model of a known kind", hint=hint, file=_name(candidate))


def _kinds(formats: Sequence[Format]) -> str:
    titles = [each.title for each in formats]
    return f"models are {', '.join(titles[:-1])} and {titles[-1]} ('tvm-nnef check --help')"


def _name(candidate: Candidate) -> str:
    source = candidate.source
    if isinstance(source, (str, os.PathLike)) and not _is_inline(source):
        return str(source)
    return f"<{type(source).__name__}>" if not isinstance(source, str) else "<text>"


def _is_inline(source: object) -> bool:
    return isinstance(source, str) and is_text(source)
