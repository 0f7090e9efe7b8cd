"""IRModule in, :class:`tvm_nnef.runtime.Executable` out; start reading at ``pipeline.py``."""

import tvm_nnef.tvm_support  # noqa: F401  Reports that TVM is not installed.
