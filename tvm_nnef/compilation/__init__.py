"""IRModule in, :class:`~tvm_nnef.executable.runtime.Executable` out; read ``pipeline.py`` first."""

import tvm_nnef.tvm_support  # noqa: F401  Reports that TVM is not installed.
