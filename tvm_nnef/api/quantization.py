"""``quantize``: a model with weights of few bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.api.building import composed
from tvm_nnef.diagnostics import ModelError, error, raised_as
from tvm_nnef.formats.reading import load_to_compose
from tvm_nnef.model.model import Model
from tvm_nnef.quantization.blocks import Blocks, quantized
from tvm_nnef.quantization.kinds import BITS, BLOCKS, Kind, Method
from tvm_nnef.quantization.report import QuantizationReport, QuantizedWeight
from tvm_nnef.quantization.rewriting import pack_of, with_codes
from tvm_nnef.quantization.weights import Weight
from tvm_nnef.quantization.weights import weights as weights_of
from tvm_nnef.support.argument_kinds import with_checked_arguments


@raised_as(ModelError)
@with_checked_arguments
def quantize(
    model: Any,
    data: Iterable[Any] | None = None,
    *,
    weights: Kind | None = None,
    block: int | None = None,
    method: Method = "minmax",
    keep_float: int = 0,
    **options: Any,
) -> Model:
    """Quantize the weights of products and embeddings to codes of few bits.

    A weight becomes codes in bytes, and a scale for each block of them along the axis that a
    product sums over. What is computed stays real. Compiled products read the codes, so that a
    model is smaller, and faster for few rows.

    Parameters
    ----------
    model
        A model of any kind.
    data
        Inputs for a calibration of activations, which are not quantized yet: leave it out.
    weights
        The kind of codes: ``"int4"``, ``"int8"`` or ``"int2"``.
    block
        The codes that share a scale: 16, 32 (the default), 64, 128 or 256.
    method
        ``"minmax"`` rounds to the nearest code, of a scale that fits the largest element of a
        block. ``"mse"`` chooses the scale of the least squared error: it may clip large elements.
    keep_float
        How many weights stay real: those of the largest errors.
    **options
        Those of :func:`compose` and, for a model of another format, of :func:`convert`.

    Returns
    -------
    Model
        The model; its ``quantization_report`` has the error of each weight.

    Raises
    ------
    ModelError
        For errors in the model, unknown kinds and sizes, and a model without such weights.

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
    >>> w = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
    >>> model = tvm_nnef.load_model(text, variables={"main.G.w": w})
    >>> tvm_nnef.quantize(model, weights="int4", block=32).quantization_report
    <QuantizationReport: 1 of 1 weights>
    """
    if data is not None or weights is None:
        hint = 'quantize weights alone: weights="int4", block=32'
        raise error("activations cannot be quantized yet", hint=hint)
    size = 32 if block is None else block
    if not isinstance(weights, str) or weights not in BITS:
        raise error(f"unknown kind of weights '{weights}'", hint=f"use {_listed(BITS)}")
    if size not in BLOCKS:
        raise error(f"blocks of {size} are not possible", hint=f"use {_listed(BLOCKS)}")
    loaded, composing = load_to_compose(model, options)
    graph = composed(loaded, composing)
    found = [each for each in weights_of(graph) if each.variable.name in loaded.variables]
    if not found:
        hint = "products and embeddings whose weights are variables of rank 2 can be quantized"
        raise error("there is no weight to quantize", hint=hint, file=loaded.path)
    scope = graph.name
    made = [_quantized(each, loaded, scope, BITS[weights], size, method) for each in found]
    ordered = sorted(made, key=lambda pair: -(pair[0].error or 0.0))
    largest = [row.name for row, blocks in ordered if blocks is not None][:keep_float]
    ordered = [
        _real(row, "one of the largest errors") if row.name in largest else (row, blocks)
        for row, blocks in ordered
    ]
    ordered = [_with_its_pack(pair, ordered, loaded) for pair in ordered]
    rows = [row for row, _ in ordered]
    chosen = {row.name.removeprefix(f"{scope}."): blocks for row, blocks in ordered if blocks}
    report = QuantizationReport(tuple(rows), BITS[weights], size)
    return replace(with_codes(loaded, scope, chosen), quantization_report=report)


_Pair: TypeAlias = "tuple[QuantizedWeight, Blocks | None]"


def _real(row: QuantizedWeight, reason: str) -> _Pair:
    """Return a weight that stays real."""
    return replace(row, after=row.before, stays=reason), None


def _with_its_pack(pair: _Pair, every: Sequence[_Pair], model: Model) -> _Pair:
    """Return a weight; it stays real unless all items of its pack, if any, get codes alike."""
    row, blocks = pair
    if blocks is None:
        return pair
    pack, kind = pack_of(row.name), (blocks.axis, blocks.codes.shape)
    alike = sum(
        found is not None and (found.axis, found.codes.shape) == kind
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
    """What the report says about a weight, and its blocks if it is quantized."""
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
