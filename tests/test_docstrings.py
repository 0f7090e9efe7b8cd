"""Docstrings of the public names: sections in NumPy style, parameters as they are, examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import tvm_nnef

ROOT = Path(__file__).resolve().parents[1]
ERRORS = ("InputError", "ModelError", "TargetError", "UnsupportedError")
"""Classes that say all in a line."""
NAMES = [name for name in tvm_nnef.__all__ if name not in ("__version__", *ERRORS)]
SLOW = (
    *("Executable", "Profile", "Report", "build", "compare", "from_nnef", "from_onnx", "load"),
    "tune",
)
"""Names whose examples compile."""
RAISES_NOTHING = ("check",)


def sections(docstring: str) -> dict[str, str]:
    """The text of each section, by its title; that of the beginning by an empty one."""
    first, *others = re.split(r"^([A-Z]\w+)\n-+\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return {"": first, **dict(zip(others[::2], others[1::2], strict=True))}


def described(section: str) -> set[str]:
    """The names of the parameters that a section describes."""
    lines = re.findall(r"^(\S[^:\n]*)", section, re.MULTILINE)
    return {name.strip() for line in lines for name in line.split(",")}


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_have_their_sections(name: str) -> None:
    value: Any = getattr(tvm_nnef, name)
    found = sections(value.__doc__)
    assert re.fullmatch(r"[^\n]+\.", found[""].split("\n\n")[0].strip())
    assert ">>> import tvm_nnef\n" in found["Examples"]
    if inspect.isclass(value):
        return
    signature = inspect.signature(value)
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = {kinds.get(each.kind, "") + each.name for each in signature.parameters.values()}
    assert described(found["Parameters"]) == parameters
    assert ("Returns" in found) == (signature.return_annotation != "None")
    assert ("Raises" in found) == (name not in RAISES_NOTHING)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow if each in SLOW else ()) for each in NAMES]
)
def test_examples_of_docstrings_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    value = getattr(tvm_nnef, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(value, name, module=False)
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0
