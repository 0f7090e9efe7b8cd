"""Dimensions that a user wants dynamic and that PyTorch fixed to the sizes of the example inputs.

The exporter changes what is asked for to what it can do, without an error.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from tvm_nnef.diagnostics import Diagnostic, NnefError

FIXED_HINT = (
    "the module computes with the size as a number, as in a loop over it in Python or a fixed "
    "reshape: change that, or leave the dimension out of 'dynamic_shapes'"
)


def check_dynamic(program: Any, module: Any, dynamic_shapes: Any) -> None:
    """Raise NnefError for dimensions of a program's inputs that are fixed and should not be."""
    found = [
        _fixed(name, axis, asked, size)
        for name, tensor, shape in _tensors(_arguments(program, module), dynamic_shapes)
        for axis, asked in _axes(shape)
        if _is_dynamic(asked) and isinstance(size := tensor.shape[axis], int)
    ]
    if found:
        raise NnefError(found)


def _arguments(program: Any, module: Any) -> dict[str, Any]:
    """Return the inputs of a program for each argument of its module's call."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    inputs = (nodes.get(name) for name in program.graph_signature.user_inputs)
    values = [None if node is None else node.meta.get("val") for node in inputs]
    trees = importlib.import_module("torch.utils._pytree")
    args, kwargs = trees.tree_unflatten(values, program.call_spec.in_spec)
    signature = inspect.signature(module.forward)
    found = dict(signature.bind(*args, **kwargs).arguments)
    for each in signature.parameters.values():
        if each.kind is each.VAR_KEYWORD:
            found |= found.pop(each.name, {})
    return found


def _tensors(values: Any, shapes: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """By tensor its name and what is asked for its shape, the two nested in the same way."""
    if shapes is None:
        return
    if hasattr(values, "shape"):
        yield name, values, shapes
    elif isinstance(values, Mapping):
        given = shapes
        if not isinstance(shapes, Mapping):
            given = dict(zip(values, shapes, strict=False))
        for key, value in values.items():
            yield from _tensors(value, given.get(key), f"{name}.{key}" if name else str(key))
    elif isinstance(values, (list, tuple)):
        for position, (value, shape) in enumerate(zip(values, shapes, strict=False)):
            yield from _tensors(value, shape, f"{name}.{position}")


def _axes(shape: Any) -> Iterator[tuple[int, Any]]:
    """The axes of a tensor about which something is said."""
    if isinstance(shape, Mapping):
        yield from shape.items()
    elif isinstance(shape, (list, tuple)):
        yield from enumerate(shape)


def _is_dynamic(asked: Any) -> bool:
    """Whether a dimension must be dynamic: it has a name, or is ``Dim.DYNAMIC``."""
    hint = getattr(getattr(asked, "type", asked), "name", None)
    return _name(asked) is not None or hint == "DYNAMIC"


def _name(asked: Any) -> str | None:
    return asked if isinstance(asked, str) else getattr(asked, "__name__", None)


def _fixed(tensor: str, axis: int, asked: Any, size: int) -> Diagnostic:
    called = f" '{_name(asked)}'," if _name(asked) else ""
    message = f"the dimension{called} axis {axis} of '{tensor}', is not dynamic: PyTorch fixed it "
    message += f"to {size}, its size in the example inputs"
    return Diagnostic(message, hint=FIXED_HINT, is_unsupported=True)
