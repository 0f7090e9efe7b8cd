"""Every public call reports an argument of a wrong kind as an NnefError, with a hint."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.model.options import ConvertOptions, LoadOptions, LowerOptions

TEXT = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }\n"
NNEF1 = "version 1.0; graph g(x) -> (y) { x = external(shape = [2]); y = relu(x); }"
DYNAMIC = "graph G { @input { x: real[n]; } @output { y: real; } @compose { y = x; } }\n"
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
    "a part that begins with text": lambda _, __: tvm_nnef.extract(TEXT, "y"),
    "a part that ends with a number": lambda _, __: tvm_nnef.extract(TEXT, outputs=[3]),
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
    "a route that is nothing": lambda _, __: tvm_nnef.build(TEXT, route=None, progress=False),
    "variables by number": lambda _, __: tvm_nnef.load_model(TEXT, variables={1: X}),
    "a folder by number": lambda _, __: tvm_nnef.load_model(TEXT, search_path=[1]),
    "a tensor by number": lambda _, __: tvm_nnef.evaluate(TEXT, X, tensors=[1]),
    "a dtype that is nothing": lambda _, __: tvm_nnef.compose(TEXT, dtypes={"x": None}),
    "a flag as text": lambda _, __: tvm_nnef.build(TEXT, checked="no", progress=False),
    "timings": lambda _, __: tvm_nnef.build(TEXT, timings=[1], progress=False),
    "a negative seed": lambda _, __: tvm_nnef.compare(TEXT, seed=-1, progress=False),
    "a target of objects": lambda _, __: tvm_nnef.build(TEXT, {"x": object()}, progress=False),
    "bounds as a list": lambda _, __: tvm_nnef.convert(NNEF1, bounds=[1]),
    "bounds by number": lambda _, __: tvm_nnef.convert(NNEF1, bounds={1: 2}),
    "a bound that is nothing": lambda _, __: tvm_nnef.convert(NNEF1, bounds={"n": None}),
    "converters by number": lambda _, __: tvm_nnef.convert(NNEF1, converters=3),
    "an ONNX model that is nothing": lambda _, __: tvm_nnef.from_onnx(None),
    "another format": lambda _, __: tvm_nnef.from_onnx(TEXT, format="nnef1"),
    "text to evaluate": lambda _, __: tvm_nnef.evaluate(DYNAMIC, "digit.png"),
    "a generator to evaluate": lambda _, __: tvm_nnef.evaluate(DYNAMIC, (i for i in range(2))),
    "nothing to evaluate": lambda _, __: tvm_nnef.evaluate(DYNAMIC, None),
    "an object to evaluate": lambda _, __: tvm_nnef.evaluate(DYNAMIC, object()),
    "masked elements": lambda exe, _: exe(np.ma.masked_equal(X, X[0])),
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


OPTIONAL: dict[str, tuple[Callable[..., Any], type | None]] = {
    "load_model": (lambda _, __, **given: tvm_nnef.load_model(TEXT, **given), LoadOptions),
    "check": (lambda _, __, **given: _checked(TEXT, **given), LoadOptions),
    "compose": (lambda _, __, **given: tvm_nnef.compose(TEXT, **given), LoadOptions),
    "evaluate": (lambda _, __, **given: tvm_nnef.evaluate(TEXT, X, **given), LowerOptions),
    "from_nnef": (lambda _, __, **given: tvm_nnef.from_nnef(TEXT, **given), LowerOptions),
    "from_onnx": (lambda _, __, **given: tvm_nnef.from_onnx(TEXT, **given), LowerOptions),
    "build": (lambda _, __, **given: tvm_nnef.build(TEXT, **QUIET | given), LowerOptions),
    "compare": (lambda _, __, **given: tvm_nnef.compare(TEXT, **QUIET | given), LowerOptions),
    "convert": (lambda _, __, **given: tvm_nnef.convert(NNEF1, **given), ConvertOptions),
    "quantize": (lambda _, __, **given: tvm_nnef.quantize(TEXT, **given), LoadOptions),
    "extract": (lambda _, __, **given: tvm_nnef.extract(TEXT, **given), LoadOptions),
    "tune": (lambda _, folder, **given: tvm_nnef.tune(TEXT, **_tuning(folder) | given), None),
    "load_image": (lambda _, __, **given: tvm_nnef.load_image("x.png", TEXT, **given), None),
    "benchmark": (lambda exe, _, **given: exe.benchmark(X, **given), None),
    "profile": (lambda exe, _, **given: exe.profile(X, **given), None),
    "__call__": (lambda exe, _, **given: exe(X, **given), None),
}
"""By the name of a public call one with further arguments, and those that ``**options`` has."""

QUIET: dict[str, Any] = {"progress": False, "cache": False}


def _tuning(folder: Path) -> dict[str, Any]:
    return {"progress": False, "trials": 1, "database": folder / "db"}


def _checked(model: Any, **options: Any) -> object:
    found = tvm_nnef.check(model, **options)
    if found:
        raise tvm_nnef.NnefError(found)
    return found


def _optional(name: str, options: type | None) -> Iterator[str]:
    """The optional arguments of a public call."""
    owner = tvm_nnef if name in tvm_nnef.__all__ else tvm_nnef.Executable
    function = getattr(owner, name)
    for each in inspect.signature(function).parameters.values():
        if each.default is not each.empty:
            yield each.name
    yield from () if options is None else options.__annotations__


def test_every_public_call_with_optional_arguments_is_in_the_table() -> None:
    found = {
        name
        for name in tvm_nnef.__all__
        if inspect.isfunction(getattr(tvm_nnef, name))
        for each in inspect.signature(getattr(tvm_nnef, name)).parameters.values()
        if each.default not in (each.empty, False)
    }
    assert found <= set(OPTIONAL)


WRONG: Mapping[str, object] = {"None": None, "an object": object(), "a list": [object()]}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_arguments_of_a_wrong_kind(
    name: str, value: object, executable: tvm_nnef.Executable, tmp_path: Path
) -> None:
    call, options = OPTIONAL[name]
    for argument in _optional(name, options):
        try:
            call(executable, tmp_path, **{argument: value})
        except tvm_nnef.NnefError as problem:
            assert all(each.hint for each in problem.diagnostics), argument
