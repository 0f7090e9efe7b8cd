"""Relative links of Markdown as absolute ones, to where pyproject.toml says the sources are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?!#|[a-z]+:)([^)#\s]+)")
"""A relative link up to its fragment."""
_PICTURE = re.compile(r'\b(src|srcset)="(?![a-z]+:)([^"]+)"')
"""A relative link of a picture in HTML."""


def repository() -> str:
    """The address of the sources."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^Source = "(.*)"$', text, re.MULTILINE)
    assert found is not None, "pyproject.toml has no address of the sources"
    return found[1]


def address(path: str) -> str:
    """The address of a file or folder of the sources."""
    kind = "raw" if path.endswith((".png", ".svg")) else "blob"
    return f"{repository()}/{kind}/main/{path}"


def absolute(text: str) -> str:
    """A text of the root folder with absolute links."""
    text = LINK.sub(lambda link: f"]({address(link[1])}", text)
    return _PICTURE.sub(lambda link: f'{link[1]}="{address(link[2])}"', text)
