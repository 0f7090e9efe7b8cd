"""The last step of every converter: a syntax tree, tensors and metadata to a model.

The tree is printed and read back, so that a converted model has gone through the one hallway and
its errors have places in a text that the user can see. Nothing is written to disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_nnef.diagnostics import NnefError, Source
from tvm_nnef.model import Model
from tvm_nnef.semantics.check import check_program
from tvm_nnef.standard_library import standard_module
from tvm_nnef.storage.metadata import Metadata
from tvm_nnef.syntax import nodes, print_module


def assemble(
    main: nodes.Module,
    modules: Mapping[str, str],
    variables: Mapping[str, Any],
    metadata: Metadata,
    *,
    path: str,
    header: str = "",
) -> Model:
    """A model of a main module, texts of modules that come along, and variables by full name.

    ``header`` is put as a comment above the text. Raises NnefError where the converter made what
    is no valid model.
    """
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
    text = f"{comment}\n{print_module(main)}" if comment else print_module(main)
    sources = {name: Source(f"{path}/{name}.sknd", each) for name, each in modules.items()}

    def load(parts: tuple[str, ...]) -> Source | tuple[Source, ...] | None:
        name = ".".join(parts)
        return sources.get(name) or standard_module(name) or None

    program, found = check_program(Source(f"{path}/main.sknd", text), load)
    if program is None:
        raise NnefError(each for each in found if each.severity == "error")
    return Model(program, path, variables, metadata)
