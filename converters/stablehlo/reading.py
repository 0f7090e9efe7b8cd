"""Reading of StableHLO modules: results of JAX, text, bytecode, or a file of either.

Output: an :class:`HloModule`, parsed and verified by the MLIR bindings of jaxlib. Nothing is
converted.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

from tvm_nnef.converters.common.names import UniqueNames
from tvm_nnef.converters.stablehlo.bytecode import unreadable
from tvm_nnef.diagnostics import error
from tvm_nnef.storage.regular import open_regular

BYTECODE = b"ML\xefR"
"""The first bytes of MLIR's bytecode."""
_NAME = re.compile(r'^loc\("([^"]*)"(?!:\d)')
_STACK = re.compile(r'("[^"]*")\(callsite\(.*?("[^"]*":\d+:\d+)')
_WRAPPER = re.compile(r"(?:^|/)(?:jit|jvp|transpose|vmap|pjit)\(([^()/]*)\)")
_HINT = (
    "give what jax.export.export(f)(…) or jax.jit(f).lower(…) gives, "
    "its text or bytes, or a file of either"
)
_KEPT = frozenset(
    ("chlo.erf", "chlo.erfc", "chlo.square", "chlo.top_k", "chlo.tan", "chlo.sinh", "chlo.cosh",
     "chlo.asin", "chlo.acos", "chlo.atan", "chlo.asinh", "chlo.acosh", "chlo.atanh",
     "chlo.constant", "chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
)  # fmt: skip
"""Operations above StableHLO that have a converter; the others are expanded to StableHLO."""

_BRACKETS = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|//[^\n]*|->|[(\[{<>}\])]")
_DEEPEST = 512
"""Upper limit of the nesting of brackets in a text."""


@dataclass(frozen=True)
class HloModule:
    """A module with its function ``main``.

    ``path`` is its name in messages. ``dimensions`` has the names of dynamic dimensions of inputs,
    if JAX has them, by the numbers of input and axis.
    """

    module: ir.Module
    path: str
    dimensions: Mapping[tuple[int, int], str]

    @property
    def name(self) -> str:
        """The name of the module in its text."""
        attributes = self.module.operation.attributes
        symbol = attributes["sym_name"].value if "sym_name" in attributes else ""
        return str(symbol).removeprefix("jit_").strip("_") or "G"

    @property
    def functions(self) -> dict[str, Any]:
        """The functions by name."""
        return {
            op.attributes["sym_name"].value: op
            for op in self.module.body.operations
            if op.operation.name == "func.func"
        }

    @property
    def main(self) -> Any:
        """The function that is the model. Raises NnefError if there is none."""
        functions = self.functions
        public = [
            each
            for each in functions.values()
            if "sym_visibility" not in each.attributes
            or each.attributes["sym_visibility"].value == "public"
        ]
        main = functions.get("main") or (public[0] if len(public) == 1 else None)
        if main is None or not len(main.regions[0].blocks):
            raise error("the module has no function 'main'", hint=_HINT, file=self.path)
        return main


def read(source: Any) -> HloModule:
    """Return the module of a source. Raises NnefError if it is not a module."""
    path, data, dimensions = _content(source)
    # What jax.export made in this process is sound; bytes may come from anywhere.
    is_foreign = not hasattr(source, "mlir_module_serialized")
    if isinstance(data, bytes) and is_foreign and (reason := unreadable(data)):
        hint = "the file is damaged: export it again, or give the module as text"
        raise error(f"this is not a StableHLO module: {reason}", hint=hint, file=path)
    context = make_ir_context()
    try:
        with context:
            module = _parsed(data, context)
            _legalize(module)
    except (ir.MLIRError, ValueError) as cause:
        lines = [line.strip() for line in str(cause).strip().splitlines()]
        first = next(
            (line for line in lines if line.startswith("error:")), lines[0] if lines else ""
        )
        message = f"this is not a StableHLO module: {first}"
        raise error(message, hint=_HINT, file=path) from cause
    return HloModule(module, path, dimensions)


def input_names(module: HloModule) -> list[str]:
    """Return the names of the inputs: those of the Python function if the module has them."""
    names, inside = UniqueNames(), _names_inside(module)
    return [
        names.name(location_name(argument.location) or inside.get(argument) or f"arg{number}")
        for number, argument in enumerate(module.main.arguments)
    ]


def _names_inside(module: HloModule) -> dict[Any, str]:
    """Return the names of arguments in the functions that ``main`` calls: jax.export wraps the
    function.
    """
    functions = module.functions
    return {
        operand: name
        for op in module.main.regions[0].blocks[0].operations
        if op.operation.name == "func.call" and op.attributes["callee"].value in functions
        for operand, argument in zip(
            op.operands, functions[op.attributes["callee"].value].arguments, strict=False
        )
        if (name := location_name(argument.location))
    }


def value_names(module: HloModule) -> Iterator[tuple[Any, Any, str]]:
    """Yield the operations of ``main`` with their results and a unique name for each."""
    names = UniqueNames((*input_names(module), *result_names(module)))
    for op in module.main.regions[0].blocks[0].operations:
        kind = op.operation.name
        if kind in ("stablehlo.constant", "func.return"):
            continue
        name = location_name(op.location) or kind.rpartition(".")[2]
        for result in op.results:
            yield op, result, names.name(name)


def result_names(module: HloModule) -> list[str]:
    """Return the names of the results in JAX, or their numbers; each name once."""
    main = module.main
    ends = main.regions[0].blocks[0].operations
    count = len(ends[len(ends) - 1].operands)
    attributes = main.attributes.get("res_attrs", None)
    names = UniqueNames()
    found: list[str] = []
    for number in range(count):
        name = f"result_{number}"
        if attributes is not None and "jax.result_info" in attributes[number]:
            name = str(attributes[number]["jax.result_info"].value) or "result"
        found.append(names.name(name))
    return found


def location_name(location: Any) -> str:
    """Return the name of an operation in a location, without JAX's wrappers; empty for a line of a
    file.
    """
    match = _NAME.match(str(location))
    name = match[1] if match else ""
    while (plain := _WRAPPER.sub("", name)) != name:
        name = plain
    return "" if name == "unknown" else name.strip("/")


def location_text(location: Any) -> str:
    """Return a location for messages: for a stack of calls, the operation and the innermost
    call.
    """
    text = str(location).removeprefix("loc(").removesuffix(")")
    match = _STACK.match(text)
    return f"{match[1]} ({match[2]})" if match else text


def _content(source: Any) -> tuple[str, str | bytes, Mapping[tuple[int, int], str]]:
    """Return the name of a source, its text or bytecode, and the names of its dynamic
    dimensions.
    """
    if isinstance(source, (str, os.PathLike)) and not _is_text(source):
        path = Path(source)
        try:
            with open_regular(path) as file:
                return str(path), *_of_bytes(file.read(), str(path))
        except OSError as cause:
            reason = cause.strerror or str(cause)
            raise error(f"cannot be read: {reason}", hint=_HINT, file=str(path)) from cause
    if isinstance(source, str):
        return "<text>", source, {}
    position = f"<{type(source).__name__}>"
    if isinstance(source, (bytes, bytearray, memoryview)):
        return position, *_of_bytes(bytes(source), position)
    if hasattr(source, "mlir_module_serialized"):
        return position, bytes(source.mlir_module_serialized), _dimensions(source)
    if hasattr(source, "compiler_ir"):
        source = source.compiler_ir("stablehlo")
    operation = getattr(source, "operation", None)
    if operation is None or not hasattr(operation, "get_asm"):
        raise error(f"a {type(source).__name__} is not a StableHLO module", hint=_HINT)
    return position, str(operation.get_asm(enable_debug_info=True)), {}


def _is_text(source: str | os.PathLike[str]) -> bool:
    return isinstance(source, str) and ("\n" in source or ("module" in source and "{" in source))


def _of_bytes(data: bytes, path: str) -> tuple[str | bytes, Mapping[tuple[int, int], str]]:
    if data.startswith(BYTECODE):
        return data, {}
    if BYTECODE in data:
        from jax import export

        try:
            exported = export.deserialize(bytearray(data))
        except Exception as cause:  # whatever flatbuffers and JAX raise for damaged data
            message = f"jax.export cannot read it: {cause}"
            raise error(message, hint=_HINT, file=path) from cause
        return bytes(exported.mlir_module_serialized), _dimensions(exported)
    try:
        return data.decode(), {}
    except UnicodeDecodeError as cause:
        raise error("this is not a StableHLO module", hint=_HINT, file=path) from cause


def _dimensions(exported: Any) -> dict[tuple[int, int], str]:
    """Return the names of dynamic dimensions of an export by JAX, which may be expressions.

    An input that is not used is not in the module.
    """
    used: Sequence[int] = exported.module_kept_var_idx
    return {
        (number, axis): str(size)
        for number, position in enumerate(used)
        for axis, size in enumerate(exported.in_avals[position].shape)
        if not isinstance(size, int)
    }


def _parsed(data: str | bytes, context: ir.Context) -> ir.Module:
    if isinstance(data, str):
        _check_nesting(data)
        return ir.Module.parse(data)
    # MLIR would print what is wrong; it is in the exception of the second attempt as well.
    handler = context.attach_diagnostic_handler(lambda _: True)
    try:
        return stablehlo.deserialize_portable_artifact(context, data)
    except Exception:  # bytecode that is not a portable artifact is read as such
        pass
    finally:
        handler.detach()
    return ir.Module.parse(data)


def _check_nesting(text: str) -> None:
    """Raise ValueError for brackets that are nested too deep for MLIR's parser, which recurses."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += (found[0] in "([{<") - (found[0] in ")]}>")
        if depth > _DEEPEST:
            line = text.count("\n", 0, found.start()) + 1
            raise ValueError(f"brackets are nested deeper than {_DEEPEST} in line {line}")


def _legalize(module: ir.Module) -> None:
    """Expand operations above StableHLO that have no converter."""
    names: set[str] = set()

    def note(op: ir.Operation) -> ir.WalkResult:
        names.add(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    if any(each.startswith("chlo.") and each not in _KEPT for each in names):
        with contextlib.suppress(RuntimeError):
            stablehlo.register_stablehlo_passes()
        text = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
        passmanager.PassManager.parse(text).run(module.operation)
