"""The build backend: setuptools; the README gets absolute links, as package indexes need them."""

from __future__ import annotations

from setuptools.build_meta import *  # noqa: F403
from source_links import ROOT, absolute

# All hooks of setuptools read the README that pyproject.toml names.
_readme = ROOT / "build" / "README.md"
_readme.parent.mkdir(exist_ok=True)
_readme.write_text(absolute((ROOT / "README.md").read_text(encoding="utf-8")), encoding="utf-8")
