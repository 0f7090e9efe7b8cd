"""Extensions of vendors that have an exact meaning in SkriptND, by the name of the vendor.

A vendor's module has ``extended(document, files) -> Extended``. It is applied only if the user
names the vendor; other extensions stay in the document and are reported as errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tvm_nnef.converters.nnef1 import nodes, tract
from tvm_nnef.converters.nnef1.dialect import Extended
from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.storage.container import Container

VENDORS: Mapping[str, Callable[[nodes.Document, Container | None], Extended]] = MappingProxyType(
    {"tract": tract.extended}
)


def extended(document: nodes.Document, vendor: str | None, files: Container | None) -> Extended:
    """Return a document in the terms of the specification; ``files`` hold its variables.

    Raises NnefError for an unknown vendor.
    """
    if vendor is None:
        return Extended(document)
    if vendor not in VENDORS:
        hint = did_you_mean(vendor, VENDORS) or f"vendors are {', '.join(VENDORS)}"
        raise error(f"unknown vendor of extensions '{vendor}'", hint=hint)
    return VENDORS[vendor](document, files)
