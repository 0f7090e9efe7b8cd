from collections.abc import Mapping, Sequence
from typing import Any

from tvm.ir import Object
from typing_extensions import Self

class TargetKind(Object):
    name: str

class Target(Object):
    kind: TargetKind
    attrs: Mapping[str, Any]
    host: Target | None
    def __init__(self, target: str | Mapping[str, Any], host: Any = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *problem: object) -> None: ...
    @staticmethod
    def list_kinds() -> Sequence[str]: ...
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
