from collections.abc import Mapping, Sequence
from typing import Any

from tvm.ir import Expr, Var
from tvm.tirx import IterVar, Stmt

class SBlock(Stmt):
    iter_vars: Sequence[IterVar]
    reads: Sequence[Any]
    writes: Sequence[Any]
    name_hint: str
    body: Stmt
    init: Stmt | None
    alloc_buffers: Sequence[Var]
    annotations: Mapping[str, Any]
    def __init__(
        self,
        iter_vars: Sequence[IterVar],
        reads: Sequence[Any],
        writes: Sequence[Any],
        name_hint: str,
        body: Stmt,
        init: Stmt | None = None,
        alloc_buffers: Sequence[Var] | None = None,
        *args: Any,
        **options: Any,
    ) -> None: ...

class SBlockRealize(Stmt):
    iter_values: Sequence[Expr]
    predicate: Expr
    block: SBlock
    def __init__(
        self, iter_values: Sequence[Expr], predicate: Expr | bool, block: SBlock
    ) -> None: ...

def __getattr__(name: str) -> Any: ...
