"""NNEF 2 (SkriptND) models on Apache TVM: parse, check, compose, compile, run.

Importing this package imports neither TVM nor NumPy; each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_nnef.api.building import build, compose, evaluate, from_nnef
    from tvm_nnef.api.checking import check
    from tvm_nnef.api.conversion import convert
    from tvm_nnef.api.extraction import extract
    from tvm_nnef.api.files import load_image, read_tensor, write_tensor
    from tvm_nnef.api.importers import from_onnx
    from tvm_nnef.api.quantization import quantize
    from tvm_nnef.api.tuning import tune
    from tvm_nnef.arguments.calls import Outputs
    from tvm_nnef.comparison import Report
    from tvm_nnef.comparison.models import compare
    from tvm_nnef.diagnostics import (
        Diagnostic,
        InputError,
        ModelError,
        NnefError,
        NnefWarning,
        TargetError,
        UnsupportedError,
    )
    from tvm_nnef.executable.loading import load
    from tvm_nnef.executable.runtime import Executable
    from tvm_nnef.formats.reading import load_model
    from tvm_nnef.model.model import Model, save_model
    from tvm_nnef.profiling.profile import Profile
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
    "extract",
    "from_nnef",
    "from_onnx",
    "load",
    "load_image",
    "load_model",
    "quantize",
    "read_tensor",
    "save_model",
    "tune",
    "write_tensor",
]

_HOMES = {
    "tvm_nnef.api.building": ("build", "compose", "evaluate", "from_nnef"),
    "tvm_nnef.comparison": ("Report",),
    "tvm_nnef.comparison.models": ("compare",),
    "tvm_nnef.arguments.calls": ("Outputs",),
    "tvm_nnef.api.conversion": ("convert",),
    "tvm_nnef.diagnostics": (
        "Diagnostic",
        "InputError",
        "ModelError",
        "NnefError",
        "NnefWarning",
        "TargetError",
        "UnsupportedError",
    ),
    "tvm_nnef.version": ("__version__",),
    "tvm_nnef.api.extraction": ("extract",),
    "tvm_nnef.api.files": ("load_image", "read_tensor", "write_tensor"),
    "tvm_nnef.api.importers": ("from_onnx",),
    "tvm_nnef.executable.loading": ("load",),
    "tvm_nnef.formats.reading": ("load_model",),
    "tvm_nnef.model.model": ("Model", "save_model"),
    "tvm_nnef.api.checking": ("check",),
    "tvm_nnef.profiling.profile": ("Profile",),
    "tvm_nnef.executable.runtime": ("Executable",),
    "tvm_nnef.api.quantization": ("quantize",),
    "tvm_nnef.api.tuning": ("tune",),
}


# In a checkout, two packages are beside this one.
if not (Path(__file__).parent / "schedules").is_dir():
    importlib.import_module("tvm_nnef.support.checkout").find_outer_packages()


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            try:
                return getattr(importlib.import_module(home), name)
            except ModuleNotFoundError as cause:
                requirements = importlib.import_module("tvm_nnef.support.requirements")
                if (missing := requirements.missing_package(cause, f"'{name}'")) is None:
                    raise
                raise missing from cause
    raise AttributeError(f"module 'tvm_nnef' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
