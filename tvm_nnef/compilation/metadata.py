"""What a compiled library says of itself: a module in, the same with a function ``metadata`` out.

The function takes nothing and returns a JSON object; programs in C++ or Python that load the
library call it. Its members:

- ``inputs`` and ``outputs``: the ports in order, each ``{"name", "shape", "dtype"}`` for a tensor
  and ``{"name", "items"}`` for a pack, whose items are described as tensors are; a pack of dynamic
  length is a tensor with ``"stacked": true``, its items along the first dimension; an extent is a
  number, or a symbol or expression that only a run tells (``docs/metadata.md``);
- ``parameters``: how many of the inputs, the last ones, are weights;
- ``bounds`` and ``checks``: what must hold of the symbols of the inputs;
- ``state``: what ``main`` takes after its inputs and returns after its outputs, described alike,
  by the full names of the variables; what it starts as is what ``initial_state`` returns;
- ``format``: the version of this description;
- ``versions``: of ``tvm_nnef`` and ``tvm``.

``main`` takes and returns the tensors one after the other, packs flattened.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm import relax

from tvm_nnef.diagnostics import error
from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.symbolic import trees
from tvm_nnef.symbolic.trees import Tree
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import Module

FUNCTION = "metadata"
"""The name of the function in an exported library."""


FORMAT = 1
"""The version of the metadata and of the functions that they describe."""


def with_metadata(mod: Module) -> Module:
    """The module with a Relax function that returns its metadata as text."""
    builder = relax.BlockBuilder(mod)
    text = json.dumps(describe(mod))
    with builder.function(FUNCTION, []):
        builder.emit_func_output(compat.string(text))
    return builder.get()


def read_metadata(text: str) -> Mapping[str, Any]:
    """The metadata that the function of a library returned.

    Raises NnefError for a library of another version of this package or of TVM, and for metadata
    in which something is missing.
    """
    try:
        metadata = json.loads(text)
        _check_versions(metadata)
        _check_members(metadata)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as problem:
        cause = f"no '{problem.args[0]}'" if isinstance(problem, KeyError) else str(problem)
        raise error(f"the metadata of the library are damaged: {cause}", hint=_AGAIN) from None
    found: Mapping[str, Any] = metadata
    return found


_AGAIN = "build the library again with this version"


def _check_versions(metadata: Mapping[str, Any]) -> None:
    written = metadata["versions"]
    if metadata.get("format") != FORMAT:
        by = f"tvm_nnef {written['tvm_nnef']} wrote it"
        raise error(f"the library is for another version of tvm_nnef: {by}", hint=_AGAIN)
    ours = compat.version()
    if str(written["tvm"]).split(".")[:2] != ours.split(".")[:2]:
        raise error(f"the library is for TVM {written['tvm']}, this is TVM {ours}", hint=_AGAIN)


def _check_members(metadata: Mapping[str, Any]) -> None:
    """Raises a KeyError, TypeError or ValueError for metadata that are not as `describe` says."""
    ports = [*metadata["inputs"], *metadata["outputs"], *metadata["state"]]
    for tensor in (tensor for port in ports for tensor in port.get("items", [port])):
        if not isinstance(tensor["shape"], list) or not isinstance(tensor["name"], str):
            raise ValueError("the shape or the name of a tensor is of another kind")
        if tensor["dtype"] not in DTYPES:
            raise ValueError(f"unknown dtype '{tensor['dtype']}'")
    for check in metadata["checks"]:
        check["condition"], check["message"], check["place"]
    if not all(isinstance(bound, int) for bound in metadata["bounds"].values()):
        raise ValueError("a bound is not a number")
    int(metadata["parameters"])


def describe(mod: Module) -> dict[str, Any]:
    """The metadata of a module whose function ``main`` takes and gives tensors.

    Ports have the names that lowering left in the attribute ``nnef_ports``; where it is missing,
    inputs are named as the parameters, and outputs ``output_0`` and so on.
    """
    main = mod["main"]
    attributes: Mapping[str, Any] = main.attrs or {}
    ports = json.loads(str(attributes.get("nnef_ports", "{}")))
    state = int(attributes.get("num_state", 0))
    symbols = json.loads(str(attributes.get("nnef_symbols", "{}")))
    inputs = [{"name": str(v.name), **_tensor(v.ty)} for v in main.params]
    kind = main.ret_ty
    results = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
    # The type of a function leaves out the extents that data decide.
    shapes = dict(enumerate(symbols.get("outputs", [])))
    outputs = [{"name": f"output_{n}", **_tensor(r, shapes.get(n))} for n, r in enumerate(results)]
    return {
        "inputs": _grouped(ports.get("inputs", []), inputs[: len(inputs) - state]),
        "outputs": _grouped(ports.get("outputs", []), outputs[: len(outputs) - state]),
        "parameters": max(0, compat.parameter_count(main)),
        "state": _grouped(ports.get("state", []), inputs[len(inputs) - state :]),
        "bounds": symbols.get("bounds", {}),
        "checks": symbols.get("checks", []),
        "format": FORMAT,
        "versions": {"tvm_nnef": _own_version(), "tvm": compat.version()},
    }


def _tensor(kind: Any, shape: list[Tree] | None = None) -> dict[str, Any]:
    if shape is None:
        shape = [*map(trees.tree, kind.shape)]
    return {"shape": shape, "dtype": str(kind.dtype)}


def _grouped(
    ports: Sequence[Mapping[str, Any]], tensors: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Tensors under the names of their ports; those that no port speaks of stay as they are."""
    rest: Iterator[dict[str, Any]] = iter(tensors)
    found: list[dict[str, Any]] = []
    for port in ports:
        name, count = port["name"], port["items"]
        if count is None:
            stacked = {"stacked": True} if port.get("stacked") else {}
            found.append({**next(rest), "name": name, **stacked})
        else:
            items = [{**next(rest), "name": f"{name}_{number}"} for number in range(count)]
            found.append({"name": name, "items": items})
    return [*found, *rest]


def _own_version() -> str:
    try:
        return importlib.metadata.version("tvm-nnef")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
