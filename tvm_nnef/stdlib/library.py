"""The texts of the standard library, found by the name of a module and the dialect of a model.

The library is written once, in the draft's dialect; the overlay folder ``tools`` holds the
operators that Khronos's tools name or define differently. Nothing is parsed here except for
:func:`standard_operators`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_nnef.diagnostics import NnefError, Source
from tvm_nnef.semantics.check import check_program
from tvm_nnef.semantics.program import OVERLAY_PREFIX, STDLIB_PREFIX, CheckedDefinition

if TYPE_CHECKING:
    from importlib.abc import Traversable

_SUFFIX = ".sknd"
_EXTENSIONS = "extensions"
"""The folder of modules that a model may import, though the standard library lacks them."""
_LONGEST_NAME = 64
"""No module has a longer name; asking for a file of a much longer one is an OSError."""
_OPERATOR = re.compile(r"^operator\s+([A-Za-z]\w*)", re.MULTILINE)


def standard_module(name: str, dialect: str = "draft") -> tuple[Source, ...]:
    """The texts of a module; the first one to define an operator counts. Empty where unknown."""
    if len(name) > _LONGEST_NAME:
        return ()
    places = [(STDLIB_PREFIX, _folder())]
    if dialect == "tools":
        places.insert(0, (OVERLAY_PREFIX, _folder() / "tools"))
    places.append((STDLIB_PREFIX, _folder() / _EXTENSIONS))
    files = ((prefix, folder / f"{name}{_SUFFIX}") for prefix, folder in places)
    return tuple(
        Source(f"{prefix}{name}{_SUFFIX}", file.read_text(encoding="utf-8"))
        for prefix, file in files
        if file.is_file()
    )


def standard_file(path: str) -> Path:
    """The file of a module by the path of its :class:`Source`."""
    name = path.removeprefix(STDLIB_PREFIX)
    folders = (_folder(), _folder() / _EXTENSIONS)
    return next(file for file in (Path(str(folder / name)) for folder in folders) if file.is_file())


def is_standard_file(path: Path) -> bool:
    """Whether a file is a module of the standard library."""
    files = Path(str(_folder())).rglob(f"*{_SUFFIX}")
    # Each file may be a link: of a strict editable installation.
    return path.resolve() in {file.resolve() for file in files}


def extensions() -> list[str]:
    """The modules that a model may import, though the standard library lacks them."""
    return _modules(_folder() / _EXTENSIONS)


def tools_names() -> frozenset[str]:
    """The qualified names of operators that only the tools' standard library has."""
    names: set[str] = set()
    for module in _modules(_folder() / "tools"):
        overlay, *base = (_OPERATOR.findall(s.text) for s in standard_module(module, "tools"))
        known = {name for found in base for name in found}
        names |= {f"{module}.{name}" for name in overlay if name not in known}
    return frozenset(names)


def operator_names(dialect: str) -> frozenset[str]:
    """The qualified names of all operators of the standard library."""
    modules = {*_modules(_folder()), *_modules(_folder() / "tools")}
    return frozenset(
        f"{module}.{name}"
        for module in modules
        for source in standard_module(module, dialect)
        for name in _OPERATOR.findall(source.text)
    )


def standard_operators(modules: Sequence[str] = ()) -> Iterator[CheckedDefinition]:
    """Every operator of some modules, in the order of modules and text.

    Without names these are the modules of the standard library (the draft's).
    """
    names = modules or _modules(_folder())
    imports = "".join(f"import {name};\n" for name in names)
    graph = "graph G { @input { x: real[]; } @output { y: real[]; } @compose { y = x; } }"
    program, found = check_program(
        Source("<operators>", f"{imports}{graph}\n"), lambda parts: standard_module(parts[0])
    )
    if program is None:
        raise NnefError(found)
    for name in names:
        yield from program.modules[name].definitions.values()


def _folder() -> Traversable:
    return resources.files("tvm_nnef.stdlib")


def _modules(folder: Traversable) -> list[str]:
    if not folder.is_dir():
        return []
    files = (file.name for file in folder.iterdir() if file.name.endswith(_SUFFIX))
    return sorted(name.removesuffix(_SUFFIX) for name in files)
