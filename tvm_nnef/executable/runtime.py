"""A compiled model: called with arrays, returns arrays; exported to a file.

Input: a compiled library, whose own metadata say what it takes and gives. Compiles nothing.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvm_nnef.arguments.calls import OutputPorts, Outputs, ordered_inputs
from tvm_nnef.arguments.inputs import bind_inputs
from tvm_nnef.arguments.ports import PortInfo, port_info, signature, tensor_info
from tvm_nnef.arguments.random_inputs import random_inputs
from tvm_nnef.diagnostics import error
from tvm_nnef.executable.call_errors import (
    Sizes,
    check_sizes,
    refuse_copy,
)
from tvm_nnef.executable.call_memory import shortage
from tvm_nnef.executable.library_file import CompiledFiles, LibraryFile, write_library
from tvm_nnef.executable.output_buffers import Buffers, OutputBuffers
from tvm_nnef.executable.program import Program
from tvm_nnef.executable.repeated_calls import RepeatedCalls
from tvm_nnef.executable.state import State
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.profiling.timing import Timing, timed
from tvm_nnef.support.argument_kinds import with_checked_arguments
from tvm_nnef.support.html_table import html_table
from tvm_nnef.support.memory import available_bytes
from tvm_nnef.tvm_support import device_errors, runtime
from tvm_nnef.tvm_support.function_attributes import INITIAL_STATE, LIFTED, PREPARED
from tvm_nnef.tvm_support.runtime import Array, array_of, numpy_view
from tvm_nnef.tvm_support.threads import checked_threads, default_threads, use_threads

if TYPE_CHECKING:
    from tvm_nnef.profiling.profile import Profile


_REMEMBERED = 1024
"""Sizes of so many calls are remembered: to check them takes longer than a small model."""


class Executable:
    """A compiled model, to be called with arrays.

    :func:`build` and :func:`load` return it. Calls from several threads take turns; a
    :meth:`clone` for each thread lets them run in parallel.

    Attributes
    ----------
    inputs, outputs : tuple of PortInfo
        The ports in the order of the graph, with names, shapes and dtypes.
    bounds : Mapping
        The maximum of each symbol in their shapes, by name.
    state : State
        The variables that ``@update`` changes, by name, with the values after the last call.

    Examples
    --------
    >>> import numpy as np
    >>> import tvm_nnef
    >>> executable = tvm_nnef.build("docs/examples/digits", progress=False)
    >>> image = np.zeros((1, 1, 8, 8), np.float32)
    >>> (probabilities,) = executable(image)
    >>> np.array_equal(probabilities, executable(image=image)["probabilities"])
    True
    """

    inputs: tuple[PortInfo, ...]
    outputs: tuple[PortInfo, ...]
    bounds: Mapping[str, int]
    state: State
    _repeated: RepeatedCalls

    def __init__(
        self,
        library: Any,
        *,
        file: LibraryFile | None = None,
        metadata: str | None = None,
        weights: Array | None = None,
    ) -> None:
        """Takes what was compiled, or the library that was loaded from ``file``.

        Its ``metadata`` are needed if this machine does not have the device that it is for.
        ``weights`` are the bytes of the parameter file, if it has one.
        """
        self.threads = default_threads()
        self._program = Program(library, metadata, weights)
        self._file = file
        self._entry = "main"
        self.metadata = self._program.metadata
        self.inputs = tuple(map(port_info, self.metadata["inputs"]))
        self.outputs = tuple(map(port_info, self.metadata["outputs"]))
        self._output_ports = OutputPorts(self.outputs)
        self.bounds = dict(self.metadata["bounds"])
        self._graph = signature(self.metadata)
        self._prepared: list[Any] = []
        self._passed: set[Sizes] = set()
        self.reset()

    @functools.cached_property
    def _started(self) -> Callable[[Sequence[Any], int], list[Any]]:
        """Runs the model; all code is generated only if it is used."""
        return self._program.entry(self._entry)

    __getstate__ = refuse_copy

    def __repr__(self) -> str:
        sides = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return "<Executable ({}) -> ({})>".format(*sides)

    def _repr_html_(self) -> str:
        ports = (("input", self.inputs), ("output", self.outputs))
        rows = [(kind, *str(each).split(": ", 1)) for kind, found in ports for each in found]
        return html_table("Executable", ("", "name", "type"), rows)

    def __call__(self, /, *inputs: Any, out: Buffers | None = None, **named: Any) -> Outputs:
        """Run the model.

        Parameters
        ----------
        *inputs
            A value for each input in the order of the graph, or a single mapping of names to
            values. A value is an array (NumPy, DLPack, or what NumPy makes an array of), for a pack
            a list of arrays. Within a kind of dtype values are converted: float64 to float32, but
            no int to a real. Names are those of the model or of its source; inputs with a default
            may be left out.
        out
            Preallocated arrays that receive outputs: one for a single output, a sequence for all,
            or a mapping of names to arrays; these are then returned.
        **named
            Inputs by name.

        Returns
        -------
        Outputs
            A tuple of NumPy arrays in the order of the graph, a list of arrays for a pack, that can
            also be indexed by name: ``outputs["probabilities"]``.

        Raises
        ------
        InputError
            For inputs that are missing, unknown, or of another shape or kind of dtype than
            expected, and for arrays in ``out`` that do not fit.
        NnefError
            If a check of the model fails.
        """
        buffers = None if out is None else OutputBuffers(self._output_ports, out)
        with self._program.turn:
            tensors = self._call(inputs, named, are_copied=not self.state)
            if buffers is not None:
                return buffers.filled(tensors)
            arrays = list(map(array_of, tensors, self._output_ports.dtypes))
        return self._output_ports.grouped(arrays, list)

    def tensors(self, /, *inputs: Any, **named: Any) -> Outputs:
        """Run the model, and return DLPack tensors that share TVM's memory.

        ``torch.from_dlpack(executable.tensors(x)["y"])`` copies nothing.

        Parameters
        ----------
        *inputs, **named
            As for a call.

        Returns
        -------
        Outputs
            Tensors on the device of the model. A pack of dynamic length is one tensor.
        """
        tensors = self._call(inputs, named, are_copied=False)
        return self._output_ports.grouped(tensors, lambda stacked: stacked)

    def _call(
        self, inputs: Sequence[Any], named: Mapping[str, Any], *, are_copied: bool
    ) -> list[Any]:
        """The tensors of the outputs, after which the state is the new one.

        They may share the memory of the inputs, which a later call overwrites if they
        ``are_copied`` before.
        """
        with self._program.turn:
            tensors = self._input_tensors(inputs, named, are_copied)
            results = self._run(self._with_own(tensors, self.state.tensors))
            end = len(results) - len(self.state)
            self.state.tensors = results[end:]
        return results[:end]

    def clone(self) -> Executable:
        """Return another executable of the same model, which shares its code and weights.

        Its state is separate, with the initial values. Clones run in parallel in threads of Python.
        """
        made = self._copy(self._program.clone())
        made.reset()
        return made

    def _copy(self, program: Program) -> Executable:
        """The same model as another executable, which :meth:`reset` gives its own state."""
        made = object.__new__(Executable)
        vars(made).update(vars(self))
        vars(made).pop("_started", None)
        made._program, made._passed = program, set()
        return made

    def with_parameters(self, *parameters: Any) -> Executable:
        """Return an executable of the same library with weights bound to its parameters.

        What the kernels need of the weights (packed forms) is computed once, here.

        Parameters
        ----------
        *parameters
            Arrays for the weights of a module that was built without values for them
            (``keep_params_in_input``): its last inputs.

        Returns
        -------
        Executable
            An executable that takes the other inputs alone.

        Raises
        ------
        NnefError
            If the model has no parameters, or the arrays do not fit.
        """
        count = len(self._graph.inputs) - int(self.metadata.get("parameters", 0))
        if self._prepared or count == len(self._graph.inputs):
            hint = "call it with its inputs alone"
            raise error("this executable has no parameters: all weights are in it", hint=hint)
        taken = replace(self._graph, inputs=self._graph.inputs[count:])
        given = [numpy_view(value) for value in parameters]
        bound, _ = bind_inputs(taken, given, self._graph.machine_types)
        program, tensors = self._program, self._program.tensors(bound.values())
        with program.turn, device_errors.reported:
            use_threads(self._threads)
            prepared = list(program.function(LIFTED)(tensors))
        # A machine replays CUDA graphs with the addresses of the first weights.
        made = self._copy(program.clone() if program.kind == "cuda" else program)
        made._prepared, made._entry = prepared, PREPARED
        made.inputs = self.inputs[:count]
        made._graph = replace(self._graph, inputs=self._graph.inputs[:count])
        made.reset()
        return made

    def trim(self) -> None:
        """Return the memory to the system that earlier calls took and later ones may use.

        A call keeps the memory of its tensors for the next one of similar sizes. This is that of
        all executables of the process.
        """
        with self._program.turn:
            self._repeated = RepeatedCalls(self._graph, self._defaults)
        runtime.release_memory()

    def reset(self) -> None:
        """Reset the state to the initial values of the model."""
        described = [tensor_info(tensor) for tensor in self.metadata["state"]]
        with self._program.turn:
            defaults = [port.name for port in self._graph.inputs if port.has_default]
            device = self._program.device
            known = (described or defaults) and device is not None
            with device_errors.reported:
                values = list(self._program.function(INITIAL_STATE)()) if known else []
                arrays = list(map(array_of, values[len(described) :]))
            self.state = State(described, values[: len(described)], device)
            self.state.own()
            self._defaults = dict(zip(defaults, arrays, strict=False))
            self._repeated = RepeatedCalls(self._graph, self._defaults)

    @with_checked_arguments
    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file.

        Parameters
        ----------
        path
            The file, in NumPy's format ``.npz``, written whole or not at all.

        Raises
        ------
        NnefError
            If the file cannot be written.
        """
        with self._program.turn:
            self.state.save(path)

    @with_checked_arguments
    def load_state(self, path: str | os.PathLike[str]) -> None:
        """Set the state to what :meth:`save_state` has written.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        NnefError
            If the file cannot be read, or is of another model; the state does not change then.
        """
        with self._program.turn:
            self.state.load(path)

    @property
    def threads(self) -> int:
        """The number of threads that a call uses, at most one for each core. It can be set.

        All cores by default, or as many as ``TVM_NUM_THREADS`` says; NnefError below 1.
        """
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads = checked_threads(count)

    def prepared(self, *inputs: Any) -> Callable[[], list[Any]]:
        """Return a function that runs the model on fixed inputs and does nothing else, to be timed.

        Inputs, random ones by default, are converted and checked here; the state does not change.
        The function returns tensors of TVM: the outputs, packs item by item, then the new state.
        """
        given = inputs or random_inputs(self._graph)
        tensors = self._input_tensors(given, {}, are_copied=False)
        arguments = self._with_own(tensors, self.state.copied())
        return lambda: self._run(arguments)

    @with_checked_arguments
    def benchmark(self, *inputs: Any, repeat: int = 10, warmup: int = 2) -> Timing:
        """Measure how long a call takes, arrays in and arrays out. The state does not change.

        Parameters
        ----------
        *inputs
            As for a call; by default random ones, of the largest sizes.
        repeat
            The number of runs that are measured.
        warmup
            The number of runs before.

        Returns
        -------
        Timing
            ``median``, ``minimum`` and ``mean`` in seconds.
        """
        given = inputs or random_inputs(self._graph)
        with self._program.turn:
            before, first = self.state.tensors, self.state.copied()

            def call() -> None:
                self.state.tensors = first
                self(*given)

            try:
                return timed(call, repeat, warmup)
            finally:
                self.state.tensors = before

    @functools.partial(with_checked_arguments, named_inputs=True)
    def profile(self, *inputs: Any, repeat: int = 20, warmup: int = 3, **named: Any) -> Profile:
        """Measure how long each operation of the model takes. The state does not change.

        Parameters
        ----------
        *inputs, **named
            As for a call; by default random ones, of the largest sizes.
        repeat, warmup
            As for :meth:`benchmark`.

        Returns
        -------
        Profile
            Medians of the times, by operation and by kernel.

        Raises
        ------
        UnsupportedError
            For a model on a GPU.
        NnefError
            For a library that was not built from a model, or by a version that did not note its
            operations.
        """
        from tvm_nnef.profiling.call_times import check_profile, profiled

        check_profile(self.metadata)
        made = self.clone()
        made.state.tensors = self.state.copied()
        run = made.prepared(*ordered_inputs(self._graph, inputs, named, self._defaults))
        return profiled(made._program.machine, run, self.metadata, self._entry, repeat, warmup)

    @with_checked_arguments
    def export(self, path: str | os.PathLike[str]) -> None:
        """Write a library that :func:`load` and C++ programs read.

        Files are written whole or not at all.

        Parameters
        ----------
        path
            The suffixes ``.tar``, ``.tgz`` and ``.tar.gz`` give an archive of object files, which
            ``load`` links; any other name is that of a shared library. Large weights go to a
            second file beside it, whose name has ``.params`` appended, or into the archive.

        Raises
        ------
        NnefError
            If a file cannot be written, or no compiler or linker is installed.
        """
        write_library(path, self._file or self._program.files)

    @property
    def compiled(self) -> CompiledFiles | None:
        """Return the compiled parts of the library; None if it was loaded from a file."""
        return self._program.files if self._file is None else None

    @property
    def signature(self) -> Graph:
        """The inputs as those of a Graph, whose dimensions may be trees of symbols."""
        return self._graph

    def _with_own(self, tensors: Sequence[Any], state: Sequence[Any]) -> list[Any]:
        """Return all arguments of the function: inputs, prepared weights, state."""
        return [*tensors, *self._prepared, *state]

    def _input_tensors(
        self, inputs: Sequence[Any], named: Mapping[str, Any], are_copied: bool
    ) -> list[Any]:
        """The tensors of the inputs of a call, which are checked and converted if necessary."""
        known = self._repeated.tensors(inputs, named, are_copied=are_copied)
        if known is not None:
            return known
        ordered = ordered_inputs(self._graph, inputs, named, self._defaults)
        given = [numpy_view(value) for value in ordered]
        bound, sizes = bind_inputs(self._graph, given, self._graph.machine_types)
        if (key := tuple(sizes.items())) not in self._passed:
            check_sizes(self.metadata["checks"], sizes)
            self._check_memory(sizes)
            if len(self._passed) == _REMEMBERED:
                self._passed.clear()
            self._passed.add(key)
        tensors = self._program.tensors(bound.values())
        if self._program.kind == "cpu":
            self._repeated.remember(inputs, named)
        return tensors

    def _check_memory(self, sizes: Mapping[str, int]) -> None:
        """Raises NnefError if the tensors of a call do not fit the memory that is free."""
        there = available_bytes() if self._program.kind == "cpu" else None
        if there is None or shortage(self.metadata, sizes, there) is None:
            return
        self.trim()
        problem = shortage(self.metadata, sizes, available_bytes() or there)
        if problem is not None:
            raise problem

    def _run(self, arguments: Sequence[Any]) -> list[Any]:
        """The results of a run, which has ended."""
        with device_errors.reported, self._program.turn:
            results = self._started(arguments, self._threads)
            self._program.synchronize()
        return results
