"""Comparison of the routes of a model in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvm_nnef.api.building import composed
from tvm_nnef.arguments.inputs import bind_inputs, default_values
from tvm_nnef.arguments.random_inputs import random_inputs
from tvm_nnef.comparison.report import Report
from tvm_nnef.comparison.routes import RECORDED, Setting
from tvm_nnef.comparison.source import executable, source_locations, source_model, source_names
from tvm_nnef.comparison.walk import compare_routes
from tvm_nnef.formats.reading import AnyModel, load_to_compose
from tvm_nnef.formats.registry import OpenedSource, open_source
from tvm_nnef.model.model import Model
from tvm_nnef.model.variables import check_variables
from tvm_nnef.support.argument_kinds import with_checked_arguments
from tvm_nnef.support.progress import progress_reported

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvm_nnef.model.options import ComposeOptions


@with_checked_arguments
def compare(
    model: AnyModel,
    *inputs: Any,
    routes: Sequence[str] | None = None,
    against: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    chained: bool = False,
    seed: int = 0,
    lowerings: Mapping[str, Callable[..., Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
    progress: bool = True,
    **compose_options: Unpack[ComposeOptions],
) -> Report:
    """Run a model on two routes, and find the first operator that differs.

    Each operation runs by itself, and the second route gets the operands that the first one
    computed. So the first difference is the first *wrong operator*, not accumulated rounding. The
    results of operations, branches and loops at the outer level of the graph, and of public
    operators in it, are compared; if another composition differs, those inside of it as well. At
    last the program is compared as :func:`build` makes it.

    Parameters
    ----------
    model
        Any model, as for :func:`load_model`.
    *inputs
        As for :func:`evaluate`; random ones by default.
    routes
        Two of ``mapped`` and ``formula`` (compiled for this CPU), ``reference`` (NumPy), and the
        route of a source format, such as ``onnxruntime``, which runs the source by its own library.
        By default ``mapped`` and ``reference``; or the route of the format and ``mapped`` if
        ``against`` is given or the model is of such a format.
    against
        The source of a converted model, to be run by its own library; tensors are matched by name.
        By default the given model, or the file that it was converted from.
    rtol, atol
        Elements agree if they differ by at most ``atol + rtol * abs(first)``. ``rtol`` depends on
        the dtype by default (1e-4 for float32, 1e-10 for float64, 1e-2 for float16, 0 for int and
        bool), and ``atol`` is ``rtol`` times the root mean square of the first route's tensor.
    chained
        Give each route its own operands, so that rounding accumulates.
    seed
        The seed of random inputs.
    lowerings
        Those of :func:`from_nnef`, for the route ``mapped``.
    variables
        Arrays by full name, instead of the ``.dat`` files.
    progress
        Show a progress bar, if standard error is a terminal, or in a notebook.
    **compose_options
        Those of :func:`compose`.

    Returns
    -------
    Report
        A row for each tensor that was compared; ``agrees``; the first difference.

    Raises
    ------
    NnefError
        For errors in the model, and arguments that do not fit it. A difference is not an error.

    Examples
    --------
    >>> import tvm_nnef
    >>> tvm_nnef.compare("docs/examples/digits", progress=False).agrees
    True
    """
    if not isinstance(model, Model):
        model = open_source(model, compose_options.get("format"))
    loaded, composing = load_to_compose(model, {**compose_options, "variables": variables})
    judge = _judge(model, loaded, against)
    graph = composed(loaded, composing)
    check_variables(loaded, graph)
    given_inputs = inputs or random_inputs(graph, seed, variables=loaded.variables)
    defaults = default_values(graph, loaded.variables)
    bound, _ = bind_inputs(graph, given_inputs, graph.machine_types, defaults)
    route = judge.format.route if judge is not None else ""
    chosen = routes or ((route, "mapped") if route else ("mapped", "reference"))
    source = source_model(loaded, judge) if set(RECORDED).intersection(chosen) else None
    locations = source_locations(loaded, None if isinstance(model, Model) else model)
    setting = Setting(loaded.variables, lowerings or {}, graph, bound, source, locations=locations)
    with progress_reported(wanted=progress) as report:
        return compare_routes(
            graph,
            bound,
            setting,
            routes=chosen,
            rtol=rtol,
            atol=atol,
            chained=chained,
            progress=report,
        )


def _judge(model: AnyModel, loaded: Model, against: object) -> OpenedSource | None:
    """Return the model that another library has to execute, if there is one."""
    if against is not None:
        source_names(loaded)
        opened = open_source(against)
        executable(opened.format, opened.path)
        return opened
    return model if isinstance(model, OpenedSource) and model.format.route else None
