"""Exporters of the standard operators to ONNX, a family in each module."""
