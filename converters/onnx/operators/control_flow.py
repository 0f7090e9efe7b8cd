"""If, Loop and Scan: subgraphs as blocks, which see the tensors outside.

What is decided before a run leaves no trace: the branch taken, and the steps of a loop that
changes shapes, are in the graph itself.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import decided, size_of
from tvm_nnef.converters.common.steps import results as made_by
from tvm_nnef.converters.common.symbolic import (
    Size,
    decided_by_data,
    is_made_of,
    largest,
    maximum,
    number,
    room,
)
from tvm_nnef.converters.common.tensors import Block, Branch, Loop, Pack, Result, Tensor
from tvm_nnef.converters.common.types import Type, kind
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.growing import (
    MOST_STEPS,
    Body,
    converted_body,
    repetition,
    unchanged_body,
)
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator
from tvm_nnef.converters.onnx.unsupported import Mismatch
from tvm_nnef.converters.onnx.values import Value, as_tensor, as_tensors
from tvm_nnef.diagnostics import Diagnostic, plural

_Block: TypeAlias = "tuple[Builder, list[Tensor]]"
"""The steps of a branch, and its outputs."""


@operator("If")
def branch(node: Node, builder: Builder) -> Sequence[Value]:
    """One of two subgraphs.

    One whose shapes do not fit together, or not what reads the results, is an error in the run if
    it is taken.
    """
    condition = node.input(0)
    bodies = [node.attributes["then_branch"], node.attributes["else_branch"]]
    if condition.value is not None:
        return node.subgraph(bodies[0 if condition.value.reshape(()) else 1], (), builder)
    blocks = _of_equal_ranks(node, _branches(node, bodies, builder), builder)
    inside = {each for inner, _ in blocks for step in inner.steps for each in made_by(step)}
    pairs = list(zip(*(outputs for _, outputs in blocks), strict=True))
    results = [_common(then, otherwise, inside, builder) for then, otherwise in pairs]
    finished = [_yielding(*block, results) for block in blocks]
    builder.steps.append(Branch(condition, finished[0], finished[1], tuple(results)))
    return results


def _branches(node: Node, bodies: Sequence[onnx.GraphProto], builder: Builder) -> list[_Block]:
    """The steps and outputs of both branches."""
    blocks: list[_Block | None] = []
    problems: list[Diagnostic] = []
    for body in bodies:
        try:
            blocks.append(_block(node, body, builder))
        except Mismatch as problem:
            blocks.append(None)
            problems += [each for each in problem.diagnostics if each not in problems]
    (likely, *_) = [*filter(None, blocks), None]
    if likely is None:
        raise Mismatch(problems)
    return [_impossible(likely, problems[0].message, builder) if each is None else each
            for each in blocks]  # fmt: skip


def _of_equal_ranks(node: Node, blocks: Sequence[_Block], builder: Builder) -> list[_Block]:
    """The branches; one with ranks that do not suit what reads the results becomes an error.

    Raises Unconvertible if results differ in dtype, or in rank and both or none are suitable.
    """
    outputs = [outputs for _, outputs in blocks]
    pairs = list(zip(*outputs, strict=True))
    for then, otherwise in pairs:
        if then.dtype != otherwise.dtype:
            raise _differing(then, otherwise)
    differing = [pair for pair in pairs if pair[0].rank != pair[1].rank and not _single(*pair)]
    if not differing:
        return list(blocks)
    suitable = [_suits(node, each) for each in outputs]
    advice = ""
    if all(suitable) and (squeezing := _squeezing(node)) is not None:
        suitable = [number == squeezing for number in range(2)]
        advice = (
            "; convert it for these shapes: 'input_shapes' in Python, '--shape' on the command line"
        )
    if suitable[0] == suitable[1]:
        raise _differing(*differing[0])
    taken = suitable.index(True)
    right, wrong = differing[0][taken], differing[0][1 - taken]
    name = next(filter(None, node.proto.output))
    message = (
        f"'{name}' would have {plural(wrong.rank, 'dimension')}, "
        f"and the model is converted for {right.rank}{advice}"
    )
    error = _impossible(blocks[taken], message, builder)
    return [block if each else error for block, each in zip(blocks, suitable, strict=True)]


def _squeezing(node: Node) -> int | None:
    """The branch that removes a dimension of 1, where the other one keeps it: ``x.squeeze(axis)``.

    TorchScript writes that for a dynamic dimension. The code around it expects a size of 1.
    """
    bodies = [node.attributes[name] for name in ("then_branch", "else_branch")]
    kinds = [{each.op_type for each in body.node} - {"Constant"} for body in bodies]
    if {"Squeeze"} not in kinds or {"Identity"} not in kinds:
        return None
    return kinds.index({"Squeeze"})


def _suits(node: Node, outputs: Sequence[Tensor]) -> bool:
    """Whether results have the declared ranks, and what comes after the node accepts them."""
    ranks = [node.rank(position) for position in range(len(outputs))]
    as_declared = all(rank in (None, each.rank) for rank, each in zip(ranks, outputs, strict=True))
    return as_declared and node.accepts([Type(each.dtype, each.shape) for each in outputs])


def _impossible(likely: _Block, problem: str, builder: Builder) -> _Block:
    """A branch that is an error in the run, with outputs like those of the other branch."""
    inner = Builder(builder)
    one = inner.call("math.iden", inner.constant(np.ones(1, bool)))
    positions = decided(inner.call("layout.nonzero", one, as_type="int32"), (1,), 1, 1, inner)
    message = f"the branch that is taken is wrong for these input shapes: {problem}"
    inside = {each for step in likely[0].steps for each in made_by(step)}
    outputs = []
    for each in likely[1]:
        shape = tuple(0 if is_made_of(size, inside) else size for size in each.shape)
        zeros = inner.full(_zero(each.dtype), shape, each.dtype)
        outputs.append(inner.call("extra.impossible", zeros, positions, message=message))
    return inner, outputs


def _yielding(inner: Builder, outputs: Sequence[Tensor], results: Sequence[Tensor]) -> Block:
    """A branch that yields its outputs; one element gets the rank of the result."""
    yields = tuple(
        each if each.rank == result.rank else inner.reshape(each, result.shape)
        for each, result in zip(outputs, results, strict=True)
    )
    return Block(tuple(inner.steps), yields)


def _common(then: Tensor, otherwise: Tensor, inside: Container[object], builder: Builder) -> Tensor:
    """The result of an If; a dimension in which the branches differ is data-dependent.

    One element may have any rank. ``inside`` are the tensors that the branches make.
    """
    if then.rank != otherwise.rank:
        return Tensor(then.dtype, max(then.shape, otherwise.shape, key=len))
    result = Tensor(then.dtype, then.shape)
    result.shape = tuple(
        one
        if one == other and not is_made_of(one, inside)
        else decided_by_data(result, axis, max(largest(one), largest(other)), next(builder.numbers))
        for axis, (one, other) in enumerate(zip(then.shape, otherwise.shape, strict=True))
    )
    return result


def _single(then: Tensor, otherwise: Tensor) -> bool:
    """Whether both results have one element, which may have any rank."""
    return then.size == otherwise.size == 1


def _differing(then: Tensor, otherwise: Tensor) -> Unconvertible:
    dynamic = not all(isinstance(each, int) for each in (*then.shape, *otherwise.shape))
    return Unconvertible(
        f"its branches give {then.dtype}[{', '.join(map(str, then.shape))}] and "
        f"{otherwise.dtype}[{', '.join(map(str, otherwise.shape))}]",
        "give the shapes of the inputs, which may decide the condition: "
        "convert(…, input_shapes={…}), or declare the shape of the result in the model (value_info)"
        if dynamic
        else "make the branches agree, or freeze the condition to an initializer",
    )


def _block(node: Node, body: onnx.GraphProto, builder: Builder) -> _Block:
    inner = Builder(builder)
    outputs = as_tensors(node.subgraph(body, (), inner), inner)
    return inner, [own(each, inner) for each in outputs]


def own(tensor: Tensor, builder: Builder) -> Tensor:
    """A tensor that a block may yield: one that it makes, or a copy of a constant."""
    known = tensor.value is not None or tensor.sizes is not None
    return builder.call("math.iden", tensor) if known else tensor


ENDLESS = 2**31 - 2
"""A count of steps beyond this one is none."""
_MOST_UNROLLED = 1 << 13
"""Nodes that a loop may become when its steps are written out."""


@operator("Loop")
def loop(node: Node, builder: Builder) -> Sequence[Value | None]:
    """A subgraph run again and again, as a count and a condition say."""
    count, go_on = node.optional(0), node.optional(1)
    if count is not None and count.value is not None and int(count.value.reshape(())) > ENDLESS:
        # What exporters write where only the condition ends a loop.
        count = None
    state = [
        node.sequences[position]
        if position in node.sequences
        else builder.computed(node.input(position))
        for position in range(2, len(node.inputs))
    ]
    body = node.attributes["body"]
    steps = None if count is None else node.sizes(0)
    if steps:
        always = go_on is None or (go_on.value is not None and bool(go_on.value.reshape(())))
        if always and _always_true(body, node.proto.input[1]):
            return _counted(node, maximum(steps[0], 0), state, builder)
    return _open(node, count, go_on, state, builder)


def _always_true(body: onnx.GraphProto, first: str) -> bool:
    """Whether a body's condition is its input, what was ``first`` there, or constantly true."""
    nodes = {name: each for each in body.node for name in each.output}
    name = body.output[0].name
    while name in nodes and nodes[name].op_type in ("Identity", "Cast"):
        name = nodes[name].input[0]
    if name in (body.input[1].name, first):
        return True
    for each in body.initializer:
        if each.name == name:
            return bool(numpy_helper.to_array(each).reshape(()))
    if name in nodes and nodes[name].op_type == "Constant":
        found = nodes[name].attribute[0]
        return found.name == "value" and bool(numpy_helper.to_array(found.t).reshape(()))
    return False


