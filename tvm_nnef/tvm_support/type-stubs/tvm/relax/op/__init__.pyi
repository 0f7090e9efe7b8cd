from collections.abc import Callable
from typing import Any

from tvm.ir import Expr
from tvm.relax.op import nn as nn

builtin: Any
image: Any
memory: Any

def __getattr__(name: str) -> Callable[..., Expr]: ...
