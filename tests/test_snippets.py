"""The snippets of the README and of ``docs`` run, and print the output that is below them.

A page is run in its own folder, which has ``docs``, from the first block to the last:

- ``python`` blocks share their names; lines of ``sh`` blocks, and indented lines that begin with
  ``tvm-nnef``, are commands, of which those that install something are left out;
- a block whose first line is a comment with nothing but a file name is written to that file;
- a ``text`` block right below is the output, in which numbers and ``…`` stand for any text;
- ``sknd`` blocks are checked;
- ``<!-- not run: REASON -->`` above a block leaves it out, and ``<!-- before: CODE -->`` is Python
  that is run and not shown.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import tvm_nnef
from tvm_nnef.cli import main

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ("operators.md", "onnx-operators.md")
PAGES = [
    ROOT / "README.md",
    *sorted(each for each in (ROOT / "docs").rglob("*.md") if each.name not in GENERATED),
]
NOT_CODE = ("text", "json", "toml", "lua", "elisp", "cpp", "c", "cmake", "yaml", "diff", "html")
"""Languages that are not run. Blocks of C++ are compared with the files that they come from."""
OPTIONAL = ("fastapi", "uvicorn", "jax", "onnx", "onnxruntime", "torch", "vulkan", "onnxscript")
"""Packages without which a page is skipped."""

_FENCE = re.compile(r"( *)```(\w*)\s*$")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_FILE = re.compile(r"(?:#|//) ([\w.-]+\.\w+)$")
_INDENTED = re.compile(r"    (tvm-nnef .*)")
_PROGRESS = re.compile(r"^\w+: .* \(\d+ of \d+, after \d+ s\)\n", re.MULTILINE)
_INSTALLS = re.compile(r"(pip|apt|npm|source|python3? -m (venv|pip)) ?")


@dataclass(frozen=True)
class Block:
    """A block of a page: its language, the line of its first line, its text, what it prints."""

    language: str
    line: int
    text: str
    output: str | None = None
    is_run: bool = True

    @property
    def file(self) -> str | None:
        """The file that the block is, if its first line says so."""
        named = _FILE.match(self.text.partition("\n")[0])
        return named[1] if named else None


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number, is_run, follows = 0, True, False
    while number < len(lines):
        line, start = lines[number], number + 1
        fence, number = _FENCE.match(line), number + 1
        if fence:
            end = lines.index(f"{fence[1]}```", start)
            text, number = textwrap.dedent("\n".join(lines[start:end])) + "\n", end + 1
            if follows and fence[2] == "text":
                found[-1] = replace(found[-1], output=text)
            else:
                found.append(Block(fence[2], start + 1, text, is_run=is_run))
            is_run, follows = True, fence[2] in ("python", "sh")
        elif line.startswith("<!-- before:"):
            end = next(each for each in range(number - 1, len(lines)) if "-->" in lines[each])
            text = "\n".join(lines[number - 1 : end + 1])
            code = text.removeprefix("<!-- before:").removesuffix("-->")
            found.append(Block("python", start, textwrap.dedent(code).strip() + "\n"))
            number, follows = end + 1, False
        elif _INDENTED.match(line):
            found.append(Block("sh", start, _INDENTED.match(line)[1] + "\n", is_run=is_run))
            is_run = is_run or not lines[number].startswith("    ")
        elif line:
            is_run, follows = not _NOT_RUN.match(line), False
    return found


def ids(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_each_block_can_be_run_or_is_no_code(page: Path) -> None:
    known = ["python", "sh", "sknd", *NOT_CODE]
    known += [""] if page.name == "README.md" else []
    assert [each for each in blocks(page) if each.is_run and each.language not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_models_of_the_page_have_no_errors(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in blocks(page):
        if each.language == "sknd" and each.is_run:
            path = Path(each.file or f"block{each.line}.sknd")
            path.write_text(each.text, encoding="utf-8")
            found = tvm_nnef.check(path)
            errors = [one.message for one in found if one.severity == "error"]
            assert set(errors) <= {"the main module has no graph"}, f"{ids(page)}:{each.line}"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").symlink_to(ROOT / "docs")
    names: dict[str, Any] = {"__name__": "__main__"}
    for each in blocks(page):
        try:
            printed = run(each, names) if each.is_run else None
        except ModuleNotFoundError as problem:
            if problem.name in OPTIONAL:
                pytest.skip(f"{ids(page)}:{each.line} needs {problem.name}")
            raise
        if each.output is not None and printed is not None:
            assert like(each.output).fullmatch(squeezed(printed)), f"{each.line}: {printed}"


def run(block: Block, names: dict[str, Any]) -> str | None:
    """What a block prints, if it is run."""
    if block.file is not None:
        Path(block.file).write_text(block.text, encoding="utf-8")
    if block.language == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, f"block of line {block.line}", "exec"), names)
        return printed.getvalue()
    return commands(block.text) if block.language == "sh" else None


def commands(text: str) -> str | None:
    """What the commands of a block print; None if they do nothing but install."""
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    parts = [part for line in lines for part in line.split(" && ") if not _INSTALLS.match(part)]
    if not parts:
        return None
    if all(part.startswith("tvm-nnef ") for part in parts):
        return "".join(command(part) for part in parts)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = ["bash", "-euo", "pipefail", "-c", "\n".join(parts)]
    done = subprocess.run(script, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{text}{done.stderr}"
    return done.stdout


def command(line: str) -> str:
    """What a ``tvm-nnef`` command prints. A status other than 0 must be shown as ``# status 1``."""
    words = shlex.split(line, comments=True)
    status = re.search(r"# status (\d)", line)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        found = main(words[1:])
    assert found == int(status[1] if status else 0), f"{line}: {printed.getvalue()}"
    return _PROGRESS.sub("", printed.getvalue())


def squeezed(text: str) -> str:
    """A text without layout, so that a table may be as wide as it likes."""
    return re.sub(r"[\s█]+", " ", text).strip()


def like(shown: str) -> re.Pattern[str]:
    """The pattern of what a page shows: numbers may be others, and ``…`` or ``...`` is any text."""
    parts = re.split(r"(…|\.\.\.|\d+(?:\.\d+)?(?:e[-+]?\d+)?)", squeezed(shown))
    wild = {"…": ".*", "...": ".*"}
    made = (
        wild.get(part, r"[-+\d.e]+") if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )
    return re.compile("".join(made), re.DOTALL)


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_has_shown(
    imported: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    notebook = json.loads((ROOT / "docs" / "gallery" / "tour.ipynb").read_text(encoding="utf-8"))
    found = imported(ROOT / "scripts" / "run_notebook.py").run(notebook)
    for cell, again in zip(notebook["cells"], found["cells"], strict=True):
        kinds = [
            [(each["output_type"], *each.get("data", ())) for each in one.get("outputs", ())]
            for one in (cell, again)
        ]
        assert kinds[0] == kinds[1], cell["source"]
