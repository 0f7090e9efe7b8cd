"""``quantize``: a model with weights of few bits, or computed in integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tvm_nnef.api.building import composed
from tvm_nnef.diagnostics import ModelError, error, raised_as
from tvm_nnef.formats.reading import load_to_compose
from tvm_nnef.model.model import Model
from tvm_nnef.model.options import Composing
from tvm_nnef.quantization.blocks import Blocks, quantized
from tvm_nnef.quantization.kept import KeepFloat, named, names_of, reasons
from tvm_nnef.quantization.kinds import (
    ACTIVATIONS,
    BITS,
    BLOCKS,
    FOR_WEIGHTS,
    METHODS,
    Activations,
    Kind,
    Method,
)
from tvm_nnef.quantization.report import QuantizationReport, QuantizedWeight
from tvm_nnef.quantization.rewriting import pack_of, with_codes
from tvm_nnef.quantization.weights import Weight
from tvm_nnef.quantization.weights import weights as weights_of
from tvm_nnef.support.argument_kinds import with_checked_arguments
from tvm_nnef.support.progress import Report as Progress
from tvm_nnef.support.progress import progress_reported

if TYPE_CHECKING:
    from tvm_nnef.api.calibration import Calibration


@raised_as(ModelError)
@with_checked_arguments
def quantize(
    model: Any,
    data: Iterable[Any] | None = None,
    *,
    weights: Kind | None = None,
    activations: Activations | None = None,
    block: int | None = None,
    method: Method = "minmax",
    percentile: float = 99.99,
    keep_float: KeepFloat = 0,
    progress: bool = True,
    **options: Any,
) -> Model:
    """Quantize a model: its weights to few bits, or weights and activations to 8 bits.

    With ``data``, the model runs on these inputs, and the ranges of tensors are observed. Its
    convolutions and products get weights in int8 with a scale for each output, biases in int32, and
    operands that are rounded to 8 bits by ``@quantize``: compiled, they are computed in integers.

    Without ``data``, a weight of a product or an embedding becomes codes in bytes, and a scale for
    each block of them along the axis that a product sums over. What is computed stays real.
    Compiled products read the codes, so that a model is smaller, and faster for few rows.

    Parameters
    ----------
    model
        A model of any kind.
    data
        Inputs for the calibration of activations: some dozens such as the model will get. Each
        item is what a call of the model takes: an array, a tuple of arrays in the order of the
        inputs, or a mapping of names to arrays. It is iterated over once.
    weights
        The kind of codes of weights: ``"int8"`` with ``data``, which is the default there;
        ``"int4"``, ``"int8"`` or ``"int2"`` without.
    activations
        The kind of codes of activations: ``"uint8"``, with a zero point (the default), or
        ``"int8"``, around 0.
    block
        Without ``data``, the codes that share a scale: 16, 32 (the default), 64, 128 or 256.
    method
        How ranges are chosen. ``"minmax"``: the largest element has a code. ``"mse"``: the squared
        error is least, so that large elements may be clipped. For activations, weights being
        chosen by ``"minmax"``, also ``"percentile"``: all but few elements have a code; and
        ``"entropy"``: the distribution of the elements changes least.
    percentile
        The percentage of elements that have a code, for that method.
    keep_float
        How many operators, or weights, stay real: those of the largest errors. Or a list of names
        of those that stay real: as in the report, of an operator (``"nn.linear"``), of an operator
        with others inside, or of the source of a converted model (a tensor, a node, a layer).
    progress
        Show a progress bar, if standard error is a terminal, or in a notebook.
    **options
        Those of :func:`compose` and, for a model of another format, of :func:`convert`.

    Returns
    -------
    Model
        The model; its ``quantization_report`` has the error of each operator, or weight.

    Raises
    ------
    ModelError
        For errors in the model, unknown kinds and sizes, no inputs or such as do not fit, and a
        model without anything to quantize.

    Examples
    --------
    >>> import tvm_nnef
    >>> text = '''
    ... import linalg;
    ... graph G {
    ...     @input { x: real[1, 64]; }
    ...     @variable { w: real[64, 8]; }
    ...     @output { y: real[1, 8]; }
    ...     @compose { y = linalg.matmul(x, w); }
    ... }
    ... '''
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> w = random.standard_normal((64, 8)).astype("float32")
    >>> model = tvm_nnef.load_model(text, variables={"main.G.w": w})
    >>> tvm_nnef.quantize(model, weights="int4", block=32).quantization_report
    <QuantizationReport: 1 of 1 weights>
    >>> data = [random.standard_normal((1, 64)).astype("float32") for _ in range(8)]
    >>> tvm_nnef.quantize(model, data).quantization_report
    <QuantizationReport: 1 of 1 operators>
    """
    if data is None:
        _check_weights_alone(weights, activations, method)
        loaded, composing = load_to_compose(model, options)
        size = _checked_size(block)
        with progress_reported(wanted=progress) as report:
            kind = BITS[weights or ""]
            return _with_small_weights(loaded, composing, kind, size, method, keep_float, report)
    from tvm_nnef.api.calibration import Calibration, calibrated

    wanted = Calibration(activations or "uint8", method, percentile, keep_float)
    _check_calibration(weights, block, wanted)
    loaded, composing = load_to_compose(model, options)
    with progress_reported(wanted=progress) as report:
        return calibrated(loaded, composing, data, wanted, report)


def _check_weights_alone(weights: str | None, activations: str | None, method: str) -> None:
    if weights is None or activations is not None:
        hint = 'give data, or quantize weights alone: weights="int4", block=32'
        raise error("activations are quantized by the ranges that data show", hint=hint)
    if weights not in BITS:
        raise error(f"unknown kind of weights '{weights}'", hint=f"use {_listed(BITS)}")
    if method not in FOR_WEIGHTS:
        hint = f"use {_listed(FOR_WEIGHTS)}"
        raise error(f"the method '{method}' is for activations", hint=hint)


def _checked_size(block: int | None) -> int:
    size = 32 if block is None else block
    if size not in BLOCKS:
        raise error(f"blocks of {size} are not possible", hint=f"use {_listed(BLOCKS)}")
    return size


def _check_calibration(weights: str | None, block: int | None, wanted: Calibration) -> None:
    if weights not in (None, "int8"):
        hint = "leave data out, so that weights alone are quantized"
        raise error(f"products in integers have weights in int8, not '{weights}'", hint=hint)
    if block is not None:
        hint = "leave 'block' out"
        raise error("with data, a weight has a scale for each output, not for a block", hint=hint)
    for name, value, known in (
        ("kind of activations", wanted.activations, ACTIVATIONS),
        ("method", wanted.method, METHODS),
    ):
        if value not in known:
            raise error(f"unknown {name} '{value}'", hint=f"use {_listed(known)}")
    if not 50 < wanted.percentile <= 100:
        raise error(f"'percentile' is {wanted.percentile}", hint="use one like 99.99")


def _with_small_weights(
    model: Model,
    composing: Composing,
    bits: int,
    size: int,
    method: Method,
    keep_float: KeepFloat,
    progress: Progress,
) -> Model:
    """Return the model with weights of few bits."""
    graph = composed(model, composing)
    found = [each for each in weights_of(graph) if each.variable.name in model.variables]
    if not found:
        hint = "products and embeddings whose weights are variables of rank 2 can be quantized"
        raise error("there is no weight to quantize", hint=hint, file=model.path)
    scope = graph.name
    names = {w.variable.name: names_of(model, scope, w.variable.name, w.operators) for w in found}
    chosen_real = named(keep_float, names, "weight")
    made = []
    for number, each in enumerate(found):
        progress(f"quantizing {each.variable.short_name}", number, len(found))
        made.append(_quantized(each, model, scope, bits, size, method))
    ordered = sorted(made, key=lambda pair: -(pair[0].error or 0.0))
    errors = {row.name: row.error or 0.0 for row, blocks in ordered if blocks is not None}
    kept = reasons(keep_float, chosen_real, errors)
    ordered = [
        _real(row, kept[row.name]) if blocks is not None and row.name in kept else (row, blocks)
        for row, blocks in ordered
    ]
    ordered = [_with_its_pack(pair, ordered, model) for pair in ordered]
    rows = [row for row, _ in ordered]
    chosen = {row.name.removeprefix(f"{scope}."): blocks for row, blocks in ordered if blocks}
    report = QuantizationReport(tuple(rows), bits=bits, block=size)
    return replace(with_codes(model, scope, chosen), quantization_report=report)


_Pair: TypeAlias = "tuple[QuantizedWeight, Blocks | None]"


def _real(row: QuantizedWeight, reason: str) -> _Pair:
    """Return a weight that stays real."""
    return replace(row, after=row.before, stays=reason), None


def _with_its_pack(pair: _Pair, every: Sequence[_Pair], model: Model) -> _Pair:
    """Return a weight; it stays real unless all items of its pack, if any, get codes alike."""
    row, blocks = pair
    if blocks is None:
        return pair
    pack, kind = pack_of(row.name), (blocks.sizes, blocks.codes.shape)
    alike = sum(
        found is not None and (found.sizes, found.codes.shape) == kind
        for other, found in every
        if pack_of(other.name) == pack
    )
    if alike == sum(pack_of(name) == pack for name in model.variables):
        return pair
    return _real(row, f"other items of '{pack}' stay real, or differ from it")


def _listed(items: Iterable[object]) -> str:
    *front, last = map(str, items)
    return f"{', '.join(front)} or {last}"


def _quantized(
    weight: Weight, model: Model, scope: str, bits: int, size: int, method: Method
) -> _Pair:
    """Return the line of the report about a weight, and its blocks if it is quantized."""
    name = weight.variable.name
    array = np.asarray(model.variables[name])
    row = QuantizedWeight(name, weight.operators, array.shape, array.nbytes, array.nbytes, None)
    depth = array.shape[weight.axis]
    if name.rpartition(".")[0] != scope:
        return _real(row, "it is declared inside of an operator")
    if depth % size:
        return _real(row, f"blocks of {size} do not divide {depth}")
    if not np.isfinite(array).all():
        return _real(row, "it has elements that are infinite or NaN")
    blocks = quantized(array, weight.axis, bits, size, method)
    reals = array.astype(np.float64)
    squares = float((reals * reals).sum())
    difference = reals - blocks.reals()
    error = float(np.sqrt((difference * difference).sum() / squares)) if squares else 0.0
    after = blocks.codes.size * bits // 8 + blocks.scales.nbytes
    return replace(row, after=after, error=error), blocks
