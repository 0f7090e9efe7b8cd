"""Metadata of a compiled library: a module in, the same with a function ``metadata`` out.

The function takes nothing and returns a JSON object; programs in C++ or Python that load the
library call it. Its members:

- ``inputs`` and ``outputs``: the ports in order, each ``{"name", "shape", "dtype"}`` for a tensor
  and ``{"name", "items"}`` for a pack, whose items are described as tensors are; a pack of dynamic
  length is a tensor with ``"stacked": true``, its items along the first dimension; a dimension is a
  number, or a symbol or expression known only at run time (``docs/metadata.md``); a tensor of few
  bits also has ``"held"``, the dtype of its bytes;
  ``source`` is its name in the model that this one was converted from, if that is another one, and
  ``"default": true`` says that ``initial_state`` returns a value for the input, after the state;
- ``fixed_inputs``: inputs of the source that the conversion made constants; left out if none;
- ``attributes``: by the name of an input, for each dimension the graph attribute that is its size,
  or null; left out if there are none;
- ``parameters``: how many of the inputs, the last ones, are weights;
- ``bounds`` and ``checks``: what must hold of the symbols of the inputs;
- ``state``: what ``main`` takes after its inputs and returns after its outputs, described alike,
  by the full names of the variables; what it starts as is what ``initial_state`` returns;
- ``labels`` of the classes of the first output, and ``images``: how inputs are made from images, as
  in ``docs/model-json.md``;
- ``weights``: of the parameter file, None if there is none: its size in ``bytes``, the digest
  ``sha256`` of what follows its header, the ``tensors`` in it, each with its ``offset``, and the
  ``functions`` that take all of these, in an array, as their last argument;
- ``target``: the machine that the code is for: ``device`` (``cpu``, ``cuda``) and its ``arch``,
  the ``code_forms`` of code for CUDA, ``triple``, ``cpu`` and the CPU ``features`` without which it
  does not run;
- ``format``: the version of this description;
- ``versions``: of ``tvm_nnef``, ``tvm`` and ``tvm_ffi``.

``main`` takes and returns the tensors one after the other, packs flattened.
:mod:`tvm_nnef.executable.metadata` reads all that.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from tvm_nnef.compilation.target import native
from tvm_nnef.executable.metadata import FORMAT
from tvm_nnef.support.host_machine import architecture_of, checkable_features, present_features
from tvm_nnef.symbolic import trees
from tvm_nnef.symbolic.trees import Tree
from tvm_nnef.tvm_support import build, compat, runtime, traversal
from tvm_nnef.tvm_support.compat import Module, Target, is_cpu
from tvm_nnef.tvm_support.function_attributes import DESCRIPTION, METADATA, PORTS, STATE, SYMBOLS
from tvm_nnef.version import __version__


def with_metadata(mod: Module, target: Target, code_forms: Sequence[str] = ()) -> Module:
    """The module for a target with a Relax function that returns its metadata as text.

    ``code_forms`` are those of its code for CUDA.
    """
    builder = relax.BlockBuilder(mod)
    described = describe(mod, target)
    if code_forms:
        described["target"]["code_forms"] = list(code_forms)
    text = json.dumps(described)
    with builder.function(METADATA, []):
        builder.emit_func_output(compat.string(text))
    return builder.get()


def with_members(mod: Module, members: Mapping[str, Any]) -> Module:
    """The module whose metadata, if it has some, have more members."""
    found = [v for v in mod.get_global_vars() if str(v.name_hint) == METADATA]
    if not found:
        return mod
    text = compat.string(json.dumps({**read_members(mod), **members}))
    changed = traversal.mapped(mod[METADATA], (tvm.ir.StringImm, lambda _: text))
    return compat.update_functions(mod, {METADATA: changed})


def bounds_of(mod: Module) -> Mapping[str, int]:
    """The bounds of the symbols that have one, if a module has metadata."""
    has_members = any(str(v.name_hint) == METADATA for v in mod.get_global_vars())
    bounds: Mapping[str, int] = read_members(mod)["bounds"] if has_members else {}
    return bounds


def read_members(mod: Module) -> dict[str, Any]:
    """The metadata that the function of a module returns."""
    texts: list[str] = []
    traversal.walk(mod[METADATA], (tvm.ir.StringImm, lambda node: texts.append(str(node.value))))
    members: dict[str, Any] = json.loads(texts[0])
    return members


def describe(mod: Module, target: Target) -> dict[str, Any]:
    """The metadata of a module for a target, whose function ``main`` takes and returns tensors.

    Ports have the names that lowering left in the attribute ``nnef_ports``; where it is missing,
    inputs are named as the parameters, and outputs ``output_0`` and so on.
    """
    main = mod["main"]
    attrs: Mapping[str, Any] = main.attrs or {}
    ports = json.loads(str(attrs.get(PORTS, "{}")))
    state = int(attrs.get(STATE, 0))
    symbols = json.loads(str(attrs.get(SYMBOLS, "{}")))
    description = json.loads(str(attrs.get(DESCRIPTION, "{}")))
    inputs = [{"name": str(v.name), **_tensor(v.ty)} for v in main.params]
    kind = main.ret_ty
    results = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
    # The type of a function leaves out data-dependent dimensions.
    shapes = dict(enumerate(symbols.get("outputs", [])))
    outputs = [{"name": f"output_{n}", **_tensor(r, shapes.get(n))} for n, r in enumerate(results)]
    named = ((port["name"], port.get("attributes")) for port in ports.get("inputs", []))
    attributes = {name: sizes for name, sizes in named if sizes}
    return {
        "inputs": _grouped(ports.get("inputs", []), inputs[: len(inputs) - state]),
        "outputs": _grouped(ports.get("outputs", []), outputs[: len(outputs) - state]),
        **({"attributes": attributes} if attributes else {}),
        **({"fixed_inputs": ports["fixed_inputs"]} if "fixed_inputs" in ports else {}),
        "parameters": max(0, compat.parameter_count(main)),
        "state": _grouped(ports.get("state", []), inputs[len(inputs) - state :]),
        "bounds": symbols.get("bounds", {}),
        "checks": symbols.get("checks", []),
        "labels": description.get("labels", []),
        "images": description.get("inputs", {}),
        "weights": None,
        "target": _described(target),
        "format": FORMAT,
        "versions": {
            "tvm_nnef": __version__,
            "tvm": runtime.version(),
            "tvm_ffi": runtime.ffi_version(),
        },
    }


def _described(target: Target) -> dict[str, Any]:
    """The machine that code for a target needs."""
    host = build.host_of(target)
    triple, features = build.target_features(host)
    return {
        "device": "cpu" if is_cpu(target) else str(target.kind.name),
        **({"arch": str(target.attrs["arch"])} if "arch" in target.attrs else {}),
        "triple": triple,
        "cpu": str(host.attrs.get("mcpu", "generic")),
        "features": [
            name
            for name in checkable_features(architecture_of(triple), features)
            if name not in _hidden_features()
        ],
    }


@functools.cache
def _hidden_features() -> frozenset[str]:
    """The CPU features of this machine that its operating system is too old to list.

    A library that needs them would be refused on the machine that built it.
    """
    present = present_features()
    return frozenset() if present is None else build.target_features(native())[1] - present


def _tensor(kind: Any, shape: list[Tree] | None = None) -> dict[str, Any]:
    if shape is None:
        shape = [*map(trees.tree, kind.shape)]
    return {"shape": shape, "dtype": str(kind.dtype)}


def _declared(tensor: dict[str, Any], dtype: str | None) -> dict[str, Any]:
    """A tensor under its dtype in the model; of few bits, the module has the bytes."""
    if dtype in (None, tensor["dtype"]):
        return tensor
    return {**tensor, "dtype": dtype, "held": tensor["dtype"]}


def _grouped(
    ports: Sequence[Mapping[str, Any]], tensors: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Tensors under the names of their ports; those that no port speaks of stay as they are."""
    rest: Iterator[dict[str, Any]] = iter(tensors)
    found: list[dict[str, Any]] = []
    for port in ports:
        name, count = port["name"], port["items"]
        more = {key: port[key] for key in ("stacked", "source", "default") if key in port}
        dtypes = port.get("dtypes") or [None] * (1 if count is None else count)
        members = [_declared(next(rest), dtype) for dtype in dtypes]
        if count is None:
            found.append({**members[0], "name": name, **more})
        else:
            items = [{**each, "name": f"{name}_{n}"} for n, each in enumerate(members)]
            found.append({"name": name, "items": items, **more})
    return [*found, *rest]
