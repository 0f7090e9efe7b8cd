"""``extract``: a part of a model, from some of its tensors to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm_nnef.api.building import composed
from tvm_nnef.diagnostics import ModelError, error, raised_as
from tvm_nnef.extraction.cutting import cut
from tvm_nnef.extraction.model import model_of
from tvm_nnef.formats.reading import AnyModel, load_to_compose
from tvm_nnef.model.model import Model
from tvm_nnef.model.options import Composing
from tvm_nnef.model.variables import check_variables
from tvm_nnef.support.argument_kinds import with_checked_arguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvm_nnef.model.options import ComposeOptions


@raised_as(ModelError)
@with_checked_arguments
def extract(
    model: AnyModel,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    **options: Unpack[ComposeOptions],
) -> Model:
    """Cut a part out of a model: the operations from some tensors to others, with their weights.

    The part computes what the whole model computes there. Operators that the model defines stay
    operators, unless the part begins or ends inside of one.

    Parameters
    ----------
    model
        Any model, as for :func:`load_model`.
    inputs
        Names of the tensors that become inputs, before the inputs of the model that the part
        reads: full, as in ``main.Net.conv1``, without the graph, or those of the source.
    outputs
        Names of the tensors that become outputs; those of the model by default.
    **options
        Those of :func:`compose` and, for a model of another format, of :func:`convert`.

    Returns
    -------
    Model
        The part, for :func:`save_model` and all other calls.

    Raises
    ------
    ModelError
        For errors in the model, unknown names, and tensors between which there is no operation.

    Examples
    --------
    >>> import tvm_nnef
    >>> part = tvm_nnef.extract("docs/examples/digits", ["conv1"], ["pool1"])
    >>> part.inputs, part.outputs
    ({'conv1': 'real[1, 16, 8, 8]'}, {'pool1': 'real[1, 16, 4, 4]'})
    """
    for name, names in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
            hint = f"give the names of tensors: {name}=['main.Net.conv1']"
            raise error(f"'{name}' is not a list of names", hint=hint)
    loaded, composing = load_to_compose(model, options)
    graph = composed(loaded, composing)
    check_variables(loaded, graph)
    part = cut(graph, inputs, outputs, loaded.metadata.source_names)
    return model_of(part, loaded, lambda each: composed(each, Composing()))
