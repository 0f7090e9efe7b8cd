"""A composed Graph to ONNX: ``export`` makes a ModelProto of it, ``write`` a file.

Nothing is read back here; ``tvm_nnef.converters.onnx.convert`` goes the other way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tvm_nnef.converters.onnx.export.model import export, exported
from tvm_nnef.converters.onnx.export.writing import Exported, write
from tvm_nnef.graph.nodes import Graph

__all__ = ["Exported", "export", "exported", "write", "write_model"]


def write_model(
    graph: Graph,
    variables: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    source_names: Mapping[str, str] | None = None,
) -> None:
    """Write a graph and its variables as a ``.onnx`` file; one that exists is always replaced.

    Raises NnefError for what ONNX cannot express, all of it at once.
    """
    write(exported(graph, variables), path)
