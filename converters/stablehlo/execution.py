"""Execution of a StableHLO module by XLA on the CPU, with the values between its operations.

Input: a module and arrays by the names of its inputs. Output: arrays by the names of values, and
the operation that computes each. Nothing is converted, and nothing is compared here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend import backend
from jax.extend.mlir import refine_polymorphic_shapes
from jaxlib.mlir import ir

from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.stablehlo.reading import (
    HloModule,
    input_names,
    read,
    result_names,
    value_names,
)
from tvm_nnef.diagnostics import error

_TYPES: Mapping[str, str] = {
    "bool": "i1", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class HloExecution:
    """A StableHLO module that XLA executes; ``source`` is the source that it is read from."""

    source: Any
    module: HloModule
    makers: Mapping[str, tuple[str, str]]
    what: str = "StableHLO operation"

    @property
    def path(self) -> str:
        """The module's name in messages."""
        return self.module.path

    def execute(self, inputs: Mapping[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """Return the wanted values, by name. Raises NnefError if XLA fails.

        The values between operations become results of ``main``, so that XLA keeps them.
        """
        module = read(self.source)
        names = list(dict.fromkeys(wanted))
        arrays = [np.asarray(inputs[name]) for name in input_names(module)]
        with module.module.context, ir.Location.unknown(module.module.context):
            _give(module, names)
            _set_input_types(module, arrays)
            text = str(module.module)
        try:
            found = _executed(text, arrays)
        except (jax.errors.JaxRuntimeError, ValueError, RuntimeError) as cause:
            lines = str(cause).strip().splitlines()
            message = f"XLA cannot run the module: {lines[0] if lines else cause}"
            hint = "compare the routes 'mapped' and 'reference' instead"
            raise error(message, hint=hint, file=self.path) from cause
        return dict(zip(names, found, strict=True))


def open_execution(source: Any) -> HloExecution:
    """Open a module that can be executed. Raises NnefError for one that cannot be read."""
    module = read(source)
    makers = {name: (name, op.operation.name) for op, _, name in value_names(module)}
    ends = module.main.regions[0].blocks[0].operations
    results = list(ends[len(ends) - 1].operands)
    of_value = {result: (name, op.operation.name) for op, result, name in value_names(module)}
    for name, value in zip(result_names(module), results, strict=True):
        makers[name] = of_value.get(value, (name, "func.return"))
    return HloExecution(source, module, makers)


def _give(module: HloModule, wanted: Sequence[str]) -> None:
    """Change ``main`` to return the wanted values."""
    main = module.main
    block = main.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1]
    values = {name: result for _, result, name in value_names(module)}
    values |= dict(zip(input_names(module), block.arguments, strict=True))
    values |= dict(zip(result_names(module), end.operands, strict=True))
    chosen = [values[name] for name in wanted]
    with ir.InsertionPoint(end):
        ir.Operation.create("func.return", operands=chosen)
    end.operation.erase()
    arguments = [each.type for each in block.arguments]
    kinds = ir.FunctionType.get(arguments, [each.type for each in chosen])
    main.attributes["function_type"] = ir.TypeAttr.get(kinds)
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]


def _set_input_types(module: HloModule, arrays: Sequence[Array]) -> None:
    """Replace dynamic dimensions of inputs by those of the arrays; XLA infers the others."""
    types = [str(each.type) for each in module.main.arguments]
    if not any("?" in each for each in types):
        return
    main = module.main
    block = main.regions[0].blocks[0]
    for argument, array in zip(block.arguments, arrays, strict=True):
        element = ir.Type.parse(_TYPES[str(array.dtype)])
        opened, closed = argument.type, ir.RankedTensorType.get(array.shape, element)
        if opened == closed:
            continue
        argument.set_type(closed)
        with ir.InsertionPoint.at_block_begin(block):
            # What reads the input expects an open type until the shapes are refined.
            made = ir.Operation.create("stablehlo.convert", [opened], [argument])
        argument.replace_all_uses_except(made.result, made)
    ends = block.operations[len(block.operations) - 1]
    kinds = ir.FunctionType.get(
        [each.type for each in block.arguments], [each.type for each in ends.operands]
    )
    main.attributes["function_type"] = ir.TypeAttr.get(kinds)


def _executed(text: str, arrays: Sequence[Array]) -> list[Array]:
    client = backend.get_backend("cpu")
    device = client.local_devices()[0]
    options = backend.get_compile_options(num_replicas=1, num_partitions=1)
    # The shapes of the inputs are known: all others follow from them.
    module = refine_polymorphic_shapes(text.encode()) if "?" in text else text.encode()
    program = client.compile_and_load(module, [device], options)
    buffers = [jax.device_put(each, device) for each in arrays]
    results = program.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [np.asarray(each[0]) for each in results]
