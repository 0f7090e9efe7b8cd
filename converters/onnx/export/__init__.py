"""A composed Graph to ONNX: ``export`` makes a ModelProto of it, ``write`` puts that on disk.

Nothing is read back here; ``tvm_nnef.converters.onnx.convert`` goes the other way.
"""

from __future__ import annotations

from tvm_nnef.converters.onnx.export.model import export
from tvm_nnef.converters.onnx.export.writing import write

__all__ = ["export", "write"]
