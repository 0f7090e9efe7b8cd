"""How operator functions say that they cannot convert a node, and what else goes wrong with one."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path

import onnx


class Unconvertible(Exception):
    """A node that cannot be converted, with what a user can do about it."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def explained(
    problem: Exception, node: onnx.NodeProto, model: onnx.ModelProto, opsets: Mapping[str, int]
) -> Unconvertible:
    """What is to be told of a node whose conversion has failed.

    What is no refusal is the node's fault where ONNX's own checker says so, or where a value does
    not fit; else the converter's, which is named by its place.
    """
    if isinstance(problem, Unconvertible):
        return problem
    invalid = _invalid(node, model, opsets)
    if invalid is not None:
        return Unconvertible(invalid, "correct the model")
    place = _place(problem)
    reason = f"{type(problem).__name__}: {problem}".rstrip(": ")
    if isinstance(problem, ValueError):
        return Unconvertible(str(problem), f"correct the model; it was noticed in {place}")
    hint = f"the converter of the operator is wrong, or the model is; it failed in {place}"
    return Unconvertible(f"its converter fails with {reason}", hint)


def _place(problem: Exception) -> str:
    """The last line of the function, a user's or ours, in which a problem came up."""
    frames = traceback.extract_tb(problem.__traceback__)
    files = [(Path(frame.filename), frame.lineno) for frame in frames]
    callers = [file.name in ("conversion.py", "registry.py") for file, _ in files]
    function = files[callers.index(False) if False in callers else -1][0]
    file, line = [each for each in files if each[0] == function][-1]
    return f"{file.name}:{line}"


def _invalid(node: onnx.NodeProto, model: onnx.ModelProto, opsets: Mapping[str, int]) -> str | None:
    """The sentence of ONNX's checker on a standard node, None where it finds nothing."""
    if node.domain not in ("", "ai.onnx"):
        return None
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version or onnx.IR_VERSION
    context.opset_imports = dict(opsets)
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as cause:
        return f"it is not valid ONNX: {str(cause).partition(chr(10))[0]}"
    except (RuntimeError, ValueError, TypeError):
        return None
    return None
