"""The form in which a vendor's module returns a document: in the terms of the specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.fragments import Signatures
from tvm_nnef.converters.nnef1.operators.operation import OperatorFunction
from tvm_nnef.converters.nnef1.scan import Scan


@dataclass(frozen=True)
class Extended:
    """A document without extensions of a vendor, and the declarations of these extensions.

    Parameters
    ----------
    document
        The document as the specification would have it written.
    signatures
        The operations besides the standard ones, and ``functions`` to convert those without a body.
    symbols
        The names of dynamic dimensions, each where it is declared.
    bounds
        The largest values of dynamic dimensions, if the document has them.
    dtypes
        The dtypes of inputs, if the document has them.
    scans
        What the operations that ``signatures`` has for ``tract_core_scan`` do.
    tract_items
        Whether ``.dat`` files may have items of tract: integers marked as quantized, and blocks.
    """

    document: nodes.Document
    signatures: Signatures = field(default_factory=dict)
    functions: Mapping[str, OperatorFunction] = field(default_factory=dict)
    symbols: Mapping[str, nodes.Name] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    scans: Mapping[str, Scan] = field(default_factory=dict)
    tract_items: bool = False
