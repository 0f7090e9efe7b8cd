"""ONNX to SkriptND: ``convert`` turns a ModelProto or a ``.onnx`` file into a model.

``onnx`` is needed for it, the package's extra of that name.
"""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.main import convert
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import Converter, operator

__all__ = ["Builder", "Converter", "Node", "Unconvertible", "convert", "operator"]
