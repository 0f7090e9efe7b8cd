"""``@lower`` to formulas (section 2.12): what a formula starts from, and what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tvm_nnef.graph.formula import Binary, Constant, Formula, Index, Load, Lookup, guards
from tvm_nnef.graph.nodes import Graph

Refused = Callable[..., Any]


def operator(lower: str, output: str = "y: real[n];", inputs: str = "x: real[n];") -> str:
    inputs += " z: optional real[];"
    arguments = inputs.split(":")[0]
    shaped = inputs.replace("[n]", "[4]").replace("[m,n]", "[3,4]").replace("..(k)", "..(2)")
    shaped = shaped.replace("optional", "")
    packed = "..(2)" if "..(" in output else ""
    type_ = output.split()[1].partition("[")[0]
    return f"""
        operator op {{ @attrib {{ w: int = 3; v: int.. = [5, 6]; o: optional real; }}
            @input {{ {inputs} }} @output {{ {output} }} @lower {{ {lower} }} }}
        graph G {{ @input {{ {shaped} }} @output {{ out: {type_}{packed}; }}
            @compose {{ out{packed} = op({arguments}); }} }}
    """


@pytest.fixture
def formula(composed: Callable[..., Graph]) -> Callable[..., Formula]:
    def run(*args: Any) -> Formula:
        body = composed(operator(*args)).operations[0].body
        assert isinstance(body, Formula)
        return body

    return run


INF = float("inf")
SCALAR = "y: real[];"


# Lowering, output, and what the output starts from and how many statements remain.
@pytest.mark.parametrize(("lower", "output", "fill", "statements"), [
    ("y[i,] = x[i,], i < n;", "y: real[n];", 0.0, 1),
    ("y[] += x[i,], i < n;", SCALAR, 0.0, 1),
    ("y[] *= x[i,], i < n;", SCALAR, 1.0, 1),
    ("y[] <= x[i,], i < n;", SCALAR, INF, 1),
    ("y[] >= x[i,], i < n;", SCALAR, -INF, 1),
    ("y[] &= x[i,] > 0.0, i < n;", "y: bool[];", True, 1),
    ("y[] |= x[i,] > 0.0, i < n;", "y: bool[];", False, 1),
    ("y[] <= int(x[i,]), i < n;", "y: int[];", INF, 1),
    # a constant initializer is a fill; any other one stays a statement
    ("y[] = 7.0; y[] += x[i,], i < n;", SCALAR, 7.0, 1),
    ("y[] = 7.0; y[] := x[i,], i < n | x[i,] > y[];", SCALAR, 0.0, 2),
    ("y[i,] = x[0,], i < n; y[i,] += x[i,], i < n;", "y: real[n];", 0.0, 2),
    ("y[|i + 1|,] = 7.0, i < n; y[i,] += x[i,], i < n;", "y: real[n];", 0.0, 2),
    # an omitted input leaves the constant after '??'
    ("y[] = z[] ?? 2.0; y[] += x[i,], i < n;", SCALAR, 2.0, 1),
    # what never runs is left out, and the null element stays
    ("y[] *= x[i,], i < n, j < 0;", SCALAR, 1.0, 0),
    ("y[i,] = x[i,], i < n | w > 3;", "y: real[n];", 0.0, 0),
    ("y[i,] = x[i,], i < n | w > 2;", "y: real[n];", 0.0, 1),
])  # fmt: skip
def test_fills(
    formula: Callable[..., Formula], lower: str, output: str, fill: Any, statements: int
) -> None:
    found = formula(lower, output)
    (start,) = found.fills
    assert start.value == Constant(start.tensor.type, fill)
    assert type(start.value.value) is type(fill)
    assert len(found.statements) == statements


def test_guard_skips_and_remap_replaces(formula: Callable[..., Formula]) -> None:
    lower = "y[i,] += x[|i + j - w / 2|,] + x[|i - 1 <> 0 : n - 1|,], i < n, j < w;"
    (statement,) = formula(lower).statements
    ((_, dimension, guard),) = guards(statement)
    assert dimension == 0
    # w / 2 is a number: 3 / 2 rounds down to 1
    assert guard.index == Binary("sub", Binary("add", Index("i"), Index("j")), Constant("int", 1))
    value = statement.stores[0].value
    assert isinstance(value, Binary) and isinstance(value.right, Load)
    (remapped,) = value.right.subscripts
    assert (remapped.below, remapped.above) == (Constant("int", 0), Constant("int", 3))


def test_unrolled_statements_come_in_order(formula: Callable[..., Formula]) -> None:
    found = formula("unroll..(j -> 3) y[] += x[j,];", SCALAR)
    loads = [statement.stores[0].value for statement in found.statements]
    assert [load.subscripts[0].index.value for load in loads] == [0, 1, 2]
    lower = "unroll..(j -> k) ys[j][i,] = xs[j][i,], i < n;"
    found = formula(lower, "ys: real[n]..(k);", "xs: real[n]..(k);")
    assert [s.stores[0].tensor.name for s in found.statements] == ["main.G.out:1", "main.G.out:2"]


def test_pack_index_is_unrolled(formula: Callable[..., Formula]) -> None:
    found = formula(
        "ys[j][i,] = xs[j][i,], j < k, i < n;", "ys: real[n]..(k);", "xs: real[n]..(k);"
    )
    assert [s.stores[0].tensor.name for s in found.statements] == ["main.G.out:1", "main.G.out:2"]
    loaded = [s.stores[0].value.tensor.name for s in found.statements]
    assert loaded == ["main.G.xs:1", "main.G.xs:2"]
    assert all([loop.index.name for loop in s.loops] == ["i"] for s in found.statements)


def test_packed_assignment_is_one_step(formula: Callable[..., Formula]) -> None:
    lower = "ys[i,] = xs[i,], i < n | xs[0][i,] > 0.0;"
    (statement,) = formula(lower, "ys: real[n]..(k);", "xs: real[n]..(k);").statements
    assert [store.tensor.name for store in statement.stores] == ["main.G.out:1", "main.G.out:2"]
    assert statement.condition is not None


def test_packed_assignment_of_a_list(formula: Callable[..., Formula]) -> None:
    lower = "ys[] = 0; ys[] := [i, j], i < m, j < n | x[i,j] > x[ys[]..];"
    found = formula(lower, "ys: int[]..(2);", "x: real[m,n];")
    assert [len(statement.stores) for statement in found.statements] == [2, 2]
    assert [store.value for store in found.statements[1].stores] == [Index("i"), Index("j")]


def test_locals_are_computed_once(formula: Callable[..., Formula]) -> None:
    (statement,) = formula("p = x[i,] * x[i,], q = 2.0, y[i,] = p + p * q, i < n;").statements
    assert [local.name for local in statement.locals] == ["p"]


def test_bounds_use_earlier_indices(formula: Callable[..., Formula]) -> None:
    (statement,) = formula("y[] += x[j,], i < n, j < i + 1;", SCALAR).statements
    assert statement.loops[1].extent == Binary("add", Index("i"), Constant("int", 1))


def test_attribute_pack_is_looked_up_at_run_time(formula: Callable[..., Formula]) -> None:
    (statement,) = formula("y[i,] = real(v[i % 2]), i < n;").statements
    lookup = statement.stores[0].value.operand
    assert isinstance(lookup, Lookup)
    assert lookup.items == (Constant("int", 5), Constant("int", 6))


def test_names_of_index_packs_do_not_collide(formula: Callable[..., Formula]) -> None:
    lower = "y[i_0, i..] = x[i..] + real(i_0), i_0 < 2, i < [n];"
    (statement,) = formula(lower, "y: real[2,n];").statements
    names = [loop.index.name for loop in statement.loops]
    assert len(set(names)) == 2


def test_zero_tensors_in_a_pack(composed: Callable[..., Graph]) -> None:
    graph = composed("""
        operator op { @input { x: real[n]; xs: real[..t]..(k); } @output { y: real[n]; }
            @lower { y[i,] >= xs[j][i,], j < k, i < n; } }
        graph G { @input { x: real[2]; } @output { y: real; } @compose { y = op(x, []); } }
    """)
    body = graph.operations[0].body
    assert isinstance(body, Formula)
    assert (body.statements, body.fills[0].value) == ((), Constant("real", -INF))


@pytest.mark.parametrize(("lower", "words"), [
    ("y[i,] = x[i,i], i < n;", "of rank 1, but has 2 indices"),
    ("y[i,] = x[i,] + real(i / (n / n - 1)), i < n;", "division by zero"),
    ("y[i,] = x[i,] + real(v[2]), i < n;", "index 2 is outside"),
    ("y[i,] = x[i,], i < -1;", "a loop bound must be a non-negative integer"),
    ("y[i,] += o, i < n;", "null"),
    ("unroll..(k -> 100000) y[i,] += x[i,], i < n;", "unrolls to more than"),
])  # fmt: skip
def test_refused(refused: Refused, lower: str, words: str) -> None:
    refused(operator(lower), words)


def test_pack_index_of_many_steps_is_refused(refused: Refused) -> None:
    lower = "y[i,] += xs[j][i,] * xs[l][i,], j < 100000, l < 100000, i < n;"
    refused(operator(lower, "y: real[n];", "xs: real[n]..(k);"), "unrolls to more than")
