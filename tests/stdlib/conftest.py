"""The judge of the standard library: it runs many invocations, as one graph, on every route.

A case is a row of a table: an operator, its attributes, its operands, and what an outside judge
expects of it,

    ("layout.concat", {"axis": -1}, [[x, y]], np.concatenate([x, y], -1))

The name may carry generic types (``layout.cast<int>``). Attributes are Python numbers, truth
values, strings and lists of them; None leaves one out. An operand is an array, a list of arrays
(a pack), a Python number (a literal) or None (null). What is expected is an array, a list of
arrays (a pack), a tuple (several results), or a function that makes it of the operands. A family
is a list of cases; fixture ``agree`` compiles it as one graph for each route, which takes a second
or two for a hundred cases, and reports all that are wrong at once.

The other form of a family, of fixture ``judge``, is named inputs, and rows of an invocation, as
text, with what is expected of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.nodes import If, Loop, Node, Operation, bodies, flatten
from tvm_nnef.lower.ops import MAPPINGS

TYPES = {"f": "real", "V": "real", "i": "int", "u": "int", "b": "bool"}
"""By kind of dtype; V is that of bfloat16."""
DTYPES: Mapping[str, str] = {"real": "float32", "int": "int32", "bool": "bool"}
TOLERANCES = {
    "bfloat16": (1e-2, 1e-2),
    "float16": (2e-3, 2e-3),
    "float32": (2e-5, 2e-6),
    "float64": (1e-12, 1e-12),
}
ROUTES = ("reference", "formula", "mapped")

Inputs: TypeAlias = "Mapping[str, Any]"
Rows: TypeAlias = "Sequence[tuple[str, Any]]"
Case: TypeAlias = "tuple[str, Mapping[str, Any], Sequence[Any], Any]"


def type_name(value: Any) -> str:
    """The SkriptND type of an array, or of the items of a pack."""
    item = value[0] if isinstance(value, list) and value else value
    return TYPES[np.asarray(item).dtype.kind]


def declared_input(name: str, value: Any) -> str:
    """An input declaration with the shape of the value."""
    item, pack = (value[0], f"..({len(value)})") if isinstance(value, list) else (value, "")
    extents = ", ".join(str(extent) for extent in np.shape(item))
    return f"{name}: {type_name(value)}[{extents}]{pack};"


def machine_value(value: Any, types: Mapping[str, str] = DTYPES) -> Any:
    """The arrays as the dtypes have them."""
    if isinstance(value, (list, tuple)):
        return type(value)(machine_value(item, types) for item in value)
    return np.asarray(value, types[type_name(value)])


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
    modules = sorted(set(re.findall(r"\b([a-z]+)\.[a-z_]", " ".join(components))))
    lines = [
        f"import {', '.join(modules)};",
        "",
        "graph Judge {",
    ]
    for kind, statements in blocks.items():
        if statements:
            lines += [f"    @{kind} {{", *(f"        {line}" for line in statements), "    }"]
    return "\n".join([*lines, "}", ""])


def run(
    model: Any, inputs: Inputs, route: Any, types: Mapping[str, str] = DTYPES
) -> tuple[Any, ...]:
    """The outputs of the model on one of the routes reference, mapped and formula."""
    values = [machine_value(value, types) for value in inputs.values()]
    if route == "reference":
        return tvm_nnef.evaluate(model, *values, dtypes=types)
    module = tvm_nnef.from_nnef(model, route=route, dtypes=types)
    return tuple(tvm_nnef.build(module, progress=False)(*values))


def is_mapped(node: Node) -> bool:
    """Whether a mapping may lower an operation, or one that it consists of."""
    if isinstance(node, Operation) and node.standard_operator in MAPPINGS:
        return True
    return any(is_mapped(inner) for body in bodies(node) for inner in body.operations)


def rows_to_run(route: str, inputs: Inputs, rows: Rows, head: str = "") -> list[int]:
    """The numbers of the rows that a route has to run.

    For ``formula`` these are the rows that a mapping takes part in: all others are lowered in the
    same way on both routes, so ``mapped`` has run their kernels.
    """
    if route != "formula":
        return list(range(len(rows)))
    graph = tvm_nnef.compose(head + graph_text(inputs, rows))
    makers = {result: node for node in graph.operations for result in flatten(node.results)}
    chosen: list[int] = []
    for number in range(len(rows)):
        ports = [port for port in graph.outputs if port.name.startswith(f"y{number}_")]
        pending = [*flatten(tuple(port.operand for port in ports))]
        found: set[Node] = set()
        while pending:
            node = makers.get(pending.pop())
            if node is not None and node not in found:
                found.add(node)
                # A branch or a loop may read anything.
                pending += makers if isinstance(node, (If, Loop)) else flatten(node.operands)
        if any(map(is_mapped, found)):
            chosen.append(number)
    return chosen


def assert_result(
    actual: Any,
    expected: Any,
    invocation: str,
    types: Mapping[str, str] = DTYPES,
    tolerance: tuple[float, float] | None = None,
) -> None:
    """Type and shape agree exactly, integers and truth values too, reals to a few roundings."""
    if isinstance(expected, list):
        assert len(actual) == len(expected), f"{invocation}: length of the pack"
        for actual_item, expected_item in zip(actual, expected, strict=True):
            assert_result(actual_item, expected_item, invocation, types, tolerance)
        return
    expected = machine_value(expected, types)
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype, invocation
    assert actual.shape == expected.shape, invocation
    if type_name(expected) == "real":
        relative, absolute = tolerance or TOLERANCES[types["real"]]
        if expected.dtype.kind == "V":
            actual, expected = np.float32(actual), np.float32(expected)
        np.testing.assert_allclose(
            actual, expected, rtol=relative, atol=absolute, err_msg=invocation
        )
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=invocation)


def literal(value: Any) -> str:
    """A Python value as SkriptND writes it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case float():
            digits, mark, exponent = repr(value).partition("e")
            return (digits if "." in digits else f"{digits}.0") + mark + exponent
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case _:
            return str(value)


