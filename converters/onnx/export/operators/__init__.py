"""How operators of the standard modules are said in ONNX, a family in each module."""
