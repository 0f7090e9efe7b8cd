"""How operator functions say that they cannot convert a node, and what else goes wrong with one."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx

from tvm_nnef.diagnostics import Diagnostic, did_you_mean

_CALLERS = ("conversion.py", "registry.py")
"""The modules that call the functions of operators."""


class Unconvertible(Exception):
    """A node that cannot be converted, with what a user can do about it."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def told(
    problem: Unconvertible, node: onnx.NodeProto, opsets: Mapping[str, int], file: str
) -> Diagnostic:
    """What a user reads of a node: its name, operator and opset, the reason, and what to do."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    name = node.name or ", ".join(filter(None, node.output)) or "without a name"
    operator = f"{domain}::{node.op_type}" if domain else node.op_type
    version = opsets.get(domain)
    place = f"{operator}, opset {version}" if version else f"{operator}, of no known opset"
    return Diagnostic(f"node '{name}' ({place}): {problem.reason}", hint=problem.hint, file=file)


def without_converter(node: onnx.NodeProto, known: Iterable[tuple[str, str]]) -> Unconvertible:
    """That there is no converter for a node's operator; ``known`` are those that have one."""
    near = did_you_mean(node.op_type, [name for domain, name in known if domain == node.domain])
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}::"
    own = f"give one: convert(…, converters={{'{domain}{node.op_type}': function}})"
    hint = f"{near} Or {own}" if near else own
    return Unconvertible("there is no converter for this operator", hint)


def explained(
    problem: Exception,
    node: onnx.NodeProto,
    inputs: Iterable[str],
    model: onnx.ModelProto,
    opsets: Mapping[str, int],
) -> Unconvertible:
    """What is reported of a node whose conversion has failed; ``inputs`` are its operands in words.

    What is no refusal is the node's fault if ONNX's own checker says so, if a value does not fit,
    or if a converter of this package fails, which expects shapes as the operator's text has them;
    else the fault of a user's converter, which is named by its place.
    """
    if isinstance(problem, Unconvertible):
        return problem
    invalid = _invalid(node, model, opsets)
    if invalid is not None:
        return Unconvertible(invalid, "correct the model")
    if isinstance(problem, MemoryError):
        return Unconvertible("it does not fit into memory", "use smaller dimensions")
    place = _place(problem)
    reason = f"{type(problem).__name__}: {problem}".rstrip(": ")
    if isinstance(problem, ValueError):
        (text, *_) = str(problem).splitlines() or [""]
        return Unconvertible(text, f"correct the model; it was noticed in {place}")
    if _is_ours(problem):
        shown = ", ".join(inputs) or "no inputs"
        hint = f"correct the model; if other tools run it, report this ({reason} in {place})"
        return Unconvertible(f"it cannot be converted with these inputs: {shown}", hint)
    hint = f"the converter of the operator is wrong, or the model is; it failed in {place}"
    return Unconvertible(f"its converter fails with {reason}", hint)


def _place(problem: Exception) -> str:
    """The last line of the function, a user's or ours, in which a problem came up."""
    files = _files(problem)
    function = _function(files)
    file, line = [each for each in files if each[0] == function][-1]
    return f"{file.name}:{line}"


def _is_ours(problem: Exception) -> bool:
    """Whether the function in which a problem came up belongs to this package."""
    function = _function(_files(problem))
    return Path(__file__).parent in function.parents and function.name not in _CALLERS


def _files(problem: Exception) -> list[tuple[Path, int | None]]:
    frames = traceback.extract_tb(problem.__traceback__)
    return [(Path(frame.filename), frame.lineno) for frame in frames]


def _function(files: Sequence[tuple[Path, int | None]]) -> Path:
    callers = [file.name in _CALLERS for file, _ in files]
    return files[callers.index(False) if False in callers else -1][0]


def _invalid(node: onnx.NodeProto, model: onnx.ModelProto, opsets: Mapping[str, int]) -> str | None:
    """The sentence of ONNX's checker on a standard node, None where it finds nothing."""
    if node.domain not in ("", "ai.onnx"):
        return None
    context = onnx.checker.C.CheckerContext()
    try:
        context.ir_version = model.ir_version or onnx.IR_VERSION
        context.opset_imports = dict(opsets)
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as cause:
        return f"it is not valid ONNX: {str(cause).partition(chr(10))[0]}"
    except (RuntimeError, ValueError, TypeError):  # numbers beyond the C++ types as well
        return None
    return None
