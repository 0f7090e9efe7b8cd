"""Ensembles of decision trees with the schedules of a GPU, threads one after the other."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

MODULE = resources.files("tvm_nnef.converters.onnx").joinpath("ml.sknd").read_text()
GRAPH = """
graph Trees {
    @input {
        x: real[n|40, 3];
    }
    @output {
        y: real;
    }
    @variable {
        root: int[2, 3];
        column: int[42];
        split: real[42];
        child: int[42];
        weight: real[42, 2];
    }
    @compose {
        wide = tree_columns{count=3, filled=true}(x);
        leaf = tree_leaves{steps=1, rounds=2}(wide, root, column, split, child);
        y = tree_sums(leaf, weight);
    }
}
"""


def arrays() -> dict[str, np.ndarray]:
    """Six full trees of two levels, after each other."""
    random = np.random.default_rng(1)
    place = np.arange(42)
    inner = place % 7 < 3
    child = np.where(inner, place // 7 * 7 + 2 * (place % 7) + 1, place)
    split = np.where(inner, random.standard_normal(42), np.nan)
    return {
        "root": np.arange(0, 42, 7, np.int32).reshape(2, 3),
        "column": random.integers(0, 6, 42, np.int32),
        "split": split.astype(np.float32),
        "child": child.astype(np.int32),
        "weight": random.standard_normal((42, 2)).astype(np.float32),
    }


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
def test_trees(reverse: bool, tmp_path: Path, simulated_gpu: Any) -> None:
    simulated_gpu(reverse=reverse)
    file = tmp_path / "trees.sknd"
    file.write_text(MODULE + GRAPH)
    given = arrays()
    variables = {f"main.Trees.{name}": each for name, each in given.items()}
    compiled = tvm_nnef.build(file, graph="Trees", variables=variables, progress=False, cache=False)
    for count in (1, 37):
        x = np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)
        x[0, 1] = np.nan
        wide = np.concatenate([x, np.where(np.isnan(x), -np.inf, x)], axis=1)
        at = np.tile(given["root"].reshape(-1), (count, 1))
        for _ in range(2):
            value = np.take_along_axis(wide, given["column"][at], axis=1)
            at = given["child"][at] + (value <= given["split"][at])
        expected = given["weight"][at].reshape(count, 2, 3, 2).sum(axis=2)
        np.testing.assert_allclose(compiled(x)[0], expected, rtol=1e-5, atol=1e-6)
