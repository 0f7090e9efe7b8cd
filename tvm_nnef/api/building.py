"""A model composed, evaluated, lowered and built, each in one call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

from tvm_nnef.arguments.calls import Outputs, by_source, ordered_inputs
from tvm_nnef.composition import compose_graph
from tvm_nnef.composition.graphs import NotGiven, find_graph
from tvm_nnef.diagnostics import ModelError, NnefError, raised_as
from tvm_nnef.formats.reading import AnyModel, load_to_compose
from tvm_nnef.graph.equal_sizes import equal_sizes
from tvm_nnef.graph.named_sizes import with_named_sizes
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.model.dtypes import with_dtypes
from tvm_nnef.model.model import Model
from tvm_nnef.model.options import (
    Composing,
    Lowering,
    check_lowerings,
    check_route,
    noting_empty,
    refuse_for_graph,
    refuse_for_module,
)
from tvm_nnef.model.source_ports import by_own_names, declared_inputs, with_source
from tvm_nnef.model.variables import check_names, check_variables
from tvm_nnef.storage.metadata import Metadata, write_metadata
from tvm_nnef.support.argument_kinds import with_checked_arguments
from tvm_nnef.support.collection import rare_collection
from tvm_nnef.support.progress import Report as Progress
from tvm_nnef.support.progress import progress_reported, silent

if TYPE_CHECKING:
    import os
    from typing import TypeGuard

    import tvm
    from typing_extensions import Unpack

    from tvm_nnef.executable.runtime import Executable
    from tvm_nnef.measurement.kernel_report import KernelReport
    from tvm_nnef.model.options import ComposeOptions, LoadOptions, LowerOptions


@raised_as(ModelError)
@with_checked_arguments
@rare_collection()
def compose(
    model: AnyModel,
    *,
    graph: str | None = None,
    attributes: Mapping[str, object] | None = None,
    types: Mapping[str, str] | None = None,
    input_shapes: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    quantize: bool = True,
    **load_options: Unpack[LoadOptions],
) -> Graph:
    """Resolve a graph of a model: attributes, types, shapes and compositions (chapter 3).

    Parameters
    ----------
    model
        Any model, as for :func:`load_model`. One of another format is converted with the shapes
        and the dtypes of inputs that are given.
    graph
        The name of the graph; the first one of the main module by default.
    attributes
        Values of graph attributes by name.
    types
        Concrete types of the graph's generics by name: ``{"T": "int"}``.
    input_shapes
        Concrete shapes by the name of the input, if the graph does not declare them.
    dtypes
        Dtypes for ``real``, ``int`` and ``bool`` (by default float32, int32 and bool), for inputs
        by name, or for tensors by full name, instead of those in ``model.json``.
    quantize
        Whether ``@quantize`` is applied.
    **load_options
        Those of :func:`load_model`.

    Returns
    -------
    Graph
        The graph, with the shape and the dtype of each tensor.

    Raises
    ------
    ModelError
        For all errors in the model, and for arguments that do not fit it.
    UnsupportedError
        If everything that is reported is valid, but not supported.

    Examples
    --------
    >>> import tvm_nnef
    >>> graph = tvm_nnef.compose("docs/examples/digits", attributes={"batch": 2})
    >>> graph.inputs[0].operand.shape
    (2, 1, 8, 8)
    """
    composing = {"graph": graph, "attributes": attributes, "types": types, "quantize": quantize}
    composing |= {"input_shapes": input_shapes, "dtypes": dtypes}
    return ShownGraph.of(composed(*load_to_compose(model, {**load_options, **composing})))


class ShownGraph(Graph):
    """A Graph that notebooks show as a table of its operations."""

    __slots__ = ()

    @classmethod
    def of(cls, graph: Graph) -> ShownGraph:
        """The same graph."""
        return cls(**{each.name: getattr(graph, each.name) for each in fields(Graph)})

    def _repr_html_(self) -> str:
        from tvm_nnef.display.table import html

        return html(self)


@raised_as(ModelError)
def composed(
    model: Model,
    composing: Composing,
    *,
    dynamic: bool = True,
    equal: Mapping[str, Any] | None = None,
) -> Graph:
    """A graph of a model; ``dynamic`` keeps named dimensions that have no value.

    ``equal`` are dimensions that symbols of the inputs are assumed to be, by name.
    """
    declared = declared_inputs(find_graph(model.program, composing.graph), model.metadata)
    shapes = by_own_names(composing.input_shapes, declared)
    with noting_empty(shapes):
        graph = compose_graph(
            model.program,
            graph=composing.graph,
            attributes=composing.attributes,
            types=composing.types,
            input_shapes=shapes,
            quantize=composing.quantize,
            dynamic=dynamic,
            equal=equal,
        )
    dtypes = by_own_names(composing.dtypes, declared)
    return with_source(with_dtypes(graph, model.machine_types, dtypes), model.metadata)


@with_checked_arguments
@rare_collection()
def evaluate(
    model_or_graph: AnyModel | Graph,
    *inputs: Any,
    tensors: Sequence[str] = (),
    variables: Mapping[str, Any] | None = None,
    **compose_options: Unpack[ComposeOptions],
) -> Outputs:
    """Compute the outputs of a model with the reference evaluator, which uses NumPy alone.

    Parameters
    ----------
    model_or_graph
        Any model, as for :func:`load_model`, or a Graph from :func:`compose`.
    *inputs
        An array for each input in the order of the graph, a list of arrays for a pack; or one
        mapping of names, of the model or of its source, to these. They determine the shapes that
        the model does not fix. Inputs with a default may be left out.
    tensors
        Names of intermediate tensors to return as well.
    variables
        Arrays by full name, instead of the model's own; a Graph does not have any.
    **compose_options
        Those of :func:`compose`.

    Returns
    -------
    Outputs
        NumPy arrays in the order of the outputs, then of ``tensors``, also indexed by name.

    Raises
    ------
    NnefError
        For errors in the model, inputs that do not fit, and checks of the model that fail.

    Examples
    --------
    >>> import tvm_nnef
    >>> image = tvm_nnef.load_image("docs/examples/digits/digit-7.png", "docs/examples/digits")
    >>> int(tvm_nnef.evaluate("docs/examples/digits", image)["probabilities"].argmax())
    7
    """
    from tvm_nnef.arrays.foreign_tensors import numpy_view
    from tvm_nnef.reference import evaluate as evaluate_graph
    from tvm_nnef.reference.recording import Recorder

    inputs = tuple(numpy_view(each, _read_tensor) for each in inputs)
    if isinstance(model_or_graph, Graph):
        graph, values = model_or_graph, variables or {}
        refuse_for_graph(compose_options)
        check_names(graph, values)
    else:
        options = {**compose_options, "variables": variables}
        model, composing = load_to_compose(model_or_graph, options)
        graph, values = composed_for(model, inputs, composing), model.variables
        check_variables(model, graph)
    kept, types = Recorder(graph, tensors), graph.machine_types or None
    results = evaluate_graph(graph, inputs, values, machine_types=types, observe=kept.observe)
    names = [port.name for port in graph.outputs]
    return Outputs([*names, *tensors], [*results, *kept.arrays], by_source(graph.outputs))


def _read_tensor(value: Any) -> Any:
    """A tensor that only TVM reads, which is not needed otherwise."""
    from tvm_nnef.tvm_support.runtime import read_tensor

    return read_tensor(value)


def composed_for(model: Model, inputs: Sequence[Any], composing: Composing) -> Graph:
    """The graph of a model; shapes that it leaves open are those of the inputs that are given."""
    from tvm_nnef.arguments.inputs import array_given, default_values

    try:
        return composed(model, composing, dynamic=False)
    except NotGiven:
        definition = find_graph(model.program, composing.graph)
        declared = declared_inputs(definition, model.metadata)
        defaults = default_values(declared, model.variables)
        inputs = ordered_inputs(declared, inputs, defaults=defaults)
        if composing.input_shapes or len(inputs) != len(definition.inputs):
            raise

        def shape(value: Any, name: str) -> tuple[int, ...]:
            return array_given(value, "an array", f"input '{name}'").shape

        shapes = {
            name: [shape(item, name) for item in value] if is_pack else shape(value, name)
            for name, is_pack, value in (
                (parameter.name.name, parameter.type.pack is not None, each)
                for parameter, each in zip(definition.inputs, inputs, strict=True)
            )
        }
        return composed(model, replace(composing, input_shapes=shapes))


@with_checked_arguments
@rare_collection()
def from_nnef(
    model: AnyModel,
    *,
    route: Literal["mapped", "formula"] = "mapped",
    keep_params_in_input: bool = False,
    lowerings: Mapping[str, Callable[..., Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
    checked: bool = False,
    **compose_options: Unpack[ComposeOptions],
) -> tvm.IRModule:
    """Lower a model to a TVM module with a Relax function ``main``.

    Parameters
    ----------
    model
        Any model, as for :func:`load_model`.
    route
        ``"mapped"`` uses Relax operators that compute the same; ``"formula"`` lowers every operator
        from its own definition.
    keep_params_in_input
        Make variables parameters of ``main`` after its inputs, as TVM's own importers do
        (``relax.frontend.detach_params``). By default they are constants.
    lowerings
        Functions ``(builder, operation, operands)`` that return a Relax expression, or None to
        decline, by the qualified name of an operator. They replace the standard lowering.
    variables
        Arrays by full name, instead of the ``.dat`` files.
    checked
        Do not clamp data-dependent indices; for ``build(checked=True)``.
    **compose_options
        Those of :func:`compose`.

    Returns
    -------
    tvm.IRModule
        The module. ``main`` takes the inputs, then the parameters, then the state (variables that
        ``@update`` changes), and returns the outputs, then the new state.

    Raises
    ------
    NnefError
        For errors in the model, unknown routes and unknown names in ``lowerings``, and for
        operators that cannot be lowered.

    Examples
    --------
    >>> import tvm_nnef
    >>> module = tvm_nnef.from_nnef("docs/examples/digits")
    >>> [variable.name for variable in module["main"].params]
    ['image']
    """
    options: dict[str, Any] = {"route": route, "keep_params_in_input": keep_params_in_input}
    options |= {"lowerings": lowerings, "variables": variables}
    return _lowered(*_asked(model, {**compose_options, **options}, checked=checked))


def _asked(
    model: AnyModel,
    options: Mapping[str, Any],
    *,
    checked: bool,
    progress: Progress = silent,
) -> tuple[Model, Composing, Lowering]:
    """The model that options of :func:`from_nnef` are for, and what they ask for."""
    left, names = dict(options), ("route", "keep_params_in_input", "lowerings")
    lowering = Lowering(**{name: left.pop(name) for name in names if name in left}, checked=checked)
    check_route(lowering.route)
    return *load_to_compose(model, left, progress), lowering


def _lowered(model: Model, composing: Composing, lowering: Lowering) -> tvm.IRModule:
    """The module of a graph of a model."""
    from tvm_nnef.lower import lower
    from tvm_nnef.lower.module import described_symbols
    from tvm_nnef.lower.versions import with_equal_version

    check_lowerings(model.program, lowering.lowerings or {})
    graph = composed(model, composing)
    check_variables(model, graph)

    def module_of(graph: Graph, sizes: Sequence[Any] = ()) -> tvm.IRModule:
        return lower(
            graph,
            machine_types=graph.machine_types,
            variables=model.variables,
            route=lowering.route,
            keep_params_in_input=lowering.keep_params_in_input,
            lowerings=lowering.lowerings,
            checked=lowering.checked,
            sources=model.metadata.source_operations or model.metadata.source_names,
            sizes=sizes,
        )

    # Work on weights that are parameters is prepared for one version.
    same = None if lowering.keep_params_in_input else _for_equal_sizes(model, composing, graph)
    if same is None:
        module = module_of(graph)
    else:
        general = module_of(*with_named_sizes(graph))
        module = with_equal_version(general, module_of(same), described_symbols(graph))
    return _with_description(module, model.metadata)


def _for_equal_sizes(model: Model, composing: Composing, graph: Graph) -> Graph | None:
    """The graph for inputs whose sizes are equal where others would broadcast, if there are any."""
    equal = equal_sizes(graph)
    try:
        return composed(model, composing, equal=equal) if equal else None
    except NnefError:
        return None  # They cannot be equal.


def _with_description(module: tvm.IRModule, metadata: Metadata) -> tvm.IRModule:
    """The module with what programs that run it need to know of labels and images."""
    used = Metadata(labels=metadata.labels, inputs=metadata.inputs)
    if used != Metadata():
        from tvm_nnef.tvm_support.function_attributes import DESCRIPTION

        described = module["main"].with_attr(DESCRIPTION, write_metadata(used).decode())
        module.update_func(module.get_global_var("main"), described)
    return module


@with_checked_arguments
@rare_collection()
def build(
    model_or_mod: AnyModel | tvm.IRModule,
    target: Any = "native",
    *,
    progress: bool = True,
    database: str | os.PathLike[str] | None = None,
    dump_dir: str | os.PathLike[str] | None = None,
    verbose: bool | Callable[[KernelReport], None] = False,
    timings: bool = False,
    threads: int | None = None,
    verify: bool = False,
    checked: bool = False,
    cuda_graphs: bool = False,
    int8_activations: bool = False,
    cache: bool = True,
    **from_nnef_options: Unpack[LowerOptions],
) -> Executable:
    """Compile a model, or a module of :func:`from_nnef`, for a target.

    Parameters
    ----------
    model_or_mod
        Any model, as for :func:`load_model`, or a ``tvm.IRModule``.
    target
        The machine: ``"native"`` (this CPU with all of its instructions), another short name such
        as ``"x86-64-v3"``, ``"aarch64"``, ``"cuda:sm_80"`` or ``"vulkan"``, or a target of TVM.
    progress
        Show a progress bar, if standard error is a terminal, or in a notebook.
    database
        A folder that :func:`tune` wrote, whose schedules are used.
    dump_dir
        A folder to write the module to after each pass.
    verbose
        Print the strategy, work and measured speed of each kernel, the slowest first; or a function
        that gets the report.
    timings
        Print the time of each pass.
    threads
        The number of threads of the executable; all cores by default.
    verify
        Compare each scheduled kernel with its unscheduled form on random data. Implies ``checked``.
    checked
        Compile bounds checks: an index outside of its tensor raises NnefError. Otherwise a
        data-dependent index means the nearest element. A module must be made by
        ``from_nnef(checked=True)``. The model becomes slower.
    cuda_graphs
        For CUDA: launch kernels of static shapes as graphs, which the first call captures. This is
        faster if kernels are many and small. Weights that a program passes to ``main_prepared`` of
        an exported library must then stay where they are.
    int8_activations
        For CPUs: round what is multiplied with weights of few bits to int8, with a factor for each
        block of a row, if there are many rows. The prompt of a language model becomes faster, and
        less exact, as with ``accuracy_level`` 4 of ONNX Runtime, which models may ask for and which
        is not followed otherwise. Single rows, and CPUs without instructions for products of
        bytes, stay exact.
    cache
        Load a library that was built before from the user's cache folder, or keep the new one
        there. Applies to models for this CPU, without ``lowerings``, ``database`` and reports on
        the build.
    **from_nnef_options
        Those of :func:`from_nnef`; not with a module.

    Returns
    -------
    Executable
        The compiled model. One for another machine can be exported, but not called.

    Raises
    ------
    TargetError
        For an unknown target.
    NnefError
        For errors in the model, ``threads`` below 1, a database for another target or version of
        TVM, CUDA graphs on another target, and kernels that ``verify`` finds to be wrong.

    Examples
    --------
    >>> import numpy as np
    >>> import tvm_nnef
    >>> executable = tvm_nnef.build("docs/examples/digits", progress=False)
    >>> executable
    <Executable (image: float32[1, 1, 8, 8]) -> (probabilities: float32[1, 10])>
    >>> executable(np.zeros((1, 1, 8, 8), np.float32))["probabilities"].shape
    (1, 10)
    """
    from tvm_nnef.api import library_cache
    from tvm_nnef.compilation.options import Compiling
    from tvm_nnef.tvm_support.threads import checked_threads

    threads, checked, key = checked_threads(threads), checked or verify, None
    options = Compiling(
        dump_dir=dump_dir,
        database=database,
        verbose=verbose,
        timings=timings,
        threads=threads,
        checked=checked,
        verify=verify,
        cuda_graphs=cuda_graphs,
        int8_activations=int8_activations,
    )
    with progress_reported(wanted=progress) as report:
        if _is_module(model_or_mod):
            refuse_for_module(from_nnef_options)
            module = model_or_mod
        else:
            asked = _asked(model_or_mod, from_nnef_options, checked=checked, progress=report)
            if cache and options.is_plain:
                key = library_cache.key_of(*asked, target, options)
            if key is not None and (found := library_cache.find(key)) is not None:
                found.threads = threads
                return found
            module = _lowered(*asked)
        from tvm_nnef.compilation.pipeline import build_module

        built = build_module(module, target, options, progress=report)
    if key is None:
        return built
    kept = library_cache.keep(key, built)
    kept.threads = threads
    return kept


def _is_module(value: object) -> TypeGuard[tvm.IRModule]:
    """Whether a value is a tvm.IRModule; TVM, which takes long to import, is not imported."""
    return "tvm" in sys.modules and isinstance(value, sys.modules["tvm"].IRModule)


def lowered(model_or_mod: Any, options: Mapping[str, Any]) -> tvm.IRModule:
    """The module that is given, or that of a model. Raises NnefError for options of a module."""
    if not _is_module(model_or_mod):
        return _lowered(*_asked(model_or_mod, options, checked=False))
    refuse_for_module(options)
    return model_or_mod
