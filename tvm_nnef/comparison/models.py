"""The routes of a model compared in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tvm_nnef.api import compose
from tvm_nnef.comparison.report import Report
from tvm_nnef.comparison.routes import RECORDED, Setting
from tvm_nnef.comparison.source import executable, source_locations, source_model, source_names
from tvm_nnef.comparison.walk import compare_routes
from tvm_nnef.converters.common.formats import OpenedSource, open_source
from tvm_nnef.diagnostics import error
from tvm_nnef.model import AnyModel, Model, load_to_compose
from tvm_nnef.progress import progress_reported
from tvm_nnef.random_inputs import random_inputs
from tvm_nnef.reference.inputs import bind_inputs
from tvm_nnef.variables import check_variables

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvm_nnef.options import ComposeOptions


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
    """Runs a model on two routes, tensor by tensor, up to the first tensor that differs.

    Routes are ``mapped``, ``formula`` (both compiled for this CPU), ``reference``, and for a
    converted model that of its format, such as ``onnxruntime``: then the model ``against`` (left
    out, the one that was given, or the file that the model was converted from) is executed by its
    own library, and its tensors are compared with those of the same name. Left out, routes are
    ``mapped`` and ``reference``, or that of the format and ``mapped`` if ``against`` or the model
    itself is of such a format. ``inputs`` are as for :func:`evaluate`; where there
    are none, they are random, from ``seed``. Compared are the results of the operations, branches
    and loops at the outer level of the graph and of public operators in it; where another
    composition differs, those inside of it as well. ``lowerings`` are those of :func:`from_nnef`,
    for the route ``mapped``.

    Each operation is executed by itself, and the second route gets the operands that the first
    has computed (or the source's own library), so that the first difference is the
    first *wrong operator*, not the first place where rounding has added up. With ``chained`` each
    route gets its own operands. Last, what the first route gave is compared with what it gives when
    it is built as a whole (unless that is what the source's library gave).

    Elements agree where they differ by at most ``atol + rtol * |first|``. ``rtol`` None means by
    dtype: 1e-4 for float32, 1e-10 for float64, 1e-2 for float16, 0 for int and bool. That
    is what the rounding of one operation, a sum of thousands of terms included, stays below
    (:data:`tvm_nnef.comparison.differences.TOLERANCES`), and it grows with nothing: not with the
    depth of the model, either. ``atol`` None means ``rtol`` times the root mean square of the
    first route's tensor, for sums whose terms cancel.

    Raises NnefError for everything that is wrong with the model or with what was given; a
    difference raises nothing: the :class:`Report` shows it.
    """
    if isinstance(routes, str):
        raise error("'routes' are two names of routes", hint="such as ('formula', 'reference')")
    if not isinstance(model, Model):
        model = open_source(model, compose_options.get("format"))
    loaded, left = load_to_compose(model, {**compose_options, "variables": variables})
    judge = _judge(model, loaded, against)
    graph = compose(loaded, **left)
    check_variables(loaded, graph)
    bound, _ = bind_inputs(graph, inputs or random_inputs(graph, seed), graph.machine_types)
    route = judge.format.route if judge is not None else ""
    chosen = routes or ((route, "mapped") if route else ("mapped", "reference"))
    source = source_model(loaded, judge) if set(RECORDED).intersection(chosen) else None
    locations = source_locations(loaded, None if isinstance(model, Model) else model)
    setting = Setting(loaded.variables, lowerings or {}, graph, bound, source, locations=locations)
    with progress_reported("comparing") if progress else nullcontext() as report:
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
    """The model that another library is to execute, if there is one."""
    if against is not None:
        source_names(loaded)
        opened = open_source(against)
        executable(opened.format, opened.path)
        return opened
    return model if isinstance(model, OpenedSource) and model.format.route else None
