"""Activations quantized by the ranges that a run on calibration inputs shows.

Input: a model, and inputs. Output: the model with codes of weights, biases and activations, and a
report of the errors by operator. The model is compiled with the tensors as outputs whose ranges
are wanted, and the operators a second time, on operands that are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_nnef.api.building import composed_for
from tvm_nnef.arguments.inputs import bind_inputs, default_values
from tvm_nnef.compilation.pipeline import build_module
from tvm_nnef.composition.graphs import find_graph
from tvm_nnef.diagnostics import NnefError, Note, error
from tvm_nnef.graph.excerpt import excerpt
from tvm_nnef.graph.nodes import Graph, Port, every_tensor, flatten
from tvm_nnef.graph.observation import observing
from tvm_nnef.lower import lower
from tvm_nnef.model.model import Model
from tvm_nnef.model.options import Composing
from tvm_nnef.quantization.blocks import Blocks, quantized_bias, quantized_by_output
from tvm_nnef.quantization.contractions import Contraction, contractions
from tvm_nnef.quantization.kept import KeepFloat, named, names_of, reasons
from tvm_nnef.quantization.kinds import FOR_WEIGHTS, Activations, Method
from tvm_nnef.quantization.ranges import Array, Codes, Observed, codes_of
from tvm_nnef.quantization.report import QuantizationReport, QuantizedOperator
from tvm_nnef.quantization.rewriting import with_codes
from tvm_nnef.support.progress import Report as Progress

_KEPT = 1 << 28
"""The bytes of tensors that are kept to compute errors: those of the first input at least."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The quantization of activations."""

    activations: Activations
    method: Method
    percentile: float
    keep_float: KeepFloat


def calibrated(
    model: Model,
    composing: Composing,
    data: Iterable[Any],
    wanted: Calibration,
    progress: Progress,
) -> Model:
    """Return the model with its convolutions and products on codes, and a report.

    Raises NnefError if there are no inputs, if one does not fit, if a tensor is not finite, and if
    there is nothing to quantize.
    """
    total = len(data) if isinstance(data, Sized) else 0
    runs: _Runs | None = None
    for number, item in enumerate(data):
        inputs = tuple(item) if isinstance(item, (tuple, list)) else (item,)
        progress("calibrating", number, max(total, number + 1))
        try:
            if runs is None:
                runs = _Runs(model, composing, composed_for(model, inputs, composing), wanted)
            runs.add(inputs)
        except NnefError as problem:
            note = Note(f"this is input {number + 1} of the calibration")
            raise problem.with_note(note) from problem.__cause__
    if runs is None:
        hint = "give some dozens of inputs such as the model will get"
        raise error("there are no inputs for the calibration", hint=hint)
    return _quantized(model, runs, wanted, progress)


