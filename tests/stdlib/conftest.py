"""The judge of the standard library: it runs a family of invocations on every route.

A family is one graph: named inputs, and rows of an invocation with what NumPy expects of it. What
is expected of an invocation is an array, a list of arrays (a pack), or a tuple (several results).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

TYPES = {"f": "real", "i": "int", "b": "bool"}
MACHINE_TYPES = {"real": np.float32, "int": np.int32, "bool": np.bool_}

Inputs = Mapping[str, Any]
Rows = Sequence[tuple[str, Any]]


def type_name(value: Any) -> str:
    """The SkriptND type of an array, or of the items of a pack."""
    item = value[0] if isinstance(value, list) else value
    return TYPES[np.asarray(item).dtype.kind]


def declared_input(name: str, value: Any) -> str:
    """An input declaration with the shape of the value."""
    item, pack = (value[0], f"..({len(value)})") if isinstance(value, list) else (value, "")
    extents = ", ".join(str(extent) for extent in np.shape(item))
    return f"{name}: {type_name(value)}[{extents}]{pack};"


def machine_value(value: Any) -> Any:
    """The arrays as the machine types have them."""
    if isinstance(value, (list, tuple)):
        return type(value)(machine_value(item) for item in value)
    return np.asarray(value, MACHINE_TYPES[type_name(value)])


def graph_text(inputs: Inputs, rows: Rows) -> str:
    """A model whose graph makes the invocations of the rows, with all results as outputs."""
    outputs: list[str] = []
    components: list[str] = []
    for number, (invocation, expected) in enumerate(rows):
        results = expected if isinstance(expected, tuple) else (expected,)
        targets = []
        for position, result in enumerate(results):
            name = f"y{number}_{position}"
            pack = f"..({len(result)})" if isinstance(result, list) else ""
            outputs.append(f"{name}: {type_name(result)}{pack};")
            targets.append(name + pack)
        components.append(f"{', '.join(targets)} = {invocation};")
    blocks = {
        "input": [declared_input(name, value) for name, value in inputs.items()],
        "output": outputs,
        "compose": components,
    }
    lines = [
        "import algo, image, layer, layout, linalg, math, misc, nn, quant;",
        "",
        "graph Judge {",
    ]
    for kind, statements in blocks.items():
        if statements:
            lines += [f"    @{kind} {{", *(f"        {line}" for line in statements), "    }"]
    return "\n".join([*lines, "}", ""])


def run(text: str, inputs: Inputs, route: str) -> tuple[Any, ...]:
    """The outputs of the model on one of the routes reference, mapped and formula."""
    values = [machine_value(value) for value in inputs.values()]
    if route == "reference":
        return tvm_nnef.evaluate(text, *values)
    module = tvm_nnef.from_nnef(text, route=route)
    return tuple(tvm_nnef.build(module, progress=False)(*values))


def assert_result(actual: Any, expected: Any, invocation: str) -> None:
    """Type and shape agree exactly, integers and truth values too, reals to a few roundings."""
    if isinstance(expected, list):
        assert len(actual) == len(expected), f"{invocation}: length of the pack"
        for actual_item, expected_item in zip(actual, expected, strict=True):
            assert_result(actual_item, expected_item, invocation)
        return
    expected = machine_value(expected)
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype, invocation
    assert actual.shape == expected.shape, invocation
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6, err_msg=invocation)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=invocation)


@pytest.fixture
def judge() -> Callable[..., None]:
    """Run a family on a route and compare each result with what its row expects.

    ``head`` stands in front of the text, a line that tells the dialect.
    """

    def check(inputs: Inputs, rows: Rows, route: str, head: str = "") -> None:
        actual = list(run(head + graph_text(inputs, rows), inputs, route))
        wanted = [
            (invocation, result)
            for invocation, expected in rows
            for result in (expected if isinstance(expected, tuple) else (expected,))
        ]
        assert len(actual) == len(wanted)
        for value, (invocation, expected) in zip(actual, wanted, strict=True):
            assert_result(value, expected, invocation)

    return check


@pytest.fixture
def rejected() -> Callable[..., None]:
    """Check that an invocation is refused, with these words, where it stands.

    ``result`` has the type that the invocation would give, and is a list where it gives a pack.
    """

    def check(
        inputs: Inputs, invocation: str, words: str, result: Any = 0.0, head: str = ""
    ) -> None:
        text = head + graph_text(inputs, [(invocation, result)])
        with pytest.raises(NnefError) as caught:
            tvm_nnef.compose(text)
        assert words in str(caught.value)
        assert any(place.line is not None for place in caught.value.diagnostics)

    return check


@pytest.fixture
def uncovered() -> Callable[[str, Mapping[str, tuple[Inputs, Rows]]], set[str]]:
    """The operators of a standard module that no row of the families invokes."""

    def names(module: str, families: Mapping[str, tuple[Inputs, Rows]]) -> set[str]:
        source = Path(tvm_nnef.__file__).parent / "stdlib" / f"{module}.sknd"
        text = source.read_text(encoding="utf-8")
        defined = set(re.findall(r"^(?:public )?operator (\w+)", text, re.MULTILINE))
        invoked = {
            name
            for _, rows in families.values()
            for invocation, _ in rows
            for name in re.findall(rf"\b{module}\.(\w+)", invocation)
        }
        return defined - invoked

    return names
