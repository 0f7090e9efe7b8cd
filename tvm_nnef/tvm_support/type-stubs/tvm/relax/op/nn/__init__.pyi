from collections.abc import Callable

from tvm.ir import Expr

def __getattr__(name: str) -> Callable[..., Expr]: ...
