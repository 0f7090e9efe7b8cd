"""Short texts composed, and single expressions evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tvm_nnef.api.building import compose
from tvm_nnef.composition.binding import Invocation, bind
from tvm_nnef.composition.checks import run_helpers
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.values import Environment, Value
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.formats.reading import load_model
from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.syntax import parse_expression

RELAY = """
operator relay {
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @lower { y[i..] = x[i..], i < s; }
}
"""


@pytest.fixture(scope="session")
def value() -> Callable[..., Value]:
    """The value of an expression, where names stand for what is given."""

    def run(
        text: str, names: dict[str, Any] | None = None, types: dict[str, str] | None = None
    ) -> Value:
        return known(parse_expression(text), Environment(dict(names or {}), dict(types or {})))

    return run


@pytest.fixture(scope="session")
def undefined(value: Callable[..., Value]) -> Callable[..., None]:
    """Check that an expression has no value, for a reason with these words, at a location."""

    def run(text: str, words: str, names: dict[str, Any] | None = None) -> None:
        with pytest.raises(NnefError) as caught:
            value(text, names)
        (diagnostic,) = caught.value.diagnostics
        assert words in diagnostic.message
        assert diagnostic.span is not None
        assert diagnostic.hint

    return run


@pytest.fixture(scope="session")
def composed() -> Callable[..., Graph]:
    """The graph of a text; ``relay`` copies a real tensor."""

    def run(text: str, **options: Any) -> Graph:
        return compose(RELAY + text, **options)

    return run


@pytest.fixture(scope="session")
def refused(composed: Callable[..., Graph]) -> Callable[..., NnefError]:
    """Check that a text is refused with these words and a hint, at a location; gives the error."""

    def run(text: str, *words: str, **options: Any) -> NnefError:
        with pytest.raises(NnefError) as caught:
            composed(text, **options)
        for word in words:
            assert word in str(caught.value)
        assert all(each.line is not None and each.hint for each in caught.value.diagnostics)
        return caught.value

    return run


@pytest.fixture(scope="session")
def bound() -> Callable[..., dict[str, Any]]:
    """The names of an invocation of the only operator of a text, and their values.

    An operand is a shape, a list of shapes for a pack, or None.
    """

    def run(
        blocks: str, *operands: Any, types: dict[str, str] | None = None, **attributes: Any
    ) -> dict[str, Any]:
        lowered = "" if "@output" in blocks else "@output { out: int[]; } @lower { out[] = 0; }"
        text = f"operator op {{ {blocks} {lowered} }}\n" + GRAPH
        definition = load_model(text).program.modules["main"].definitions["op"]
        tensors = [_operand(parameter, shape) for parameter, shape in zip(
            definition.inputs, operands, strict=True
        )]  # fmt: skip
        call = Invocation(attributes, tuple(tensors), types or {}, definition.node.name.span)
        env, _ = bind(
            definition, call, Environment({}, {}),
            lambda name, value, type_, shape: Tensor(name, type_, shape, "constant", value),
        )  # fmt: skip
        run_helpers(definition, env, call.location)
        return env.names

    return run


GRAPH = "graph G { @input { x: real[]; } @output { y: real[]; } @compose { y = x; } }\n"


def _operand(parameter: Any, shape: Any) -> Any:
    name, type_ = parameter.name.name, parameter.type.name.name
    type_ = type_ if type_ in ("int", "bool") else "real"
    if isinstance(shape, list):
        return tuple(Tensor(f"{name}:{i}", type_, s, "input") for i, s in enumerate(shape))
    return None if shape is None else Tensor(name, type_, shape, "input")


@pytest.fixture(scope="session")
def unbound(bound: Callable[..., dict[str, Any]]) -> Callable[..., NnefError]:
    """Check that an invocation of an operator is refused with these words; gives the error."""

    def run(blocks: str, words: str, *operands: Any, **attributes: Any) -> NnefError:
        with pytest.raises(NnefError) as caught:
            bound(blocks, *operands, **attributes)
        assert words in str(caught.value)
        return caught.value

    return run
