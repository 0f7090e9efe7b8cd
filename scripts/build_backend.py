"""The build backend: setuptools; the README gets absolute links, as package indexes need them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from setuptools import build_meta

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "build" / "README.md"
"""What pyproject.toml names as the README."""

LINK = re.compile(r"\]\((?!#|[a-z]+:)([^)#\s]+)")
"""A relative link of Markdown up to its fragment."""

get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel


def source_address(path: str) -> str:
    """The address of a file or folder of the sources, where pyproject.toml says they are."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^Source = "(.*)"$', text, re.MULTILINE)
    assert found is not None, "pyproject.toml has no address of the sources"
    kind = "raw" if path.endswith(".png") else "blob"
    return f"{found[1]}/{kind}/main/{path}"


def absolute(text: str) -> str:
    """A text of the root folder with absolute links."""
    return LINK.sub(lambda link: f"]({source_address(link[1])}", text)


def _write_readme() -> None:
    README.parent.mkdir(exist_ok=True)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    README.write_text(absolute(text), encoding="utf-8")


def build_editable(*arguments: Any, **options: Any) -> str:
    """Build an editable wheel."""
    _write_readme()
    return build_meta.build_editable(*arguments, **options)


def build_sdist(*arguments: Any, **options: Any) -> str:
    """Build a source distribution."""
    _write_readme()
    return build_meta.build_sdist(*arguments, **options)


def build_wheel(*arguments: Any, **options: Any) -> str:
    """Build a wheel."""
    _write_readme()
    return build_meta.build_wheel(*arguments, **options)


def prepare_metadata_for_build_editable(*arguments: Any, **options: Any) -> str:
    """Write the metadata of an editable wheel."""
    _write_readme()
    return build_meta.prepare_metadata_for_build_editable(*arguments, **options)


def prepare_metadata_for_build_wheel(*arguments: Any, **options: Any) -> str:
    """Write the metadata of a wheel."""
    _write_readme()
    return build_meta.prepare_metadata_for_build_wheel(*arguments, **options)
