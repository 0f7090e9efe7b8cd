"""Loops that append to a sequence in each step: a scan output instead of the sequence.

A Loop node in, the same loop without sequences out. Nothing is converted here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import onnx

from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.inner_graphs import inner_graphs

_HINT = "append one item to an empty sequence in each step, or use scan outputs"


def with_scan_outputs(
    loop: onnx.NodeProto, sequences: Container[str], empty: Container[str]
) -> tuple[onnx.NodeProto, dict[str, str]]:
    """A loop whose ``sequences`` have become scan outputs, and their names by those of sequences.

    Raises Unconvertible if a loop does anything else with a sequence than to append to it.
    """
    found = onnx.NodeProto()
    found.CopyFrom(loop)
    body = next(each.g for each in found.attribute if each.name == "body")
    count = len(loop.input) - 2
    positions = [position for position in range(count) if loop.input[2 + position] in sequences]
    items = []
    for position in positions:
        if loop.input[2 + position] not in empty:
            raise Unconvertible("it appends to a sequence that has items", _HINT)
        items.append(_item(body, body.input[2 + position].name, body.output[1 + position].name))
    for position in reversed(positions):
        del found.input[2 + position], found.output[position]
        del body.input[2 + position], body.output[1 + position]
    names = {loop.output[position]: f"{loop.output[position]}/items" for position in positions}
    for item, name in zip(items, names.values(), strict=True):
        body.node.append(onnx.helper.make_node("Identity", [item], [name]))
        body.output.append(onnx.helper.make_value_info(name, onnx.TypeProto()))
        found.output.append(name)
    return found, names


def _item(body: onnx.GraphProto, state: str, result: str) -> str:
    """Return the value that a body appends to a sequence, and remove the node that appends it."""
    readers = [node for node in body.node if state in _reads(node)]
    if len(readers) != 1 or readers[0].op_type != "SequenceInsert" or len(readers[0].input) != 2:
        raise Unconvertible("it reads a sequence that it makes", _HINT)
    (insertion,) = readers
    if insertion.output[0] != result:
        raise Unconvertible("it appends more than one item in a step", _HINT)
    item = str(insertion.input[1])
    body.node.remove(insertion)
    return item


def _reads(node: onnx.NodeProto) -> Iterable[str]:
    yield from node.input
    for graph in inner_graphs(node):
        for inner in graph.node:
            yield from _reads(inner)
