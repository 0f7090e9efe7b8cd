"""Every public call reports an argument of a wrong kind as an NnefError, with a hint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

TEXT = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }\n"
X = np.ones(2, np.float32)

CALLS: dict[str, Callable[[Any, Path], object]] = {
    "attributes as text": lambda _, __: tvm_nnef.build(TEXT, attributes="batch=2", progress=False),
    "attributes as a list": lambda _, __: tvm_nnef.compose(TEXT, attributes=["batch"]),
    "types as text": lambda _, __: tvm_nnef.compose(TEXT, types="T"),
    "shapes as a list": lambda _, __: tvm_nnef.compose(TEXT, input_shapes=[(2,)]),
    "a shape without a name": lambda _, __: tvm_nnef.compose(TEXT, input_shapes={None: (2,)}),
    "dtypes as text": lambda _, __: tvm_nnef.evaluate(TEXT, X, dtypes="float16"),
    "a graph by number": lambda _, __: tvm_nnef.compose(TEXT, graph=3),
    "variables as a list": lambda _, __: tvm_nnef.load_model(TEXT, variables=[1]),
    "lowerings": lambda _, __: tvm_nnef.from_nnef(TEXT, lowerings=3),
    "search path": lambda _, __: tvm_nnef.load_model(TEXT, search_path=3),
    "search path as text": lambda _, __: tvm_nnef.load_model(TEXT, search_path="folder"),
    "dialect": lambda _, __: tvm_nnef.load_model(TEXT, dialect=3),
    "format": lambda _, __: tvm_nnef.load_model(TEXT, format=3),
    "quantize": lambda _, __: tvm_nnef.compose(TEXT, quantize={"a": 1}),
    "target": lambda _, __: tvm_nnef.build(TEXT, 3, progress=False),
    "threads": lambda _, __: tvm_nnef.build(TEXT, threads="a", progress=False),
    "database": lambda _, __: tvm_nnef.build(TEXT, database=3, progress=False),
    "dump_dir": lambda _, __: tvm_nnef.build(TEXT, dump_dir=3, progress=False),
    "load nothing": lambda _, __: tvm_nnef.load(None),
    "load a number": lambda _, __: tvm_nnef.load(3),
    "a model that is nothing": lambda _, __: tvm_nnef.load_model(None),
    "convert to a number": lambda _, __: tvm_nnef.convert(TEXT, 3),
    "save what is not a model": lambda _, folder: tvm_nnef.save_model(3, folder / "m"),
    "save nowhere": lambda _, __: tvm_nnef.save_model(tvm_nnef.load_model(TEXT), None),
    "read nothing": lambda _, __: tvm_nnef.read_tensor(None),
    "write nowhere": lambda _, __: tvm_nnef.write_tensor(None, X),
    "write text": lambda _, folder: tvm_nnef.write_tensor(folder / "x.dat", "abc"),
    "an image without a file": lambda _, __: tvm_nnef.load_image(None, TEXT),
    "tensors": lambda _, __: tvm_nnef.evaluate(TEXT, X, tensors=3),
    "routes": lambda _, __: tvm_nnef.compare(TEXT, routes=3, progress=False),
    "rtol": lambda _, __: tvm_nnef.compare(TEXT, rtol="a", progress=False),
    "seed": lambda _, __: tvm_nnef.compare(TEXT, seed="a", progress=False),
    "trials": lambda _, folder: tvm_nnef.tune(TEXT, trials="a", database=folder / "db"),
    "export nowhere": lambda exe, _: exe.export(None),
    "repeat": lambda exe, _: exe.benchmark(X, repeat="a"),
    "no repeat": lambda exe, _: exe.profile(X, repeat=0),
    "parameters": lambda exe, _: exe.with_parameters(1),
    "out": lambda exe, _: exe(X, out=3),
    "text as an input": lambda exe, _: exe("digit.png"),
    "a generator as an input": lambda exe, _: exe(i for i in range(2)),
    "a set as an input": lambda exe, _: exe({1, 2}),
    "an object as an input": lambda exe, _: exe(object()),
    "nothing as an input": lambda exe, _: exe(None),
    "texts as an input": lambda exe, _: exe(np.array(["a", "b"])),
    "complex numbers as an input": lambda exe, _: exe(X.astype(np.complex64)),
    "dates as an input": lambda exe, _: exe(X.astype("datetime64[s]")),
}


@pytest.fixture(scope="module")
def executable() -> tvm_nnef.Executable:
    return tvm_nnef.build(TEXT, progress=False)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_wrong_arguments(
    call: Callable[[Any, Path], object], executable: tvm_nnef.Executable, tmp_path: Path
) -> None:
    with pytest.raises(tvm_nnef.NnefError) as caught:
        call(executable, tmp_path)
    assert all(each.hint for each in caught.value.diagnostics)