def _counted(node: Node, steps: Size, state: Sequence[Value], builder: Builder) -> Sequence[Value]:
    """A loop of known length; a short one that changes the shapes that it carries is unrolled."""
    if steps == 0:
        return _no_steps(node, state, builder)
    true = builder.constant(True)
    body: Body | None
    if isinstance(steps, int) and _unrolled_nodes(node, steps) <= _MOST_UNROLLED:
        body = unchanged_body(node, state, true, steps, builder)
        if body is None:
            return _unrolled(node, steps, state, builder)
    else:
        body = converted_body(repetition(node, state, true, steps, None, builder), builder)
    inner = body.builder
    yields = tuple(own(each, inner) for each in (*body.yields, *body.scanned))
    finals = tuple(Tensor(each.dtype, each.shape) for each in body.inside)
    packs = tuple(Pack(each.dtype, each.shape, steps) for each in yields[len(finals) :])
    pairs = tuple(zip(body.inside, body.outside, strict=True))
    results: tuple[Result, ...] = (*finals, *packs)
    block = Block(tuple(inner.steps), yields)
    builder.steps.append(Loop(block, pairs, (), body.index, steps, None, results))
    carried = body.after(finals, steps, builder)
    return [*carried, *(_stacked(pack, 0, builder) for pack in packs)]


