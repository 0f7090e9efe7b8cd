"""Conversion of tract's calls into the terms of the specification, and detection of unsupported
ones.

Input: a document. Output: a document whose attributes match the signatures: tract accepts a number
as an array of one item, and a variable of rank 0 as a scalar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.fragments import Signatures, standard
from tvm_nnef.converters.nnef1.types import ArrayType, has_tensor
from tvm_nnef.diagnostics import Diagnostic
from tvm_nnef.storage.container import Container
from tvm_nnef.storage.tensor_file import read_tensor

_COMPLEX = "it computes with complex numbers"
_STATE = "it keeps a state from one call to the next"
_QUANTIZED = "it computes with quantized integers"
_RANDOM = "its numbers are random"
_DATA = "the shape of its result depends on data"
_NONE = "it has no converter"
REFUSED: Mapping[str, str] = MappingProxyType({
    **dict.fromkeys(
        ("tract_core_fft", "tract_core_stft", "tract_core_complex_to_inner_dim",
         "tract_core_inner_dim_to_complex"), _COMPLEX),
    **dict.fromkeys(
        ("tract_core_delay", "tract_core_store", "tract_core_load",
         "tract_transformers_dyn_kv_cache", "tract_transformers_quantized_dyn_kv_cache"), _STATE),
    **dict.fromkeys(
        ("tract_core_qconv", "tract_core_qmatmul", "tract_core_einsum_q",
         "tract_core_zpscale", "tract_core_zpscale_per_channel"), _QUANTIZED),
    **dict.fromkeys(("tract_onnx_random", "tract_onnx_multinomial"), _RANDOM),
    **dict.fromkeys(("tract_onnx_non_zero", "tract_onnx_non_max_suppression"), _DATA),
    **dict.fromkeys(
        ("tract_core_resize", "tract_core_grid_sample", "tract_core_dyn_slice",
         "tract_core_gru_epilogue", "tract_core_lstm_epilogue", "tract_onnx_lrn",
         "tract_extra_exp_unit_norm", "tract_extra_exp_mean_norm", "tract_shl", "tract_shr",
         "tract_transformers_gdn_recurrent", "tract_transformers_causal_conv1d_update",
         "tract_transformers_scaled_masked_softmax"), _NONE),
    "tract_core_submodel": "it runs a model that is not part of the document",
    "max_pool_with_index": "tract counts its indices over the whole input, not in each window",
})  # fmt: skip
"""The reason why each unsupported operation of tract is not converted."""

OWN = ("square", "recip")
"""Operations of tract that need no registry."""


def refusals(
    document: nodes.Document, operations: Signatures, registries: set[str]
) -> Iterator[Diagnostic]:
    """Yield the errors of calls of tract's operations: a missing converter, or a missing
    registry.
    """
    own = {fragment.name.name for fragment in document.fragments}
    for statement in _statements(document):
        for node in nodes.expressions(statement.value):
            if not isinstance(node, nodes.Invocation) or node.name.name in own:
                continue
            name = node.name.name
            if name in REFUSED:
                message = f"'{name}' cannot be converted: {REFUSED[name]}"
                hint = f"give a function that converts it, after 'fragment {name}( … )' declares it"
                yield Diagnostic(message, node.name.span, hint)
            elif name in operations and not name.startswith((*registries, *OWN)):
                registry = "_".join(name.split("_")[:2])
                message = f"the document does not name the registry of '{name}'"
                yield Diagnostic(
                    message, node.name.span, f"add 'extension tract_registry {registry};'"
                )


def _statements(document: nodes.Document) -> Iterator[nodes.Assignment]:
    for fragment in document.fragments:
        yield from fragment.body or ()
    yield from document.graph.body


def with_attributes(
    document: nodes.Document, operations: Signatures, files: Container | None
) -> nodes.Document:
    """Return the document with arrays or literals for attributes that require them."""
    known = {name: each.parameters for name, each in {**standard(), **operations}.items()}
    known |= {each.name.name: each.parameters for each in document.fragments}
    scalars = _Scalars(document.graph.body, files)

    def call(node: nodes.Expression, in_graph: bool) -> nodes.Expression:
        if not isinstance(node, nodes.Invocation) or node.name.name not in known:
            return node
        parameters = known[node.name.name]
        named = {each.name.name: each for each in parameters}
        arguments = []
        for position, given in enumerate(node.arguments):
            wanted = named.get(given.name.name) if given.name else None
            if given.name is None and position < len(parameters):
                wanted = parameters[position]
            value = given.value
            if wanted is not None and not has_tensor(wanted.type):
                value = scalars.literal(value) if in_graph else value
                value = _array(value) if isinstance(wanted.type, ArrayType) else value
            arguments.append(replace(given, value=value))
        return replace(node, arguments=tuple(arguments))

    def body(
        statements: tuple[nodes.Assignment, ...], in_graph: bool
    ) -> tuple[nodes.Assignment, ...]:
        return tuple(replace(each, value=call(each.value, in_graph)) for each in statements)

    fragments = tuple(
        replace(each, body=body(each.body, False)) if each.body else each
        for each in document.fragments
    )
    graph = replace(document.graph, body=body(document.graph.body, True))
    return replace(document, fragments=fragments, graph=graph)


def _array(value: nodes.Expression) -> nodes.Expression:
    """Return a number as an array of one item."""
    return nodes.Array(value.span, (value,)) if isinstance(value, nodes.Literal) else value


class _Scalars:
    """The variables of rank 0 of a graph, each read when an attribute uses it."""

    def __init__(self, body: tuple[nodes.Assignment, ...], files: Container | None) -> None:
        self._files = files
        self._labels = {
            each.target.name: label
            for each in body
            if isinstance(each.target, nodes.Name) and (label := _label_of_scalar(each.value))
        }

    def literal(self, node: nodes.Expression) -> nodes.Expression:
        """Return the value of a variable of rank 0; any other expression as it is."""
        if not isinstance(node, nodes.Name) or node.name not in self._labels:
            return node
        file = f"{self._labels[node.name]}.dat"
        if self._files is None or not self._files.exists(file):
            return node
        array = read_tensor(self._files.read(file), self._files.location(file)).array
        return node if array.shape else nodes.Literal(node.span, array.item())


def _label_of_scalar(node: nodes.Expression) -> str | None:
    """Return the label of ``variable(shape = [], label = '…')``; None for other expressions."""
    if not isinstance(node, nodes.Invocation) or node.name.name != "variable":
        return None
    arguments = {each.name.name: each.value for each in node.arguments if each.name is not None}
    match arguments.get("shape"), arguments.get("label"):
        case nodes.Array(items=()), nodes.Literal(value=str(label)):
            return label
    return None
