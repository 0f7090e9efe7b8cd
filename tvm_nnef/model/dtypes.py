"""The option ``dtypes``: dtypes for a model to be composed with, and for its inputs if converted.

The same names mean the same for every kind of model, so a name is either of the types of the
language, of a tensor inside of the model, or of an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tvm_nnef.graph.machine_types import DEFAULTS, assign
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.semantics.program import MAIN


def split_dtypes(dtypes: Mapping[str, Any] | None) -> tuple[dict[str, str], dict[str, str]]:
    """The dtypes for composing a model that is converted first, and those for its conversion.

    Composing has those of ``real``, ``int`` and ``bool`` and of tensors by full name, such as
    ``main.Net.x``; the conversion has the others, which are those of inputs.

    Raises NnefError for what is not a dtype.
    """
    if not dtypes:
        return {}, {}
    from tvm_nnef.graph.machine_types import dtypes_given

    composing: dict[str, str] = {}
    converting: dict[str, str] = {}
    for name, dtype in dtypes_given(dtypes).items():
        is_composing = name in DEFAULTS or name.startswith(f"{MAIN}.")
        (composing if is_composing else converting)[name] = dtype
    return composing, converting


def with_dtypes(
    graph: Graph, prescribed: Mapping[str, str], dtypes: Mapping[str, Any] | None
) -> Graph:
    """The graph with the dtype of every tensor.

    ``prescribed`` are dtypes of tensors that the model asks for, ``dtypes`` those of the user, for
    types and for tensors, which win. Raises NnefError for unknown names and dtypes.
    """
    composing, converting = split_dtypes(dtypes)
    given = composing | converting
    defaults = {name: given.pop(name, dtype) for name, dtype in DEFAULTS.items()}
    return replace(
        graph, machine_types=assign(graph, defaults=defaults, named={**prescribed, **given})
    )
