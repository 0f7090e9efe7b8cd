"""Functions that the scripts which write pages of ``docs`` share.

``mark`` is the line after which a page is written by a script; the part before it is kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def mark(script: str) -> str:
    """The line after which ``scripts/SCRIPT`` writes a page."""
    return f"<!-- Written by scripts/{script} from here on; do not edit. -->\n"


def with_end(page: Path, script: str, end: str) -> str:
    """The text of a page with another end after the mark of a script."""
    line = mark(script)
    return page.read_text(encoding="utf-8").partition(line)[0] + line + "\n" + end


def write(page: Path, make: Callable[[], str], description: str | None) -> int:
    """Write a page; with ``--check`` write nothing, and return 1 if the page is another one."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--check", action="store_true", help="write nothing")
    is_check = arguments.parse_args().check
    text = make()
    if is_check:
        return int(not page.is_file() or page.read_text(encoding="utf-8") != text)
    page.write_text(text, encoding="utf-8")
    return 0
