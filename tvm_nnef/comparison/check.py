"""Check of the outputs of an executable by another way to execute the same model.

Input: a model, its inputs and an executable. Output: nothing, or NnefError with the differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_nnef.arguments.inputs import bind_inputs, default_values
from tvm_nnef.comparison.differences import Array
from tvm_nnef.comparison.program import program_rows
from tvm_nnef.comparison.report import Report
from tvm_nnef.comparison.routes import Setting, outputs
from tvm_nnef.comparison.source import source_model
from tvm_nnef.comparison.walk import compare_routes
from tvm_nnef.converters.common.execution import as_numbers
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.executable.runtime import Executable
from tvm_nnef.formats.registry import OpenedSource
from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.model.model import Model
from tvm_nnef.reference import evaluate

_REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """The expected outputs of a program, and ``judge``: the route that computed them.

    ``against`` is the model of another format, if its own library is the judge.
    """

    model: Model
    graph: Graph
    inputs: Sequence[Any]
    against: OpenedSource | None
    expected: Mapping[Tensor, Array]

    @property
    def judge(self) -> str:
        """The route that computed the expected outputs."""
        return _REFERENCE if self.against is None else self.against.format.route

    def require(self, executable: Executable, found: Sequence[Array]) -> None:
        """Raise NnefError if outputs of an executable, items of packs one by one, are wrong.

        Rounding may grow at a threshold, so outputs that differ are not proof: the operations are
        executed one by one, and the program is wrong if it differs from their results.
        """
        by_tensor = dict(zip(self.graph.output_tensors, found, strict=False))
        rows = program_rows(self.graph, self.expected, by_tensor, (self.judge, "tvm-nnef"))
        wrong = [row for row in rows if not row.agrees]
        if not wrong:
            return
        report = self._report(executable)
        explained = report.agrees and self.judge in report.routes
        if not explained:
            found_by_walk = report.diagnostic()
            more = [] if found_by_walk is None else [found_by_walk]
            raise NnefError([wrong[0].diagnostic(), *more])

    def _report(self, executable: Executable) -> Report:
        """Return the comparison of the judge's operations with ours, and with this executable.

        The reference replaces a source model from which ours was not converted.
        """
        source = None
        if self.against is not None and self.model.metadata.source_names:
            source = source_model(self.model, self.against)
        defaults = default_values(self.graph, self.model.variables)
        bound, _ = bind_inputs(self.graph, self.inputs, self.graph.machine_types, defaults)
        setting = Setting(self.model.variables, {}, self.graph, bound, source, executable)
        routes = (_REFERENCE if source is None else source.route, "mapped")
        try:
            return compare_routes(self.graph, bound, setting, routes=routes)
        finally:
            executable.reset()


def check_by_reference(model: Model, graph: Graph, inputs: Sequence[Any]) -> ProgramCheck:
    """Return the check by the outputs of the reference evaluator."""
    expected = outputs(graph, evaluate(graph, inputs, model.variables))
    return ProgramCheck(model, graph, inputs, None, expected)


def check_by_source(
    model: Model, graph: Graph, inputs: Sequence[Any], against: OpenedSource, arrays: Sequence[Any]
) -> ProgramCheck:
    """Return the check by the ``arrays`` that another library computed with the model ``against``.

    Outputs that are texts there are not checked. Raises NnefError for another number of outputs.
    """
    tensors = graph.output_tensors
    if len(tensors) != len(arrays):
        message = f"'{against.path}' has {len(arrays)} outputs, but the model has {len(tensors)}"
        raise error(message, hint="give the model that this one was converted from")
    numbers = zip(tensors, map(as_numbers, arrays), strict=True)
    expected = {
        tensor: _within_kind(array, graph.machine_types[tensor])
        for tensor, array in numbers
        if array is not None
    }
    return ProgramCheck(model, graph, inputs, against, expected)


def _within_kind(array: Array, dtype: str) -> Array:
    """Return integers in our width; a model that was not converted differs from its source."""
    return array.astype(dtype) if array.dtype.kind in "iu" and "int" in dtype else array
