"""PyTorch to SkriptND, through PyTorch's own ONNX exporter in memory.

Input: a ``torch.nn.Module`` with example inputs, or a ``torch.export.ExportedProgram``. Output: a
model. It needs ``torch`` and ``onnxscript``, which the exporter uses.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tvm_nnef.converters.common.bounds import Bounds
from tvm_nnef.converters.onnx.main import convert as convert_onnx
from tvm_nnef.converters.onnx.registry import Custom
from tvm_nnef.converters.onnx.state import State
from tvm_nnef.converters.onnx.torch_log import passed_on
from tvm_nnef.converters.onnx.torch_names import name_outputs
from tvm_nnef.converters.onnx.torch_recurrent import of_any_length, translations
from tvm_nnef.converters.onnx.torch_sizes import FIXED_HINT, check_dynamic
from tvm_nnef.converters.onnx.torch_state import (
    corrected,
    forget_pending_sizes,
    with_buffers_as_inputs,
)
from tvm_nnef.diagnostics import error
from tvm_nnef.model.model import Model
from tvm_nnef.support.requirements import needed_for

_FIXED = "static shape of"
"""A text in PyTorch's errors for dimensions that it fixed."""


def convert(
    source: Any,
    *,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    output_names: Sequence[str] | None = None,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    bounds: Bounds = 0,
    converters: Custom | None = None,
    outline: bool = True,
    state: Mapping[str, str] | None = None,
) -> Model:
    """Convert a PyTorch model to SkriptND; buffers that a call changes become its state.

    Parameters
    ----------
    source : torch.nn.Module or torch.export.ExportedProgram
        A module is exported in evaluation mode and stays as it is.
    example_inputs
        For a module: the arguments of a call, as a tuple of tensors (or one tensor), or as a
        mapping of the names of arguments to tensors.
    dynamic_shapes
        The dynamic dimensions, as ``torch.onnx.export`` takes them. A program has its own, with
        names of PyTorch's if not given here.
    output_names
        A name for each tensor that a call returns. By default they have the keys of dictionaries
        and the fields of named tuples and dataclasses, and other names of PyTorch's.
    input_shapes, dtypes, bounds, converters, outline, state
        As in :func:`tvm_nnef.converters.onnx.convert`, of the exported model.

    Raises
    ------
    NnefError
        If PyTorch cannot export the module or fixes a dimension that should be dynamic, for
        buffers whose dtype or shape a call changes, and for everything that cannot be converted.
    """
    proto, states = _exported(source, example_inputs, dynamic_shapes, output_names)
    return convert_onnx(
        proto,
        states,
        input_shapes=input_shapes,
        dtypes=dtypes,
        bounds=bounds,
        converters=converters,
        outline=outline,
        state=state,
    )


def _exported(
    source: Any, inputs: Any, dynamic_shapes: Any, output_names: Sequence[str] | None
) -> tuple[Any, list[State]]:
    """The ModelProto that PyTorch exports, and which of its inputs are state."""
    torch = _exporter()
    module = source if isinstance(source, torch.nn.Module) else None
    if module is not None and inputs is None:
        hint = "give tensors for a call: example_inputs=(torch.zeros(1, 3, 224, 224),)"
        raise error("a torch.nn.Module needs example inputs", hint=hint)
    if module is None and inputs is not None:
        hint = "leave out 'example_inputs': the program has them"
        raise error("a torch.export.ExportedProgram takes no example inputs", hint=hint)
    with _evaluating(module), passed_on(), of_any_length():
        exported, states = _export(torch, source, _call(inputs), dynamic_shapes)
    if module is not None and dynamic_shapes is not None:
        check_dynamic(exported.exported_program, module, dynamic_shapes)
    name_outputs(exported.model.graph, exported.exported_program, output_names, len(states))
    return exported.model_proto, states


def _call(inputs: Any) -> dict[str, Any]:
    """The arguments of a call, as PyTorch's exporter takes them."""
    if isinstance(inputs, Mapping):
        return {"kwargs": dict(inputs)}
    if inputs is None:
        return {}
    return {"args": tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)}


def _export(
    torch: Any, source: Any, arguments: Mapping[str, Any], dynamic_shapes: Any
) -> tuple[Any, list[State]]:
    """The ONNXProgram of a module or a program, and which of its inputs are state."""
    options: dict[str, Any] = {
        "dynamo": True,
        "verbose": False,
        "custom_translation_table": translations(),
    }
    if dynamic_shapes is not None:
        options["dynamic_shapes"] = dynamic_shapes
    states: list[State] = []
    try:
        if not isinstance(source, torch.nn.Module):
            forget_pending_sizes(source)
        exported = torch.onnx.export(source, **arguments, **options)
        again = corrected(exported.exported_program)
        if again is not None:
            program, buffers = again
            exported = torch.onnx.export(program, **options, optimize=False)
            states = with_buffers_as_inputs(exported.model.graph, program, buffers)
            exported.optimize()
    except Exception as problem:
        cause = str(problem.__cause__ or problem)
        if _FIXED in cause:
            hint = FIXED_HINT
        else:
            hint = "torch.onnx.export with the same arguments and verbose=True reports more"
        raise error(f"PyTorch cannot export the model: {_first(cause)}", hint=hint) from problem
    return exported, states


def _first(text: str) -> str:
    """The first line of a reason, and the next if it announces one."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    count = 2 if lines and lines[0].endswith(":") else 1
    return " ".join(lines[:count]) or "no reason"


def _exporter() -> Any:
    """The package ``torch``. Raises NnefError if what its exporter needs is not installed."""
    with needed_for("a PyTorch model"):
        importlib.import_module("onnxscript")
        return importlib.import_module("torch")


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """A block in which a module is in evaluation mode, if there is one."""
    modes = [] if module is None else [(part, part.training) for part in module.modules()]
    if module is not None:
        module.eval()
    try:
        yield
    finally:
        for part, is_training in modes:
            part.training = is_training
