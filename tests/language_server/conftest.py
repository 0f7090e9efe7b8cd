"""Texts with a cursor, and the modules of their model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_nnef.language_server.files import files_of
from tvm_nnef.language_server.modules import Modules, modules_of

Cursor = Callable[[str], tuple[Modules, int]]


@pytest.fixture
def at_cursor(tmp_path: Path) -> Cursor:
    """The modules of a main module whose text has a '$', and the offset of that."""

    def parse(marked: str) -> tuple[Modules, int]:
        path = str(tmp_path / "main.sknd")
        offset = marked.index("$")
        return modules_of(files_of(path, {path: marked.replace("$", "")})), offset

    return parse
