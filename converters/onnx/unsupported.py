"""Errors of the conversion of a node: those of operator functions, and all others."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import onnx

from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean


class Mismatch(NnefError):
    """A subgraph in which nothing is wrong but that shapes do not fit together."""


def reported(
    problem: Unconvertible, node: onnx.NodeProto, opsets: Mapping[str, int], file: str
) -> Diagnostic:
    """Return the diagnostic of a node: its name, operator and opset, the reason, and a hint."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    name = node.name or ", ".join(filter(None, node.output)) or "without a name"
    operator = f"{domain}::{node.op_type}" if domain else node.op_type
    version = opsets.get(domain)
    location = f"{operator}, opset {version}" if version else f"{operator}, of no known opset"
    hint = problem.hint or _own(operator)
    message = f"node '{name}' ({location}): {problem.reason}"
    return Diagnostic(message, hint=hint, file=file, is_unsupported=problem.is_unsupported)


def _own(operator: str) -> str:
    return f"give one: convert(…, converters={{'{operator}': function}})"


def without_converter(node: onnx.NodeProto, known: Iterable[tuple[str, str]]) -> Unconvertible:
    """That there is no converter for a node's operator; ``known`` are those that have one."""
    near = did_you_mean(node.op_type, [name for domain, name in known if domain == node.domain])
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}::"
    own = _own(f"{domain}{node.op_type}")
    hint = f"{near} Or {own}" if near else own
    return Unconvertible("there is no converter for this operator", hint)


def explained(
    problem: Exception,
    node: onnx.NodeProto,
    inputs: Iterable[str],
    model: onnx.ModelProto,
    opsets: Mapping[str, int],
    converter: Callable[..., object] | None,
    *,
    custom: bool,
) -> Unconvertible:
    """Return the error of a node whose conversion has failed; ``inputs`` describe its operands.

    ``converter`` is the function of its operator, if there is one, ``custom`` if a user gave it.
    Another error is the node's fault if ONNX's own checker says so, if a value does not fit,
    or if a converter of this package fails, which expects shapes as the operator's text has them;
    else the fault of a user's converter, which is named by its location.
    """
    if isinstance(problem, Unconvertible):
        return problem
    invalid = _invalid(node, model, opsets)
    if invalid is not None:
        return Invalid(invalid)
    if isinstance(problem, MemoryError):
        return Invalid("it does not fit into memory", "use smaller dimensions")
    location = _location(problem, converter)
    reason = f"{type(problem).__name__}: {problem}".rstrip(": ")
    if isinstance(problem, ValueError):
        (text, *_) = str(problem).splitlines() or [""]
        found = f"correct the model; it was noticed in {location}"
        return Invalid(text, found, mismatch=not custom)
    if not custom:
        shown = ", ".join(inputs) or "no inputs"
        hint = f"correct the model; if other tools run it, report this ({reason} in {location})"
        reason = f"it cannot be converted with these inputs: {shown}"
        return Invalid(reason, hint, mismatch=True)
    hint = f"the converter of the operator is wrong, or the model is; it failed in {location}"
    return Invalid(f"its converter fails with {reason}", hint)


def _location(problem: Exception, converter: Callable[..., object] | None) -> str:
    """The last line in the file of a converter, or of all, that was reached before a problem."""
    frames = traceback.extract_tb(problem.__traceback__)
    code = getattr(converter, "__code__", None)
    inside = [frame for frame in frames if code and frame.filename == code.co_filename]
    if code and not inside:  # it could not even be called
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    last = (inside or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def _invalid(node: onnx.NodeProto, model: onnx.ModelProto, opsets: Mapping[str, int]) -> str | None:
    """The sentence of ONNX's checker on a standard node, None if it finds nothing."""
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
