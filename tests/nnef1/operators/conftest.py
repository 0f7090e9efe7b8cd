"""NNEF 1 operations, converted and evaluated from their text."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.nnef1 import convert

TYPES = {"f": "scalar", "i": "integer", "b": "logical"}


class Run:
    """Converts statements of a graph whose inputs are arrays; the last statement's are its results.

    Arrays named as constants are written into the text.
    """

    def __call__(
        self, text: str, constants: Collection[str] = (), **arrays: np.ndarray
    ) -> list[np.ndarray]:
        """The results of the reference evaluator."""
        inputs = [array for name, array in arrays.items() if name not in constants]
        return list(tvm_nnef.evaluate(self.model(text, constants, **arrays), *inputs))

    def model(
        self, text: str, constants: Collection[str] = (), **arrays: np.ndarray
    ) -> tvm_nnef.Model:
        """The converted model."""
        *_, last = filter(None, map(str.strip, text.split(";")))
        results = ", ".join(re.findall(r"\w+", last.partition("=")[0]))
        inputs = ", ".join(name for name in arrays if name not in constants)
        tensors = (_statement(name, each, name in constants) for name, each in arrays.items())
        body = "\n".join((*tensors, f"{text.rstrip('; ')};"))
        return convert(f"version 1.0;\ngraph G({inputs}) -> ({results}) {{\n{body}\n}}\n")


def _statement(name: str, array: np.ndarray, constant: bool) -> str:
    type_, shape = TYPES[array.dtype.kind], list(array.shape)
    if not constant:
        return f"{name} = external<{type_}>(shape = {shape});"
    values = ", ".join(map(str, array.reshape(-1).tolist()))
    return f"{name} = constant<{type_}>(shape = {shape}, value = [{values}]);"


@pytest.fixture
def run() -> Run:
    return Run()