class _Runs:
    """Runs of a model, and what they show of the tensors of its contractions."""

    def __init__(
        self, model: Model, composing: Composing, graph: Graph, wanted: Calibration
    ) -> None:
        """Take the graph of the first input; NnefError if it has nothing to quantize."""
        self.graph, self.contractions = graph, contractions(graph)
        if all(each.stays for each in self.contractions):
            hint = "convolutions and products with variables as weights can be quantized"
            reasons = {f"{each.result.name}: {each.stays}" for each in self.contractions}
            notes = [Note(reason) for reason in sorted(reasons)]
            raise error("there is no operator to quantize", hint=hint, notes=notes, file=model.path)
        definition = find_graph(model.program, composing.graph)
        if definition.quantizations:
            hint = "remove its block '@quantize', or quantize the weights alone"
            raise error("the graph is quantized already", hint=hint, file=model.path)
        names = {
            each.result.name: names_of(model, graph.name, each.result.name, [each.node.operator])
            for each in self.contractions
        }
        self.kept_real = named(wanted.keep_float, names, "operator")
        self._model, self._composing = model, composing
        used = [each for each in self.contractions if not each.stays]
        self._names = {t.name for each in used for t in (each.root, each.data, each.result)}
        with_histogram = wanted.method != "minmax"
        self.observed = {each.root.name: Observed(with_histogram) for each in used}
        self.kept: list[dict[str, Array]] = []
        self.count = 0
        self._programs: dict[tuple[object, ...], Callable[..., dict[str, Array]]] = {}

    def add(self, inputs: tuple[Any, ...]) -> None:
        """Run the model on inputs."""
        shapes = _shapes(inputs)
        if shapes not in self._programs:
            graph = composed_for(self._model, inputs, self._composing) if self.count else self.graph
            self._programs[shapes] = self._program(graph)
        found = self._programs[shapes](*inputs)
        for name, observed in self.observed.items():
            if not np.isfinite(found[name]).all():
                hint = "leave such inputs out, or scale them"
                raise error(f"'{name}' has elements that are infinite or NaN", hint=hint)
            observed.add(found[name])
        size = sum(array.nbytes for array in found.values())
        same = not self.kept or all(found[n].shape == a.shape for n, a in self.kept[0].items())
        if same and (len(self.kept) + 1) * size <= max(_KEPT, size):
            self.kept.append({name: np.array(array) for name, array in found.items()})
        self.count += 1

    def _program(self, graph: Graph) -> Callable[..., dict[str, Array]]:
        """Return what computes the tensors that are wanted, by name."""
        wanted = {each for each in every_tensor(graph) if each.name in self._names}
        observed, tensors = observing(graph, wanted)
        run = _compiled(observed, self._model.variables)

        def program(*inputs: Any) -> dict[str, Array]:
            defaults = default_values(graph, self._model.variables)
            bound, _ = bind_inputs(graph, inputs, graph.machine_types, defaults)
            own = {each.name: array for each, array in bound.items() if each.name in self._names}
            found = zip(tensors, run(*inputs), strict=True)
            return {**own, **{each.name: np.asarray(array) for each, array in found}}

        return program


def _shapes(inputs: tuple[Any, ...]) -> tuple[object, ...]:
    """Return the shapes of inputs, on which the compiled program depends."""
    found: list[object] = []
    for value in inputs:
        items = (
            value.items()
            if isinstance(value, Mapping)
            else enumerate(value if isinstance(value, (list, tuple)) else [value])
        )
        found.append(tuple((key, np.shape(item)) for key, item in items))
    return tuple(found)


def _compiled(graph: Graph, variables: Mapping[str, Any]) -> Callable[..., Sequence[Any]]:
    """Return a graph as a function of its inputs."""
    return build_module(lower(graph, machine_types=graph.machine_types, variables=variables))


def _quantized(model: Model, runs: _Runs, wanted: Calibration, progress: Progress) -> Model:
    """Return the model with codes, from what was observed."""
    codes = {
        name: codes_of(observed, wanted.activations, wanted.method, wanted.percentile)
        for name, observed in runs.observed.items()
    }
    every = _without_infinite_weights(runs.contractions, model.variables)
    blocks = _blocks([each for each in every if not each.stays], model.variables, codes, wanted)
    progress("measuring errors", 1, 2)
    errors = _errors(runs, every, model.variables, codes, blocks)
    kept = reasons(wanted.keep_float, runs.kept_real, errors)
    every = [replace(each, stays=each.stays or kept.get(each.result.name, "")) for each in every]
    real = {each.weight for each in every if each.stays}
    every = [
        replace(each, stays="another operator that stays real has its weight")
        if each.weight in real and not each.stays
        else each
        for each in every
    ]
    chosen = [each for each in every if not each.stays]
    scope = f"{runs.graph.name}."
    read = {each.name for c in chosen for each in (c.weight, c.bias) if each is not None}
    made = with_codes(
        model,
        runs.graph.name,
        {name.removeprefix(scope): each for name, each in blocks.items() if name in read},
        {each.root.name.removeprefix(scope): codes[each.root.name] for each in chosen},
    )
    rows = [_row(each, runs, errors, scope) for each in every]
    rows.sort(key=lambda row: -(row.error or 0.0))
    report = QuantizationReport(operators=tuple(rows), samples=runs.count)
    return replace(made, quantization_report=report)