@dataclass(frozen=True)
class Family:
    """Cases as a graph: its inputs by name, and its rows of an invocation and what is expected."""

    inputs: dict[str, Any]
    rows: list[tuple[str, Any]]

    @classmethod
    def of(cls, cases: Sequence[Case]) -> Family:
        """The graph of cases; an operand that several of them have is one input."""
        family = cls({}, [])
        for operator, attributes, operands, expected in cases:
            given = ", ".join(
                f"{name}={literal(value)}"
                for name, value in attributes.items()
                if value is not None
            )
            present = list(operands)
            while present and present[-1] is None:
                present.pop()
            arguments = ", ".join(map(family._argument, present))
            invocation = f"{operator}{f'{{{given}}}' if given else ''}({arguments})"
            wanted = expected(*operands) if callable(expected) else expected
            family.rows.append((invocation, wanted))
        return family

    def _argument(self, operand: Any) -> str:
        if operand is None:
            return "~"
        if isinstance(operand, (bool, int, float)):
            return literal(operand)
        if isinstance(operand, list):
            return f"[{', '.join(map(self._argument, operand))}]"
        for name, known in self.inputs.items():
            if known is operand:
                return name
        name = f"x{len(self.inputs)}"
        self.inputs[name] = operand
        return name


def results_of(rows: Rows) -> Iterator[tuple[str, Any]]:
    """What is expected of each output, beside its invocation."""
    for invocation, expected in rows:
        for result in expected if isinstance(expected, tuple) else (expected,):
            yield invocation, result


def by_row(rows: Rows, results: Sequence[Any]) -> list[list[Any]]:
    """The results of each row."""
    rest = iter(results)
    made = [
        [next(rest) for _ in (wanted if isinstance(wanted, tuple) else (wanted,))]
        for _, wanted in rows
    ]
    assert next(rest, None) is None, "results of no row"
    return made


def disagreements(
    family: Family, head: str, types: Mapping[str, str], tolerance: tuple[float, float] | None
) -> list[str]:
    """What is wrong with a family: each route against the judge, and against the other routes."""
    found: list[str] = []
    judged = [result for _, result in results_of(family.rows)]
    known = {"the judge": dict(enumerate(by_row(family.rows, judged)))}
    for route in ROUTES:
        numbers = rows_to_run(route, family.inputs, family.rows, head)
        rows = [family.rows[number] for number in numbers]
        model = head + graph_text(family.inputs, rows)
        made = run(model, family.inputs, route, types) if rows else ()
        results = dict(zip(numbers, by_row(rows, made), strict=True))
        for other, values in known.items():
            for number in results.keys() & values.keys():
                name = family.rows[number][0]
                for actual, expected in zip(results[number], values[number], strict=True):
                    try:
                        assert_result(actual, expected, name, types, tolerance)
                    except AssertionError as problem:
                        found.append(f"{route} against {other}: {name}\n{problem}")
        known[route] = results
    return found


