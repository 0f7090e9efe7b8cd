"""Types of the parts of TVM's API that this package uses; everything else is ``Any``.

Read by mypy only. TVM 0.27 ships no types.
"""

from typing import Any

from tvm import ir as ir
from tvm import relax as relax
from tvm import s_tir as s_tir
from tvm import target as target
from tvm import te as te
from tvm import tirx as tirx
from tvm.ir import IRModule as IRModule

__version__: str

def __getattr__(name: str) -> Any: ...
