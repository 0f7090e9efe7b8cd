"""Bytecode of MLIR read by a separate process first: damaged bytecode can abort its reader.

Bytes in, a reason why they cannot be read out. Bytecode that MLIR rejects
without a crash passes here: its reader gives the better message.
"""

from __future__ import annotations

import signal
import subprocess
import sys

_SECONDS = 60
_MEMORY = 4 << 30
"""Bytes that reading may take, besides some copies of the bytecode."""
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
    """Why reading bytecode would end or stall the process that does it; None if it would not."""
    command = [sys.executable, "-c", _PROGRAM, str(_MEMORY + _COPIES * len(data))]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"reading it takes more than {_SECONDS} seconds"
    if done.returncode >= 0:
        return None
    number = -done.returncode
    name = next((each.name for each in signal.Signals if each == number), str(number))
    return f"reading it ends MLIR with {name}"
