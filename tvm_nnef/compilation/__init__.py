"""IRModule in, :class:`tvm_nnef.runtime.Executable` out; start reading at ``pipeline.py``."""
