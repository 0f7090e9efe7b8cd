"""Import of the packages of a checkout that an installation has inside this package.

The folders ``converters`` and ``schedules`` are next to ``tvm_nnef`` and are installed into it. A
finder for these two names allows to use a checkout without installation, and does not change the
search path of the package: with the folder around it, ``tvm_nnef.tests`` could be imported as
well.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = {f"tvm_nnef.{name}": _ROOT / name for name in ("converters", "schedules")}


class OuterPackages(importlib.abc.MetaPathFinder):
    """A finder of the two packages in the folder that contains the package ``tvm_nnef``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a package, if it is one of the two."""
        file = _FOLDERS[name] / "__init__.py" if name in _FOLDERS else None
        if file is None or not file.is_file():
            return None
        return importlib.util.spec_from_file_location(
            name, file, submodule_search_locations=[str(file.parent)]
        )


def find_outer_packages() -> None:
    """Let the two packages be imported from the checkout."""
    sys.meta_path.append(OuterPackages())
