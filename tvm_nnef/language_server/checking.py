"""Diagnostics of the model of a document, and the shapes of its tensors.

Input: the path of a document, and the texts of all open documents by path. Output: the diagnostics
of ``tvm-nnef check`` by path, and texts to show after names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_nnef.api.checking import check
from tvm_nnef.diagnostics import Diagnostic, NnefError, Span, Suggestion
from tvm_nnef.formats.reading import load_model
from tvm_nnef.formats.registry import SKRIPTND, OpenedSource
from tvm_nnef.language_server.files import EditedFiles, files_of
from tvm_nnef.model.model import Model
from tvm_nnef.semantics.program import MAIN, CheckedDefinition
from tvm_nnef.stdlib.library import is_standard_file
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import nodes_of


def diagnostics_of(
    path: str, texts: Mapping[str, str], search_path: Sequence[str] = ()
) -> dict[str, list[Diagnostic]]:
    """The diagnostics of the model of a document, by the path of the file that each is about.

    What is wrong with no text (a missing variable, say) is reported for the document; nothing is
    wrong with the standard library.
    """
    found: dict[str, list[Diagnostic]] = {path: []}
    if is_standard_file(Path(path)):
        return found
    try:
        files = files_of(path, texts, search_path)
        problems = check(_opened(files))
    except NnefError as problem:
        problems = list(problem.diagnostics)
    for each in problems:
        if each.span is not None:
            found.setdefault(each.span.source.path, []).append(each)
        elif each.severity != "note":
            found[path].append(each)
    return {name: each for name, each in found.items() if not name.startswith("<")}


@dataclass(frozen=True, slots=True)
class Shown:
    """A text that an editor shows at an offset."""

    offset: int
    text: str


def shapes_of(path: str, texts: Mapping[str, str], search_path: Sequence[str] = ()) -> list[Shown]:
    """The types and shapes of the tensors that the graphs of a document name, where known.

    Graphs whose attributes or input shapes only a caller knows have none.
    """
    try:
        files = files_of(path, texts, search_path)
        if files.location(files.main) != path:
            return []
        model = load_model(_opened(files), variables={})
    except NnefError:
        return []
    return [shown for graph in model.program.graphs for shown in _shapes_in(model, graph)]


def _shapes_in(model: Model, definition: CheckedDefinition) -> Iterator[Shown]:
    from tvm_nnef.composition import compose_graph
    from tvm_nnef.graph.nodes import every_tensor
    from tvm_nnef.symbolic import trees

    try:
        graph = compose_graph(model.program, graph=definition.name)
    except NnefError:
        return
    tensors = {tensor.name: tensor for tensor in every_tensor(graph)}
    for component in definition.components:
        for target in nodes_of(nodes.NameTarget, component.targets):
            tensor = tensors.get(f"{MAIN}.{definition.name}.{target.name.name}")
            if tensor is not None and target.type is None:
                shape = ", ".join(map(trees.text, tensor.shape))
                yield Shown(target.name.span.end, f": {tensor.type}[{shape}]")


def span_of(diagnostic: Diagnostic) -> Span:
    """Where a diagnostic of a text is shown: at least one character, if there is one."""
    assert diagnostic.span is not None
    span = diagnostic.span
    if span.start < span.end:
        return span
    return Span(span.source, span.start, min(span.start + 1, len(span.source.text)))


def correction_of(diagnostic: Diagnostic) -> tuple[Span, str] | None:
    """Where a name is misspelt, and the name that is meant, if the hint of a diagnostic says so."""
    hint, span = diagnostic.hint, diagnostic.span
    if span is None or not isinstance(hint, Suggestion):
        return None
    found = re.search(rf"(?<!\w){re.escape(hint.name)}(?!\w)", span.text)
    if found is None:
        return None
    return Span(span.source, span.start + found.start(), span.start + found.end()), hint.word


def _opened(files: EditedFiles) -> OpenedSource:
    return OpenedSource(files, files.path, SKRIPTND, files)
