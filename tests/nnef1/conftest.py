"""Documents of NNEF 1 to their flat graphs, one operation a line."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

import pytest

from tvm_nnef.converters.nnef1.calls import Call, Tensor, Value
from tvm_nnef.converters.nnef1.checking import check
from tvm_nnef.converters.nnef1.expansion import expand
from tvm_nnef.converters.nnef1.fragments import standard
from tvm_nnef.converters.nnef1.parser import parse
from tvm_nnef.diagnostics import Diagnostic, NnefError, Source

HEADER = """version 1.0;
extension KHR_enable_fragment_definitions KHR_enable_operator_expressions;
"""

Flatten = Callable[..., list[str]]
Problems = Callable[[str], tuple[Diagnostic, ...]]


class Lines:
    """A sink that writes the flat graph down, as flat NNEF 1 without defaults."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.lines: list[str] = []
        self.calls: list[Call] = []
        self.shapes = shapes

    def call(self, call: Call) -> None:
        defaults = standard()[call.operation].defaults if call.operation in standard() else {}
        arguments = ", ".join(
            shown(value) if isinstance(value, Tensor) else f"{name} = {shown(value)}"
            for name, value in call.arguments.items()
            if name not in defaults or value != defaults[name]
        )
        generic = f"<{call.item_type}>" if call.item_type else ""
        results = ", ".join(map(shown, call.results.values()))
        self.lines.append(f"{results} = {call.operation}{generic}({arguments})")
        self.calls.append(call)

    def shape(self, tensor: Tensor) -> tuple[int, ...] | None:
        return self.shapes.get(tensor.label)

    def begin(self, fragment: str, label: str, arguments: Mapping[str, Value]) -> None: ...

    def end(self, results: Mapping[str, Value]) -> None: ...


def shown(value: Value) -> str:
    match value:
        case Tensor(label):
            return label
        case bool():
            return str(value).lower()
        case tuple():
            return f"[{', '.join(map(shown, value))}]"
    return repr(value)


class Everything:
    """All operations, so that no standard fragment is expanded."""

    def __contains__(self, name: object) -> bool:
        return name in standard()


def flat(
    text: str,
    operations: Container[str] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> list[str]:
    sink = Lines(shapes or {})
    checked = check(parse(Source("graph.nnef", text)))
    expand(checked, Everything() if operations is None else operations, sink)
    return sink.lines


@pytest.fixture
def flatten() -> Flatten:
    """Statements of a graph (after the fragments given) to the operations that they become."""

    def run(
        body: str,
        fragments: str = "",
        operations: Container[str] | None = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> list[str]:
        graph = f"graph g(x) -> (y) {{ x = external(shape = [2, 3]); {body} }}"
        return flat(f"{HEADER}{fragments}\n{graph}", operations, shapes)[1:]

    return run


@pytest.fixture
def problems() -> Problems:
    """What is wrong with a document."""

    def run(text: str) -> tuple[Diagnostic, ...]:
        with pytest.raises(NnefError) as caught:
            flat(text)
        return caught.value.diagnostics

    return run
