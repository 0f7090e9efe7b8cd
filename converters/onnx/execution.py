"""A model executed by ONNX Runtime, with the values between its nodes.

An ONNX model and arrays by the names of its inputs in; arrays by the names of values out, and which
node gives each. Nothing is converted, and nothing is compared here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from tvm_nnef.arrays.coded_arrays import as_held, from_held
from tvm_nnef.converters.common.execution import as_numbers
from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.onnx.reading import OnnxModel, Source, makers, read
from tvm_nnef.converters.onnx.replaceable import as_inputs
from tvm_nnef.converters.onnx.types import NUMBER_OF, type_name
from tvm_nnef.diagnostics import error
from tvm_nnef.support.requirements import needed_for

_FOLDER = "session.model_external_initializers_file_folder_path"
_IR_VERSION = 10
"""The version that older ONNX Runtimes read; no later version changes what nodes compute."""

_LIMIT = 2**31 - 1
"""As many bytes as Protobuf can write."""


@dataclass(frozen=True, slots=True)
class OnnxExecution:
    """An ONNX model that ONNX Runtime executes."""

    model: OnnxModel
    makers: Mapping[str, tuple[str, str]]
    what: str = "ONNX node"

    @property
    def path(self) -> str:
        """The model's name in messages."""
        return self.model.path

    def execute(self, inputs: Mapping[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """The values that are wanted, by name, as ONNX Runtime computes them node by node.

        Dictionaries of scores are rows of them; values that are texts are left out. It does not
        optimize, so that each is what its node alone makes of the node's inputs. Raises NnefError
        if ONNX Runtime is not installed, refuses the model, or fails to run it.
        """
        return _executed(self.model, inputs, list(dict.fromkeys(wanted)))


def open_execution(source: Source) -> OnnxExecution:
    """A model that can be executed. Raises NnefError for one that cannot be read."""
    model = read(source)
    return OnnxExecution(model, dict(makers(model)))


def _executed(
    model: OnnxModel, inputs: Mapping[str, Array], wanted: Sequence[str]
) -> dict[str, Array]:
    runtime = _runtime()
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    proto.ir_version = min(proto.ir_version, _IR_VERSION)
    as_inputs(proto, inputs)
    _take_sizes(proto.graph, inputs)
    given = {value.name for value in proto.graph.output}
    proto.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in wanted if name not in given
    )
    try:
        session = runtime.InferenceSession(
            _serialized(model, proto), _options(runtime, model), providers=["CPUExecutionProvider"]
        )
        known = {value.name for value in session.get_inputs()}
        feeds = {n: _fed(runtime, array) for n, array in inputs.items() if n in known}
        found = session.run(list(wanted), feeds)
        types = {each.name: each.type for each in session.get_outputs()}
    except _failures(runtime) as cause:
        hint = "compare the routes 'mapped' and 'reference' instead"
        text = str(cause).strip().splitlines()[0]
        message = f"ONNX Runtime {runtime.__version__} cannot run the model: {text}"
        raise error(message, hint=hint, file=model.path) from cause
    arrays = zip(wanted, map(as_numbers, found), strict=True)
    return {
        name: from_held(array, _FLOAT8.get(types[name], ""))
        for name, array in arrays
        if array is not None
    }


def _take_sizes(graph: onnx.GraphProto, inputs: Mapping[str, Array]) -> None:
    """Give a graph the sizes of arrays where it has others, as a conversion does on request."""
    changed = False
    for port in graph.input:
        sizes = inputs[port.name].shape if port.name in inputs else ()
        for dimension, size in zip(port.type.tensor_type.shape.dim, sizes, strict=False):
            if dimension.HasField("dim_value") and dimension.dim_value != size:
                dimension.dim_value, changed = size, True
    if changed:
        del graph.value_info[:]
        for port in graph.output:
            port.type.tensor_type.ClearField("shape")


_FLOAT8 = {
    f"tensor({type_name(number)})": dtype
    for dtype, number in NUMBER_OF.items()
    if dtype.startswith("float8")
}
"""The types whose elements ONNX Runtime takes and gives as their codes, by its names of them."""


def _fed(runtime: Any, array: Array) -> Any:
    """An input as ONNX Runtime takes it."""
    number = NUMBER_OF.get(array.dtype.name)
    if number is None or array.dtype.name not in _FLOAT8.values():
        return array
    return runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(as_held(array), number)


def _runtime() -> Any:
    with needed_for("the route 'onnxruntime'"):
        import onnxruntime
    return onnxruntime


def _options(runtime: Any, model: OnnxModel) -> Any:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if model.folder:
        options.add_session_config_entry(_FOLDER, str(Path(model.folder).resolve()))
    return options


def _serialized(model: OnnxModel, proto: onnx.ModelProto) -> bytes:
    if proto.ByteSize() > _LIMIT:
        hint = "save it with external data (onnx.save, save_as_external_data=True)"
        raise error("the model is too large to be handed over", hint=hint, file=model.path)
    data: bytes = proto.SerializeToString()
    return data


def _failures(runtime: Any) -> tuple[type[Exception], ...]:
    """Return the exceptions of a session for a model or inputs that it does not take."""
    kinds = vars(runtime.capi.onnxruntime_pybind11_state).values()
    raised = (each for each in kinds if isinstance(each, type) and issubclass(each, Exception))
    return (ValueError, RuntimeError, *raised)
