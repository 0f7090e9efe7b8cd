"""NNEF 2 (SkriptND) models on Apache TVM: parse, check, compose, compile, run.

Importing this package imports neither TVM nor NumPy; each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_nnef.api import build, compose, evaluate, from_nnef
    from tvm_nnef.calls import Outputs
    from tvm_nnef.comparison import Report
    from tvm_nnef.comparison.models import compare
    from tvm_nnef.conversion import convert
    from tvm_nnef.diagnostics import (
        Diagnostic,
        InputError,
        ModelError,
        NnefError,
        NnefWarning,
        TargetError,
        UnsupportedError,
    )
    from tvm_nnef.files import load_image, read_tensor, write_tensor
    from tvm_nnef.importers import from_onnx
    from tvm_nnef.loading import load
    from tvm_nnef.model import Model, load_model, save_model
    from tvm_nnef.model_check import check
    from tvm_nnef.profile import Profile
    from tvm_nnef.runtime import Executable
    from tvm_nnef.tuning.models import tune
    from tvm_nnef.version import __version__

__all__ = [
    "Diagnostic",
    "Executable",
    "InputError",
    "Model",
    "ModelError",
    "NnefError",
    "NnefWarning",
    "Outputs",
    "Profile",
    "Report",
    "TargetError",
    "UnsupportedError",
    "__version__",
    "build",
    "check",
    "compare",
    "compose",
    "convert",
    "evaluate",
    "from_nnef",
    "from_onnx",
    "load",
    "load_image",
    "load_model",
    "read_tensor",
    "save_model",
    "tune",
    "write_tensor",
]

_HOMES = {
    "tvm_nnef.api": ("build", "compose", "evaluate", "from_nnef"),
    "tvm_nnef.comparison": ("Report",),
    "tvm_nnef.comparison.models": ("compare",),
    "tvm_nnef.calls": ("Outputs",),
    "tvm_nnef.conversion": ("convert",),
    "tvm_nnef.diagnostics": (
        "Diagnostic",
        "InputError",
        "ModelError",
        "NnefError",
        "NnefWarning",
        "NnefWarning",
        "TargetError",
        "UnsupportedError",
    ),
    "tvm_nnef.version": ("__version__",),
    "tvm_nnef.files": ("load_image", "read_tensor", "write_tensor"),
    "tvm_nnef.importers": ("from_onnx",),
    "tvm_nnef.loading": ("load",),
    "tvm_nnef.model": ("Model", "load_model", "save_model"),
    "tvm_nnef.model_check": ("check",),
    "tvm_nnef.profile": ("Profile",),
    "tvm_nnef.runtime": ("Executable",),
    "tvm_nnef.tuning.models": ("tune",),
}


# In a checkout, two packages are beside this one.
if not (Path(__file__).parent / "schedules").is_dir():
    importlib.import_module("tvm_nnef.checkout").find_outer_packages()


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'tvm_nnef' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
