"""Random graphs, compiled exactly as ``build`` compiles them, give what ONNX Runtime gives.

``TVM_NNEF_SEED`` chooses the first seed of the slow test, which is another one in each run; the
failure names the seeds, and ``scripts/fuzz_graphs.py --seed N --graphs 1`` minimizes one.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SCRIPTS = Path(__file__).parents[2] / "scripts"
GRAPHS, PARTS = 200, 20
FIRST = int(os.environ.get("TVM_NNEF_SEED") or secrets.randbits(31))


@pytest.fixture(scope="module")
def scripts() -> Iterator[tuple[ModuleType, ModuleType]]:
    """The modules that generate and judge graphs."""
    sys.path.insert(0, str(SCRIPTS))
    import graph_oracle
    import random_operators

    yield random_operators, graph_oracle
    sys.path.remove(str(SCRIPTS))


def wrong(scripts: Any, seeds: range, sizes: range) -> list[str]:
    """What differs, with the seeds; each graph takes one of the sizes, and one of the routes."""
    operators, oracle = scripts
    found, left_out = [], 0
    for seed in seeds:
        nodes, route = sizes[seed % len(sizes)], oracle.ROUTES[seed % 2]
        try:
            problems = oracle.judge(operators.generate(seed, nodes), [route])
        except oracle.Unjudged:
            left_out += 1
            continue
        found += [f"--seed {seed} --count {nodes} --routes {route}: {each}"
                  for each in problems.values()]  # fmt: skip
    assert left_out <= len(seeds) // 4
    return found


def test_small_graphs(scripts: Any) -> None:
    assert not wrong(scripts, range(2), range(10, 11))


@pytest.mark.slow
@pytest.mark.rotated(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_large_graphs(scripts: Any, part: int) -> None:
    count = GRAPHS // PARTS
    seeds = range(FIRST + part * count, FIRST + (part + 1) * count)
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    assert not (found := wrong(scripts, seeds, range(10, 31))), "\n".join(found)


def test_graphs_are_the_same_for_a_seed(scripts: Any) -> None:
    operators, _ = scripts
    first, second = (operators.generate(7, 40).proto() for _ in range(2))
    assert first == second
    assert len(first.graph.node) >= 40
    assert first != operators.generate(8, 40).proto()


@pytest.mark.slow
def test_graphs_are_the_same_in_each_process() -> None:
    """Nothing is drawn from a set, whose order is another one in each process."""
    code = (
        "from random_operators import generate; print([generate(s, 20).nodes for s in range(20)])"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(SCRIPTS)},
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert len(texts) == 1


def test_graphs_hold_what_they_promise(scripts: Any) -> None:
    """Ranks 0 to 5, sizes 0 and 1, empty parts, dynamic dimensions, many operators."""
    operators, _ = scripts
    graphs = [operators.generate(seed, 30) for seed in range(60)]
    dims = [dim for graph in graphs for each in graph.known.values() for dim in each.dims]
    kinds = {node.op_type for graph in graphs for node in graph.nodes}
    assert {0, 1, 2, 3, 4, 5} <= {each.rank for graph in graphs for each in graph.inputs}
    assert {0, 1, 7, 13, 31} <= {size for dim in dims for size in dim}
    assert 10 <= sum(graph.dynamic for graph in graphs) <= 30
    assert len(kinds) > 60


def test_a_failing_graph_is_minimized(scripts: Any) -> None:
    operators, oracle = scripts
    graphs = (operators.generate(seed, 30) for seed in range(20))
    graph = next(each for each in graphs if any(n.op_type == "Softmax" for n in each.nodes))

    def fails(proto: Any, feeds: Any) -> bool:
        oracle.expected(proto, feeds)
        return any(node.op_type == "Softmax" for node in proto.graph.node)

    proto, values = oracle.minimized(graph, fails)
    assert [node.op_type for node in proto.graph.node] == ["Softmax"]
    assert all(each.name in values[0] for each in proto.graph.input)
