"""A model composed, evaluated, lowered and built, each in one call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tvm_nnef.calls import Outputs, ordered_inputs
from tvm_nnef.composition import compose_graph
from tvm_nnef.composition.graphs import NotGiven, find_graph
from tvm_nnef.diagnostics import ModelError, raised_as
from tvm_nnef.dtypes import with_dtypes
from tvm_nnef.function_attributes import DESCRIPTION
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.model import AnyModel, Model, load_model, load_to_compose
from tvm_nnef.options import check_lowerings, check_route, refuse_for_module
from tvm_nnef.storage.metadata import Metadata, write_metadata
from tvm_nnef.variables import check_variables

if TYPE_CHECKING:
    import os

    import tvm
    from typing_extensions import Unpack

    from tvm_nnef.measurement.kernel_report import KernelReport
    from tvm_nnef.options import ComposeOptions, LoadOptions, LowerOptions
    from tvm_nnef.runtime import Executable


@raised_as(ModelError)
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
    """The Graph of a model: the graph named (default: the first), everything resolved (chapter 3).

    ``attributes`` are graph attributes, ``types`` concrete types of its generics
    (``{"T": "int"}``), ``input_shapes`` concrete extents by input, ``dtypes`` dtypes for ``real``,
    ``int``, ``bool``, for inputs, or for tensors by full name; ``quantize=False`` leaves the
    ``@quantize`` operators out. ``load_options`` are those of :func:`load_model`. One of another
    format is converted with the shapes, and the dtypes of inputs, that are given.

    Raises NnefError for everything that is wrong with the model or with what was given.
    """
    given = {name: value for name, value in load_options.items() if value is not None}
    asked = {"input_shapes": input_shapes, "dtypes": dtypes}
    loaded, left = load_to_compose(model, {**given, **asked})
    shapes, dtypes = left.pop("input_shapes", None), left.pop("dtypes", None)
    load_model(loaded, **left)  # Raises NnefError for options that are left.
    composed = compose_graph(
        loaded.program,
        graph=graph,
        attributes=attributes,
        types=types,
        input_shapes=shapes,
        quantize=quantize,
    )
    return with_dtypes(composed, loaded.machine_types, dtypes)


def evaluate(
    model_or_graph: AnyModel | Graph,
    *inputs: Any,
    tensors: Sequence[str] = (),
    variables: Mapping[str, Any] | None = None,
    **compose_options: Unpack[ComposeOptions],
) -> Outputs:
    """The outputs of a model for given inputs, by the NumPy reference evaluator.

    ``inputs`` are arrays in the order of the graph's inputs, a list of arrays for a pack, or one
    mapping of names to these; shapes that the model leaves open are theirs. The result has NumPy
    arrays in the order of its outputs, then of ``tensors``, the names of intermediate tensors, and
    is indexed by name as well. A Graph takes its ``variables`` by full name; a model has its own.

    Raises NnefError for inputs that do not fit, and for what is wrong with the model.
    """
    from tvm_nnef.reference import evaluate as evaluate_graph
    from tvm_nnef.reference.recording import Recorder

    if isinstance(model_or_graph, Graph):
        graph, values = model_or_graph, variables or {}
    else:
        options = {**compose_options, "variables": variables}
        model, left = load_to_compose(model_or_graph, options)
        graph, values = _composed_for(model, inputs, left), model.variables
        check_variables(model, graph)
    kept, types = Recorder(graph, tensors), graph.machine_types or None
    results = evaluate_graph(graph, inputs, values, machine_types=types, observe=kept.observe)
    names = [port.name for port in graph.outputs]
    return Outputs([*names, *tensors], [*results, *kept.arrays])


def _composed_for(model: Model, inputs: Sequence[Any], options: Mapping[str, Any]) -> Graph:
    """The graph of a model; shapes that it leaves open are those of the inputs that are given."""
    from numpy import shape

    try:
        return compose(model, **options)
    except NotGiven:
        definition = find_graph(model.program, options.get("graph"))
        inputs = ordered_inputs([each.name.name for each in definition.inputs], inputs)
        if options.get("input_shapes") or len(inputs) != len(definition.inputs):
            raise
        shapes = {
            parameter.name.name: list(map(shape, value))
            if parameter.type.pack is not None
            else shape(value)
            for parameter, value in zip(definition.inputs, inputs, strict=True)
        }
        return compose(model, **{**options, "input_shapes": shapes})


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
    """The model as a TVM module with a Relax function ``main``.

    ``route="formula"`` lowers every operator from its own definition, ``"mapped"`` uses Relax
    operators where they are the same thing. ``compose_options`` are those of :func:`compose`.
    With ``keep_params_in_input`` variables become parameters, as in TVM's own importers
    (``relax.frontend.detach_params``); ``lowerings`` maps an operator's qualified name to a
    function ``(builder, operation, operands)`` that replaces ours. ``checked`` leaves
    indices from data as they are, for ``build(checked=True)``; they are clamped otherwise.

    Raises NnefError for everything that is wrong with the model or with what was given.
    """
    from tvm_nnef.lower import lower

    check_route(route)
    options = {**compose_options, "variables": variables}
    loaded, left = load_to_compose(model, options)
    check_lowerings(loaded.program, lowerings or {})
    graph = compose(loaded, **left)
    check_variables(loaded, graph)
    module = lower(
        graph,
        machine_types=graph.machine_types,
        variables=loaded.variables,
        route=route,
        keep_params_in_input=keep_params_in_input,
        lowerings=lowerings,
        checked=checked,
        sources=loaded.metadata.source_operations or loaded.metadata.source_names,
    )
    return _with_description(module, loaded.metadata)


def _with_description(module: tvm.IRModule, metadata: Metadata) -> tvm.IRModule:
    """The module with what programs that run it need to know of labels and images."""
    used = Metadata(labels=metadata.labels, inputs=metadata.inputs)
    if used != Metadata():
        described = module["main"].with_attr(DESCRIPTION, write_metadata(used).decode())
        module.update_func(module.get_global_var("main"), described)
    return module


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
    cache: bool = True,
    **from_nnef_options: Unpack[LowerOptions],
) -> Executable:
    """A model, or a module of :func:`from_nnef`, scheduled and compiled for a target.

    ``"native"`` is the host CPU with its instruction set. ``database`` is a folder that
    :func:`tune` wrote. ``dump_dir`` receives the module after each pass. ``verbose`` prints for
    each kernel the strategy that scheduled it, its work, and its speed on this machine, slowest
    first; a function is given the report instead. ``timings`` prints the time of each pass.
    ``threads`` is the number of threads of the executable: all cores by default.

    With ``checked`` a call raises NnefError if a kernel uses an index outside of a tensor, such as
    one from data; otherwise an index from data means the nearest element. (Of a module this holds
    if it was made by ``from_nnef(checked=True)``.) ``verify`` compares each scheduled kernel with
    its unscheduled form on random data, and raises NnefError if they differ; it implies
    ``checked``. Both make the build and the model slower.

    With ``cuda_graphs`` a model for CUDA launches kernels of static shapes as graphs, which the
    first call captures; it is fast if they are many and small. The weights that a program passes
    to ``main_prepared`` of an exported library then stay where they are.

    With ``cache`` a library that was built from the same model, with the same options, for the same
    target and by the same versions is loaded from the user's cache folder, and a new one is kept
    there. That holds for models (not modules) and the CPU, and neither for builds with
    ``lowerings`` or a ``database`` nor for those that report on the build.

    Raises NnefError for an unknown target, for what is wrong with the model, for fewer threads than
    1, for a database of another target or version of TVM, and for CUDA graphs on another target.
    """
    from tvm_nnef import library_cache
    from tvm_nnef.tvm_support.threads import checked_threads

    threads, checked, key = checked_threads(threads), checked or verify, None
    options: dict[str, Any] = dict(from_nnef_options)
    is_plain = not (verbose or timings or verify or cuda_graphs or dump_dir or database)
    if cache and is_plain and not _is_module(model_or_mod):
        model_or_mod, options = load_to_compose(model_or_mod, options)
        key = library_cache.key_of(model_or_mod, target, options, checked=checked)
        if key is not None and (found := library_cache.find(key)) is not None:
            found.threads = threads
            return found
    from tvm_nnef.compilation.pipeline import build_module

    built = build_module(
        lowered(model_or_mod, {**options, "checked": checked}),
        target,
        progress=progress,
        dump_dir=dump_dir,
        database=database,
        verbose=verbose,
        timings=timings,
        threads=threads,
        checked=checked,
        verify=verify,
        cuda_graphs=cuda_graphs,
    )
    if key is None:
        return built
    kept = library_cache.keep(key, built)
    kept.threads = threads
    return kept


def _is_module(value: object) -> bool:
    """Whether a value is a tvm.IRModule; TVM, which takes long to import, is not imported."""
    return "tvm" in sys.modules and isinstance(value, sys.modules["tvm"].IRModule)


def lowered(model_or_mod: Any, options: dict[str, Any]) -> tvm.IRModule:
    """The module that is given, or that of a model. Raises NnefError for options of a module."""
    if not _is_module(model_or_mod):
        return from_nnef(model_or_mod, **options)
    options.pop("checked", None)
    refuse_for_module(options)
    module: tvm.IRModule = model_or_mod
    return module