@pytest.fixture
def agree() -> Callable[..., None]:
    """Run cases on every route; all results agree with what is expected, and with each other.

    ``dtypes`` are those of real, int and bool where they are not the default ones;
    ``tolerance`` is relative and absolute, for reals; ``head`` is a line
    before the text that sets the dialect.
    """

    def check(
        cases: Sequence[Case],
        *,
        dtypes: Mapping[str, str] | None = None,
        tolerance: tuple[float, float] | None = None,
        head: str = "",
    ) -> None:
        types = {**DTYPES, **(dtypes or {})}
        try:
            found = disagreements(Family.of(cases), head, types, tolerance)
        except Exception:
            if len(cases) == 1:
                raise
            # one case may have spoilt all others
            found = []
            for case in cases:
                family = Family.of([case])
                try:
                    found += disagreements(family, head, types, tolerance)
                except Exception as problem:
                    found.append(f"{family.rows[0][0]}: {type(problem).__name__}: {problem}")
            if not found:
                raise
        if found:
            pytest.fail("\n\n".join(found), pytrace=False)

    return check


@pytest.fixture
def evaluated() -> Callable[[Sequence[Case]], list[Case]]:
    """The cases, each with what the evaluator gives instead of what has the types of it."""

    def filled(cases: Sequence[Case]) -> list[Case]:
        family = Family.of(cases)
        model = tvm_nnef.load_model(graph_text(family.inputs, family.rows))
        results = iter(run(model, family.inputs, "reference"))
        return [
            (*case[:3], tuple(next(results) for _ in case[3]))
            if isinstance(case[3], tuple)
            else (*case[:3], next(results))
            for case in cases
        ]

    return filled


@pytest.fixture
def judge() -> Callable[..., None]:
    """Run a family on a route and compare each result with what its row expects.

    ``head`` is put before the text, a line that names the dialect.
    """

    def check(inputs: Inputs, rows: Rows, route: str, head: str = "") -> None:
        rows = [rows[number] for number in rows_to_run(route, inputs, rows, head)]
        if not rows:
            return
        actual = list(run(head + graph_text(inputs, rows), inputs, route))
        wanted = list(results_of(rows))
        assert len(actual) == len(wanted)
        for value, (invocation, expected) in zip(actual, wanted, strict=True):
            assert_result(value, expected, invocation)

    return check


@pytest.fixture
def rejected() -> Callable[..., tvm_nnef.Diagnostic]:
    """Check that an invocation is rejected with these words, at its location; give the diagnostic.

    ``result`` has the type that the invocation would give, and is a list where it gives a pack.
    """

    def check(
        inputs: Inputs, invocation: str, words: str, result: Any = 0.0, head: str = ""
    ) -> tvm_nnef.Diagnostic:
        text = head + graph_text(inputs, [(invocation, result)])
        with pytest.raises(NnefError) as caught:
            tvm_nnef.compose(text)
        (found,) = caught.value.diagnostics
        assert words in found.message
        assert found.line is not None
        assert found.hint
        return found

    return check


@pytest.fixture
def uncovered() -> Callable[[str, Mapping[str, Any]], set[str]]:
    """The operators of a standard module that no case, or row, of the families invokes.

    Those that are private to it are not asked for.
    """

    def invocations(family: Any) -> Iterator[str]:
        for row in family[1] if isinstance(family, tuple) else family:
            yield row[0]

    def names(module: str, families: Mapping[str, Any]) -> set[str]:
        source = Path(tvm_nnef.__file__).parent / "stdlib" / f"{module}.sknd"
        text = source.read_text(encoding="utf-8")
        defined = set(re.findall(r"^(?:public )?operator (\w+)", text, re.MULTILINE))
        invoked = {
            name
            for family in families.values()
            for invocation in invocations(family)
            for name in re.findall(rf"\b{module}\.(\w+)", invocation)
        }
        return {name for name in defined - invoked if not name.startswith("_")}

    return names
