"""Where a checkout has the packages that an installation has in this one.

The folders ``converters`` and ``schedules`` are beside ``tvm_nnef`` and are installed into it. A
finder for these two names lets a checkout be used as it is, and leaves the search path of the
package alone: with the folder around it, ``tvm_nnef.tests`` could be imported as well.
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
    """Finds the two packages in the folder that the package ``tvm_nnef`` is in."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The package of a name, if it is one of the two."""
        file = _FOLDERS[name] / "__init__.py" if name in _FOLDERS else None
        if file is None or not file.is_file():
            return None
        return importlib.util.spec_from_file_location(
            name, file, submodule_search_locations=[str(file.parent)]
        )


def find_outer_packages() -> None:
    """Let the two packages be imported from the checkout."""
    sys.meta_path.append(OuterPackages())
