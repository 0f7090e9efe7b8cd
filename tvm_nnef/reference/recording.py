"""Recording of intermediate tensors of an evaluation, by the names that a user gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.diagnostics import Diagnostic, InputError, did_you_mean
from tvm_nnef.graph.nodes import Graph, Tensor, every_tensor
from tvm_nnef.reference.arithmetic import Array


class Recorder:
    """A recorder of the arrays of some tensors of a graph; in a loop those of the last step."""

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        """Accept full names, or names in the scope of the graph.

        Raises InputError for unknown ones.
        """
        every = every_tensor(graph) if names else ()
        results = {each.name for each in every if each.role == "result"}
        scope = f"{graph.name}."
        self._full = [name if name in results else f"{scope}{name}" for name in names]
        wrong = [name for name, full in zip(names, self._full, strict=True) if full not in results]
        if wrong:
            names_in_scope = {name.removeprefix(scope) for name in results}
            raise InputError(
                Diagnostic(
                    f"no operation of the graph computes a tensor '{name}'",
                    hint=did_you_mean(name, names_in_scope) or "'tvm-nnef show' prints the names",
                )
                for name in wrong
            )
        self._found: dict[str, Array] = {}

    def observe(self, tensor: Tensor, array: Array) -> None:
        """Keep the array of a tensor that is wanted."""
        if tensor.name in self._full:
            self._found[tensor.name] = np.array(array)

    @property
    def arrays(self) -> list[Array | None]:
        """The arrays in the order of the names; None for tensors that were not computed."""
        return [self._found.get(name) for name in self._full]