def _stacked(pack: Pack, axis: int, builder: Builder) -> Tensor:
    shape = (*pack.shape[:axis], pack.length, *pack.shape[axis:])
    return builder.call("layout.stack", pack, as_type=pack.dtype, as_shape=shape, axis=axis)


def _no_steps(node: Node, state: Sequence[Value], builder: Builder) -> list[Value]:
    found = list(state)
    for position in range(len(state), len(node.proto.output)):
        found.append(builder.constant(np.zeros(node.shape(position)), node.dtype(position)))
    return found


def _unrolled(node: Node, steps: int, state: Sequence[Value], builder: Builder) -> list[Value]:
    """The steps one after the other in the graph itself."""
    carried, rows = list(state), []
    for step in range(steps):
        index, true = builder.constant(np.array(step, np.int64)), builder.constant(True)
        outputs = node.subgraph(node.attributes["body"], [index, true, *carried], builder)[1:]
        carried = outputs[: len(state)]
        rows.append(as_tensors(outputs[len(state) :], builder))
    return [*carried, *(as_tensor(column, builder) for column in zip(*rows, strict=True))]


def _unrolled_nodes(node: Node, steps: int) -> int:
    """The number of nodes that a loop becomes if its steps are written out."""
    return steps * len(node.attributes["body"].node)


