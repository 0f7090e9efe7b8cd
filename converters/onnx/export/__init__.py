"""A composed Graph to ONNX: ``export`` makes a ModelProto of it, ``write`` a file.

Nothing is read back here; ``tvm_nnef.converters.onnx.convert`` goes the other way.
"""

from __future__ import annotations

from tvm_nnef.converters.onnx.export.model import export, exported
from tvm_nnef.converters.onnx.export.writing import Exported, write

__all__ = ["Exported", "export", "exported", "write"]
