"""The backend test suite inside the ``onnx`` package, and a way to run its cases through ours."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_nnef.arrays.few_bits import FORMATS

onnx = pytest.importorskip("onnx")

EXPECTED = Path(__file__).parent / "expected_failures.txt"
COMPILED = EXPECTED.with_name("expected_failures_compiled.txt")
_TYPES = frozenset(
    ("FLOAT", "FLOAT16", "DOUBLE", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16",
     "UINT32", "UINT64", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
     "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "FLOAT4E2M1", "INT4", "UINT4", "INT2", "UINT2")
)  # fmt: skip
_REVERSE = "ReverseSequence"
_RANDOM = ("Bernoulli", "RandomNormalLike", "RandomUniformLike", "ImageDecoder")


@dataclass(frozen=True)
class Case:
    """A model with inputs and what must come out."""

    name: str
    model: Any = field(repr=False)
    data: Sequence[tuple[Sequence[Any], Sequence[Any]]] = field(repr=False)
    rtol: float
    atol: float

    def feeds(self) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
        """Inputs (without those that are initializers) and outputs as arrays."""
        constant = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input]
        for inputs, outputs in self.data:
            given = [
                _array(x) for x, name in zip(inputs, names, strict=False) if name not in constant
            ]
            yield given, [_array(y) for y in outputs]

    def operators(self) -> set[str]:
        """The operators of the model, those of inner graphs included."""
        return set(_operators(self.model.graph.node))

    def check(self, found: Sequence[Any], expected: Sequence[np.ndarray]) -> None:
        """Types and shapes must be equal, and integers and booleans too."""
        assert len(found) == len(expected), f"{len(found)} outputs, {len(expected)} expected"
        for ours, theirs in zip(map(np.asarray, found), expected, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            if theirs.dtype.name in FORMATS:
                np.testing.assert_array_equal(*(x.astype(np.float64) for x in (ours, theirs)))
            elif theirs.dtype.kind == "f" or theirs.dtype.name == "bfloat16":
                atol = max(self.atol, 1e-3 if theirs.dtype == np.float16 else self.atol)
                # Two units in the last place: the products and the softmax of attention round each.
                rtol = max(self.rtol, 2**-6 if theirs.dtype.name == "bfloat16" else self.rtol)
                # What should be zero in a spectrum is the rounding of the one who summed it up.
                atol = max(atol, 1e-6 if "dft" in self.name else atol)
                wide = ours.astype(np.float64), theirs.astype(np.float64)
                np.testing.assert_allclose(*wide, rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(ours, theirs)


def _array(value: Any) -> np.ndarray:
    return onnx.numpy_helper.to_array(value) if hasattr(value, "data_type") else np.asarray(value)


@pytest.fixture(scope="session")
def suite() -> Mapping[str, Case]:
    """The core cases by name."""
    return core_cases()


def core_cases() -> Mapping[str, Case]:
    """The core cases by name: reals, integers and booleans of any number of bits.

    Without training, random numbers, decoded images, texts, sequences and optionals.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = {case.name: case for case in (*_node_cases(), *_folders(), *_light_models())}
    return {name: case for name, case in cases.items() if _is_core(case)}


@pytest.fixture(scope="session")
def onnx_suite(imported: Callable[[Path], Any]) -> Any:
    """The script that runs the suite in processes."""
    return imported(Path(__file__).parents[2] / "scripts" / "onnx_suite.py")


@pytest.fixture(scope="session")
def expected_failures() -> Mapping[str, str]:
    """The cases that fail, with reasons; the list may only shrink."""
    return _listed(EXPECTED)


@pytest.fixture(scope="session")
def expected_compiled() -> Mapping[str, str]:
    """The cases that fail only when compiled, with reasons."""
    return _listed(COMPILED)


def _listed(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {name: reason for name, _, reason in pairs}


def _node_cases() -> Iterator[Case]:
    from onnx.backend.test.case.model import collect_testcases as model_cases
    from onnx.backend.test.case.node import collect_testcases as node_cases

    for case in (*node_cases(None), *(case for case in model_cases() if case.kind == "simple")):
        yield Case(case.name, case.model, case.data_sets, case.rtol, case.atol)


def _folders() -> Iterator[Case]:
    from onnx.backend.test.loader import load_model_tests

    for kind in ("pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=kind):
            folder = Path(case.model_dir)
            data = [_data(each) for each in sorted(folder.glob("test_data_set_*"))]
            yield Case(case.name, onnx.load(folder / "model.onnx"), data, case.rtol, case.atol)


def _data(folder: Path) -> tuple[list[Any], list[Any]]:
    def read(kind: str) -> list[Any]:
        count = len(list(folder.glob(f"{kind}_*.pb")))
        return [onnx.load_tensor(folder / f"{kind}_{number}.pb") for number in range(count)]

    return read("input"), read("output")


def _light_models() -> Iterator[Case]:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for file in sorted(folder.glob("*.onnx")):
        model = onnx.load(file)
        constant = {tensor.name for tensor in model.graph.initializer}
        inputs = []
        for value in model.graph.input:
            shape = tuple(dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim)
            size = int(np.prod(shape))
            # What the suite's own runner feeds them.
            ramp = (np.arange(size).reshape(shape) / size).astype(np.float32)
            inputs.append(None if value.name in constant else ramp)
        output = onnx.load_tensor(file.with_name(f"{file.stem}_output_0.pb"))
        yield Case(file.stem, model, [(inputs, [output])], 2e-3, 1e-7)


def _is_core(case: Case) -> bool:
    if "training_dropout" in case.name or case.model is None:
        return False
    if any("preview.training" in each.domain for each in case.model.opset_import):
        return False
    values = (*case.model.graph.input, *case.model.graph.output)
    if any(value.type.WhichOneof("value") != "tensor_type" for value in values):
        return False
    names = {onnx.TensorProto.DataType.Name(v.type.tensor_type.elem_type) for v in values}
    operators = case.operators()
    apart = any("Sequence" in name or "Optional" in name for name in operators - {_REVERSE})
    return names <= _TYPES and not apart and not operators.intersection(_RANDOM)


def _operators(nodes: Iterable[Any]) -> Iterator[str]:
    for node in nodes:
        yield node.op_type
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _operators(graph.node)


@pytest.fixture(scope="session")
def make_model() -> Any:
    """A ModelProto of one graph, from nodes, inputs and outputs as (name, dtype, shape)."""

    def make(
        nodes: Sequence[Any],
        inputs: Sequence[tuple[str, str, Any]],
        outputs: Sequence[tuple[str, str, Any]],
        constants: Mapping[str, np.ndarray] | None = None,
        opset: int = 17,
        **more: Any,
    ) -> Any:
        def value(name: str, dtype: str, shape: Any) -> Any:
            number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            return onnx.helper.make_tensor_value_info(name, number, shape)

        weights = [onnx.numpy_helper.from_array(a, name) for name, a in (constants or {}).items()]
        graph = onnx.helper.make_graph(
            list(nodes), "net", [value(*each) for each in inputs],
            [value(*each) for each in outputs], weights,
        )  # fmt: skip
        imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("own", 1)]
        return onnx.helper.make_model(graph, opset_imports=imports, **more)

    return make
