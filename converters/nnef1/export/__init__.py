"""Export of a composed Graph as NNEF 1.0.4: a folder or an archive with ``graph.nnef`` and ``.dat``
files.

========================  =========================================================================
module                    content
========================  =========================================================================
``values``, ``emitter``   tensors and statements of the exported graph
``operators``             a function for each operator that NNEF 1 can express (``registry``)
``invocation``            an operation as such a function reads it
``walk``, ``context``     the operations of a Graph, one after the other; composites are expanded
``model``, ``writing``    the texts and arrays of the model, and its files
========================  =========================================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tvm_nnef.converters.nnef1.export.model import Exported, exported
from tvm_nnef.converters.nnef1.export.writing import write
from tvm_nnef.graph.nodes import Graph

__all__ = ["Exported", "exported", "write", "write_model"]


def write_model(
    graph: Graph,
    variables: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    source_names: Mapping[str, str] | None = None,
) -> None:
    """Write a graph and its variables as an NNEF 1 model.

    Raises NnefError, which lists everything that NNEF 1 cannot express.
    """
    write(exported(graph, variables, source_names), path, overwrite=overwrite)
