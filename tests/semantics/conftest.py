"""Checking of short texts: the location of a mistake is marked by « and » in the text itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import resources

import pytest

from tvm_nnef.diagnostics import Diagnostic, Source
from tvm_nnef.semantics.check import check_program
from tvm_nnef.semantics.program import Program
from tvm_nnef.syntax.parser import parse

GRAPH = "graph Main { @input { x: real[1]; } @output { y: real[1]; } @compose { y = x; } }\n"

Checked = tuple[Program | None, list[Diagnostic]]
Check = Callable[..., Checked]


def _standard(parts: tuple[str, ...]) -> Source | None:
    if len(parts) != 1:
        return None
    file = resources.files("tvm_nnef.stdlib").joinpath(f"{parts[0]}.sknd")
    if not file.is_file():
        return None
    return Source(f"<stdlib>/{parts[0]}.sknd", file.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def check() -> Check:
    """Checks a main module; other modules by name, standard ones where none is given."""
    parse_once = functools.lru_cache(maxsize=16)(parse)

    def run(
        text: str, modules: Mapping[str, str] | None = None, *, check_stdlib: bool = False
    ) -> Checked:
        given = modules or {}

        def load(parts: tuple[str, ...]) -> Source | None:
            name = ".".join(parts)
            if name in given:
                return Source(f"{'/'.join(parts)}.sknd", given[name])
            return _standard(parts)

        main = Source("main.sknd", text)
        return check_program(main, load, check_stdlib=check_stdlib, parse=parse_once)

    return run


@pytest.fixture(scope="session")
def expect_error(check: Check) -> Callable[..., None]:
    """Checks a text with one marked mistake: one diagnostic there, with these words and a hint."""

    def run(
        marked: str,
        message: str,
        *,
        hint: str | None = None,
        graph: bool = True,
        modules: Mapping[str, str] | None = None,
    ) -> None:
        text = (GRAPH if graph else "") + marked
        start, end = text.index("«"), text.index("»") - 1
        _, found = check(text.replace("«", "").replace("»", ""), modules)
        assert [d.message for d in found if message not in d.message] == []
        assert len(found) == 1, f"not found: {message}"
        span = found[0].span
        assert span is not None
        assert (span.start, span.end) == (start, end), span.text
        assert found[0].hint, f"no hint: {found[0].message}"
        assert hint is None or hint in found[0].hint, found[0].hint

    return run


@pytest.fixture(scope="session")
def expect_clean(check: Check) -> Callable[..., Program]:
    """Checks a text that is right: no diagnostics, and a program."""

    def run(text: str, *, graph: bool = True, modules: Mapping[str, str] | None = None) -> Program:
        program, found = check((GRAPH if graph else "") + text, modules)
        assert [diagnostic.render() for diagnostic in found] == []
        assert program is not None
        return program

    return run
