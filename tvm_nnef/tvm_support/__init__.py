"""Everything that changes from one TVM release to the next: API, code generation, threads.

Importing it imports the package ``tvm_ffi`` alone (see ``runtime.py``). Raises NnefError if TVM is
not installed.
"""

from importlib.util import find_spec

from tvm_nnef.requirements import needed_for

with needed_for("compiling or running a compiled model"):
    if find_spec("tvm") is None:
        raise ModuleNotFoundError("TVM is not installed", name="tvm")
    import tvm_ffi  # noqa: F401
