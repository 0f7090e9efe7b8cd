"""Names of the outputs of PyTorch models: those that are given, or of what a module returns."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from tvm_nnef.diagnostics import error

_KEYS = {"MappingKey": "key", "GetAttrKey": "name", "SequenceKey": "idx"}
"""Where PyTorch's classes for keys of nested values have the key."""


def name_outputs(graph: Any, program: Any, given: Sequence[str] | None, states: int) -> None:
    """Name the outputs of an exported graph, whose last ones are states.

    Names are the keys of dictionaries and the fields of named tuples and dataclasses. Raises
    NnefError for given names that do not fit.
    """
    count = len(graph.outputs) - states
    if given is None:
        names = _returned(program)[:count]
        # Two outputs called 'x', or one called as an input, keep the names of the exporter.
        taken = Counter([*names, *(each.name for each in graph.inputs)])
        names = [None if name is None or taken[name] > 1 else name for name in names]
    else:
        _check(given, count, {each.name for each in graph.inputs})
        names = list(given)
    chosen = {position: name for position, name in enumerate(names) if name is not None}
    _rename(graph, chosen)
    _restore_inputs(graph, program.graph_signature.user_inputs, chosen.values())


def _check(given: Sequence[str], count: int, inputs: set[str]) -> None:
    is_list = isinstance(given, (list, tuple))
    if not is_list or not all(isinstance(each, str) and each for each in given):
        raise error("'output_names' are not texts", hint="give a list: output_names=['y', 'z']")
    if len(given) != count:
        hint = "give a name for each tensor that the module returns, in order"
        raise error(f"the model has {count} outputs, got {len(given)} names", hint=hint)
    for name in given:
        if name in inputs or list(given).count(name) > 1:
            other = "an input" if name in inputs else "another output"
            raise error(f"the output name '{name}' is that of {other}", hint="give another name")


def _returned(program: Any) -> list[str | None]:
    """The names of the tensors that a program returns, None for those without a name."""
    trees = importlib.import_module("torch.utils._pytree")
    spec = program.call_spec.out_spec
    tensors = [
        each.arg.__class__.__name__ != "ConstantArgument"
        for each in program.graph_signature.output_specs
        if each.kind.name == "USER_OUTPUT"
    ]
    try:
        tree = trees.tree_unflatten(list(range(spec.num_leaves)), spec)
        paths = [path for path, _ in trees.tree_flatten_with_path(tree)[0]]
    except Exception:  # Classes of users may not take numbers.
        return []
    return [
        _joined(path) for path, is_tensor in zip(paths, tensors, strict=False) if is_tensor
    ]  # fmt: skip


def _joined(path: Sequence[Any]) -> str | None:
    """The keys of a path from the first that is a text on."""
    keys = [getattr(each, _KEYS[type(each).__name__]) for each in path]
    first = next((n for n, key in enumerate(keys) if isinstance(key, str) and key), None)
    return None if first is None else ".".join(map(str, keys[first:]))


def _rename(graph: Any, names: dict[int, str]) -> None:
    """Give outputs their names, and other names to other values that have these."""
    ir = importlib.import_module("onnxscript.ir")
    others = [each for node in ir.traversal.RecursiveGraphIterator(graph) for each in node.outputs]
    taken = {each.name for each in (*graph.inputs, *others)} | set(graph.initializers)
    for position in names:
        copy = ir.node("Identity", [graph.outputs[position]])
        graph.append(copy)
        graph.outputs[position] = copy.outputs[0]
    wanted = set(names.values())
    for each in others:
        if each.name in wanted:
            each.name = _unused(each.name, taken | wanted)
            taken.add(each.name)
    for name in wanted & set(graph.initializers):
        value = graph.initializers.pop(name)
        value.name = _unused(name, taken | wanted)
        taken.add(value.name)
        graph.initializers[value.name] = value
    for position, name in names.items():
        graph.outputs[position].name = name


def _restore_inputs(graph: Any, names: Sequence[Any], given: Collection[str]) -> None:
    """Give inputs that are returned their names again, which the exporter gives to copies."""
    copies = {each.name: each for node in graph for each in node.outputs}
    for each in graph.inputs:
        name = each.name.removesuffix("_orig")
        if each.name not in names and name in names and name in copies and name not in given:
            each.name, copies[name].name = name, each.name


def _unused(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
