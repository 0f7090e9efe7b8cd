"""Check of MLIR bytecode in a separate process: damaged bytecode can abort its reader.

Input: bytes. Output: the reason why they cannot be read, or None. Bytecode that MLIR rejects
without a crash passes: its reader reports a better message.
"""

from __future__ import annotations

import signal
import subprocess
import sys

_SECONDS = 60
_MEMORY = 4 << 30
"""Upper limit of the memory for reading, besides some copies of the bytecode, in bytes."""
_COPIES = 8

# It reads as jax.interpreters.mlir.make_ir_context would, without the time to import jax.
_PROGRAM = """
import sys
data = sys.stdin.buffer.read()
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo
registry = ir.DialectRegistry()
_jax_mlir_ext.register_dialects(registry)
try:
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, OSError, ValueError):
    pass
with ir.Context() as context:
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    try:
        module = stablehlo.deserialize_portable_artifact(context, data)
    except Exception:
        try:
            module = ir.Module.parse(data)
        except Exception:
            sys.exit()
    module.operation.verify()
"""


def unreadable(data: bytes) -> str | None:
    """Return the reason why reading bytecode would end or stall the process.

    It is None if it would not.
    """
    command = [sys.executable, "-c", _PROGRAM, str(_MEMORY + _COPIES * len(data))]
    try:
        completed = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"reading it takes more than {_SECONDS} seconds"
    if completed.returncode >= 0:
        return None
    number = -completed.returncode
    name = next((each.name for each in signal.Signals if each == number), str(number))
    return f"reading it ends MLIR with {name}"
