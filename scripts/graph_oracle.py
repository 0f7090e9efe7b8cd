"""Whether a compiled model gives what ONNX Runtime gives, and the smallest graph where it does not.

The program is exactly the one that ``build`` makes, on both routes, which share one composed graph.
ONNX Runtime does not optimize.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from random_graphs import DYNAMIC, Graph, Value, model_of

import tvm_nnef
from tvm_nnef.lower import lower

ROUTES = ("mapped", "formula")
TOLERANCE = 1e-3
"""Of the largest element of an output: errors of thirty nodes add up, and defects are larger."""

Feeds = Mapping[str, np.ndarray]


class Unjudged(Exception):
    """ONNX Runtime does not run the graph, or its results are not finite numbers."""


def expected(proto: onnx.ModelProto, feeds: Sequence[Feeds]) -> list[list[np.ndarray]]:
    """The outputs of ONNX Runtime for each set of inputs, all of them finite."""
    found = _outputs(proto, feeds)
    for array in (each for outputs in found for each in outputs):
        # The maximum of a window that is all padding is the lowest number there.
        if array.dtype.kind == "f" and not (np.abs(array) < np.finfo(array.dtype).max).all():
            raise Unjudged("the results are not finite")
    return found


def _outputs(proto: onnx.ModelProto, feeds: Sequence[Feeds]) -> list[list[np.ndarray]]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        names = {each.name for each in session.get_inputs()}
        return [
            session.run(None, {name: array for name, array in each.items() if name in names})
            for each in feeds
        ]
    except Exception as problem:  # each kind of failure is its own class there
        raise Unjudged(f"{type(problem).__name__}: {problem}"[:300]) from problem


def differences(
    proto: onnx.ModelProto, feeds: Sequence[Feeds], routes: Sequence[str] = ROUTES
) -> dict[str, str]:
    """Return the errors of the compiled model by route; empty if it agrees with ONNX Runtime."""
    wanted = expected(proto, feeds)
    try:
        bounds = {name: max(DYNAMIC.get(name, (64,))) for name in _dynamic(proto)}
        is_bounded = len(proto.graph.node) % 2 == 0  # One half of the graphs.
        model = tvm_nnef.convert(proto, bounds=bounds if is_bounded else {})
        graph = tvm_nnef.compose(model)
    except Exception as problem:  # a rejected graph is a finding as well
        return dict.fromkeys(routes, _shown(problem))
    names = [each.name for each in proto.graph.input]
    inputs = [[arrays[name] for name in names] for arrays in feeds]
    outputs = [each.name for each in proto.graph.output]
    found = {}
    for route in routes:
        try:
            module = lower(graph, machine_types=graph.machine_types, variables=model.variables,
                           route=route)  # fmt: skip
            text = _disagreement(tvm_nnef.build(module, progress=False), inputs, wanted, outputs)
        except Exception as problem:
            text = _shown(problem)
        if text:
            found[route] = text
    return found


def _shown(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:1500]


def _disagreement(
    compiled: tvm_nnef.Executable,
    inputs: Sequence[Sequence[np.ndarray]],
    wanted: Sequence[Sequence[np.ndarray]],
    names: Sequence[str],
) -> str:
    for run, (arrays, outputs) in enumerate(zip(inputs, wanted, strict=True)):
        for name, ours, theirs in zip(names, compiled(*arrays), outputs, strict=True):
            text = _differs(np.asarray(ours), theirs)
            if text:
                return f"output '{name}', run {run}: {text}"
    return ""


def _dynamic(proto: onnx.ModelProto) -> set[str]:
    dims = (dim for each in proto.graph.input for dim in each.type.tensor_type.shape.dim)
    return {dim.dim_param for dim in dims if dim.dim_param}


def _differs(ours: np.ndarray, theirs: np.ndarray) -> str:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    if theirs.dtype.kind != "f":
        count = int((ours != theirs).sum())
        return f"{count} of {ours.size} elements differ" if count else ""
    if not theirs.size:
        return ""
    error = float(np.abs(ours.astype(np.float64) - theirs).max())
    limit = TOLERANCE * max(1.0, float(np.abs(theirs).max()))
    return "" if error <= limit else f"error {error:.3g}, and {limit:.3g} is allowed"


def judge(graph: Graph, routes: Sequence[str] = ROUTES) -> dict[str, str]:
    """Return the errors by route; empty if there are none."""
    return differences(graph.proto(), [graph.feeds(run) for run in range(graph.runs)], routes)


def minimized(graph: Graph, fails: Callable[[onnx.ModelProto, Sequence[Feeds]], bool]) -> tuple[
    onnx.ModelProto, list[dict[str, np.ndarray]]
]:  # fmt: skip
    """The smallest part of a graph that still fails, with its inputs.

    One output is kept; then values become inputs, from the last one backwards, and nodes before
    them are dropped, as long as it fails.
    """
    feeds: list[dict[str, np.ndarray]] = [graph.feeds(run) for run in range(graph.runs)]
    outputs, cut = list(graph.outputs()), list[Value](graph.inputs)
    values = _inner(graph, feeds)

    def part(inputs: Sequence[Value], wanted: Sequence[Value]) -> onnx.ModelProto:
        names, nodes = {each.name for each in wanted}, []
        given = {each.name for each in inputs}
        for node in reversed(graph.nodes):
            if any(name in names and name not in given for name in node.output):
                nodes.append(node)
                names.update(node.input)
        used = [each for each in inputs if each.name in names]
        return model_of(nodes[::-1], used, wanted, graph.constants, graph.opset)

    def failing(inputs: Sequence[Value], wanted: Sequence[Value]) -> bool:
        return fails(part(inputs, wanted), values)

    def attempt(inputs: Sequence[Value], wanted: Sequence[Value]) -> bool:
        try:
            return failing(inputs, wanted)
        except Unjudged:
            return False

    outputs = next(([each] for each in outputs if attempt(cut, [each])), outputs)
    order = {name: position for position, node in enumerate(graph.nodes) for name in node.output}
    changed = True
    while changed:
        changed = False
        nodes = part(cut, outputs).graph.node
        for name in sorted({name for node in nodes for name in node.output}, key=order.__getitem__,
                           reverse=True):  # fmt: skip
            if name in {each.name for each in (*outputs, *cut)} or name not in values[0]:
                continue
            wanted = [*cut, graph.known[name]]
            if len(part(wanted, outputs).graph.node) < len(nodes) and attempt(wanted, outputs):
                cut, changed = wanted, True
                break
        for name in [each for node in nodes for each in node.output] if not changed else ():
            # An inner value as the output: what follows it does not matter.
            wanted = [graph.known[name]]
            if len(part(cut, wanted).graph.node) < len(nodes) and attempt(cut, wanted):
                outputs, changed = wanted, True
                break
    return part(cut, outputs), values


def _inner(graph: Graph, feeds: Sequence[Feeds]) -> list[dict[str, np.ndarray]]:
    """All values of a graph, for each set of inputs."""
    values = [graph.known[name] for node in graph.nodes for name in node.output]
    proto = model_of(graph.nodes, graph.inputs, values, graph.constants, graph.opset)
    names = [each.name for each in values]
    found = _outputs(proto, feeds)
    return [{**given, **dict(zip(names, outputs, strict=True))}
            for given, outputs in zip(feeds, found, strict=True)]  # fmt: skip