def _open(
    node: Node,
    count: Tensor | None,
    go_on: Tensor | None,
    state: Sequence[Value],
    builder: Builder,
) -> list[Value]:
    """A loop of data-dependent length; its results of each step are gathered in a tensor.

    How long that is the model declares, or the steps are counted, up to a bound.
    """
    condition = Tensor("bool", (), node.attributes["body"].input[1].name)
    body = converted_body(repetition(node, state, condition, None, _most(node), builder), builder)
    inner, index, scanned = body.builder, body.index, body.scanned
    most, first = body.growth.steps, len(state)
    buffers = [
        Tensor(each.dtype, (_declared_room(node, position) or most, *each.shape))
        for position, each in enumerate(scanned, first)
    ]
    filled = [
        inner.call("onnx.put", buffer, each, index)
        for buffer, each in zip(buffers, scanned, strict=True)
    ]
    steps, counted = Tensor("int64", ()), inner.binary("math.add", index, 1)
    going = inner.reshape(body.outputs[0], ())
    yields = tuple(own(each, inner) for each in (going, *body.yields, *filled, counted))
    begin = builder.constant(True) if go_on is None else builder.reshape(go_on, ())
    empty = [builder.full(_zero(each.dtype), each.shape, each.dtype) for each in buffers]
    inside = (condition, *body.inside, *buffers, steps)
    outside = (begin, *body.outside, *empty, builder.constant(np.array(0, np.int64)))
    finals = [Tensor(each.dtype, each.shape) for each in inside[1:]]
    limit = None if count is None else builder.reshape(builder.computed(count), ())
    pairs = tuple(zip(inside, outside, strict=True))
    block = Block(tuple(inner.steps), yields)
    builder.steps.append(Loop(block, pairs, (), index, limit, condition, (None, *finals)))
    made = size_of(finals[-1], room(most), builder)
    carried, gathered = finals[: len(body.inside)], finals[len(body.inside) : -1]
    return [
        *body.after(carried, made, builder),
        *(buffer if _declared_room(node, position) else builder.slice(buffer, 0, 0, made)
          for position, buffer in enumerate(gathered, first)),
    ]  # fmt: skip


def _most(node: Node) -> Size | None:
    """The maximum of the number of steps, None if it is known only at run time or large."""
    count = node.sizes(0)
    most = room(count[0]) if count else None
    return None if isinstance(most, int) and most > MOST_STEPS else most


def _declared_room(node: Node, position: int) -> Size | None:
    """The length of a scan output if the model declares its shape."""
    declared = node.known_shape(position)
    return None if declared is None else declared[0]


def _zero(dtype: str) -> bool | int | float:
    return {"bool": False, "real": 0.0, "int": 0}[kind(dtype)]