def _without_infinite_weights(
    every: Sequence[Contraction], variables: Mapping[str, Any]
) -> list[Contraction]:
    """Return the contractions, of which those stay real whose weights are not all finite."""

    def finite(each: Contraction) -> bool:
        return bool(np.isfinite(np.asarray(variables[each.weight.name])).all())

    reason = "its weight has elements that are infinite or NaN"
    return [each if each.stays or finite(each) else replace(each, stays=reason) for each in every]


def _blocks(
    chosen: Sequence[Contraction],
    variables: Mapping[str, Any],
    codes: Mapping[str, Codes],
    wanted: Calibration,
) -> dict[str, Blocks]:
    """Return the blocks of weights and biases of contractions, by the names of variables.

    A bias that several contractions read, or that is declared elsewhere, stays real.
    """
    method: Method = wanted.method if wanted.method in FOR_WEIGHTS else "minmax"
    found: dict[str, Blocks] = {}
    for each in chosen:
        name = each.weight.name
        if name not in found:
            found[name] = quantized_by_output(np.asarray(variables[name]), each.outputs, method)
    biases = [each.bias for each in chosen]
    for each in chosen:
        bias, scope = each.bias, each.weight.name.rpartition(".")[0]
        if bias is None or bias.role != "variable" or bias.rank != 1 or biases.count(bias) > 1:
            continue
        if ":" in bias.name:
            continue  # An item of a pack.
        array = np.asarray(variables[bias.name])
        if bias.name.rpartition(".")[0] == scope and np.isfinite(array).all():
            scales = found[each.weight.name].scales.reshape(-1) * codes[each.root.name].scale
            found[bias.name] = quantized_bias(array, scales)
    return found


def _errors(
    runs: _Runs,
    every: Sequence[Contraction],
    variables: Mapping[str, Any],
    codes: Mapping[str, Codes],
    blocks: Mapping[str, Blocks],
) -> dict[str, float]:
    """Return the relative error of each operator for exact operands, by the name of its result."""
    chosen = [each for each in every if not each.stays]
    operands = dict.fromkeys(each.data for each in chosen)
    nodes = [each.node for each in chosen]
    read = (tensor for node in nodes for tensor in flatten(node.operands))
    graph = excerpt(
        runs.graph,
        nodes,
        [Port(f"operand{number}", each) for number, each in enumerate(operands)],
        [Port(f"result{number}", each.result) for number, each in enumerate(chosen)],
        [*dict.fromkeys(each for each in read if each.role == "constant")],
    )
    rounded = {name: each.reals() for name, each in blocks.items()}
    run = _compiled(graph, {**{t.name: variables[t.name] for t in graph.variables}, **rounded})
    roots = {each.data: codes[each.root.name] for each in chosen}
    sums = {each.result.name: np.zeros(2) for each in chosen}
    for arrays in runs.kept:
        found = run(*(roots[each].reals(arrays[each.name]) for each in operands))
        for each, result in zip(chosen, found, strict=True):
            exact = arrays[each.result.name].astype(np.float64)
            difference = np.asarray(result) - exact
            sums[each.result.name] += (difference**2).sum(), (exact**2).sum()
    return {
        name: float(np.sqrt(error / size)) if size else 0.0 for name, (error, size) in sums.items()
    }


def _row(
    each: Contraction, runs: _Runs, errors: Mapping[str, float], scope: str
) -> QuantizedOperator:
    """Return what the report says about a contraction."""
    observed, error = runs.observed.get(each.root.name), errors.get(each.result.name)
    limits = None if observed is None else (observed.low, observed.high)
    name, operator = each.result.name.removeprefix(scope), each.node.operator
    return QuantizedOperator(
        name, operator, each.root.name.removeprefix(scope), limits, error, each.stays
    )
