from collections.abc import Callable

from tvm.ir import IRModule

def __getattr__(name: str) -> Callable[..., Callable[[IRModule], IRModule]]: ...
