"""The functions of ONNX's operators, a module for each family; ``registry`` gathers them."""