@operator("Scan", since=8)
def scan_8(node: Node, builder: Builder) -> Sequence[Tensor]:
    """A scan of each item of a batch."""
    if node.optional(0) is not None:
        raise Unconvertible(
            "sequences of different lengths cannot be converted", "use Scan of opset 9"
        )
    inputs = [node.input(position) for position in range(1, len(node.inputs))]
    batch = number(inputs[0].shape[0])
    if (nodes := _unrolled_nodes(node, batch)) > _MOST_UNROLLED:
        reason = f"its {batch} steps become {nodes} nodes; the limit is {_MOST_UNROLLED}"
        raise Unconvertible(reason, "use a smaller batch")
    rows = []
    for item in range(batch):
        own_inputs = [
            builder.squeeze(builder.slice(each, 0, item, item + 1), [0]) for each in inputs
        ]
        found = _scan(node, own_inputs, node.integers("directions"), builder)
        rows.append([builder.unsqueeze(each, [0]) for each in found])
    return [builder.concat(column, 0) for column in zip(*rows, strict=True)]


@operator("Scan", since=9)
def scan_9(node: Node, builder: Builder) -> Sequence[Tensor]:
    """A subgraph run for each slice of its inputs, with a state."""
    inputs = [node.input(position) for position in range(len(node.inputs))]
    return _scan(node, inputs, node.integers("scan_input_directions"), builder)


def _scan(
    node: Node, inputs: Sequence[Tensor], directions: Sequence[int] | None, builder: Builder
) -> list[Tensor]:
    body, count = node.attributes["body"], node.integer("num_scan_inputs")
    state = [builder.computed(each) for each in inputs[: len(inputs) - count]]
    scanned = inputs[len(inputs) - count :]
    axes = node.integers("scan_input_axes") or [0] * count
    backward = directions or [0] * count
    length = scanned[0].shape[axes[0]]
    packs: list[Pack] = []
    items: list[Tensor] = []
    for x, axis, turned in zip(scanned, axes, backward, strict=True):
        position = axis % x.rank
        if turned:
            x = builder.slice(x, position, length - 1, -1, -1)
        shape = (*x.shape[:position], *x.shape[position + 1 :])
        packs.append(Pack(x.dtype, shape, length))
        builder.add("layout.unstack", (x,), (packs[-1],), axis=position)
        items.append(Tensor(x.dtype, shape, body.input[len(state) + len(items)].name))
    carried = [
        Tensor(each.dtype, each.shape, value.name)
        for each, value in zip(state, body.input, strict=False)
    ]
    inner = Builder(builder)
    outputs = as_tensors(node.subgraph(body, [*carried, *items], inner), inner)
    for old, new in zip(carried, outputs, strict=False):
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            shapes = f"{list(map(str, old.shape))} and gives {list(map(str, new.shape))}"
            raise Invalid(f"it carries '{old.source}' as {shapes}", mismatch=True)
    yields = tuple(own(each, inner) for each in outputs)
    finals = [Tensor(each.dtype, each.shape) for each in carried]
    results = [Pack(each.dtype, each.shape, length) for each in yields[len(carried) :]]
    builder.steps.append(
        Loop(
            Block(tuple(inner.steps), yields), tuple(zip(carried, state, strict=True)),
            tuple(zip(items, packs, strict=True)), None, None, None, (*finals, *results),
        )
    )  # fmt: skip
    return [*finals, *_gathered(node, results, builder)]


def _gathered(node: Node, packs: Sequence[Pack], builder: Builder) -> list[Tensor]:
    axes = node.integers("scan_output_axes") or [0] * len(packs)
    turned = node.integers("scan_output_directions") or [0] * len(packs)
    found = []
    for pack, axis, backward in zip(packs, axes, turned, strict=True):
        position = axis % (len(pack.shape) + 1)
        stacked = _stacked(pack, position, builder)
        if backward:
            stacked = builder.slice(stacked, position, pack.length - 1, -1, -1)
        found.append(stacked)
    return found
