"""Loading of a model's modules: from the text of ``main`` to every module that it needs (2.15).

Input: the source of ``main`` and a loader. Output: parsed modules, ``main`` first, each read once,
and the diagnostics of all texts and imports. Definitions are not examined here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.diagnostics import (
    MAX_REPORTED,
    Diagnostic,
    NnefError,
    Note,
    Source,
    did_you_mean,
)
from tvm_nnef.semantics.program import MAIN, OVERLAY_PREFIX, STDLIB_PREFIX
from tvm_nnef.syntax import nodes

Loader: TypeAlias = Callable[[tuple[str, ...]], "Source | tuple[Source, ...] | None"]
"""A function that returns the text of a module by the parts of its name.

Of several texts the first one to define a name has priority, and the last one is the module's
location.
"""
Parser: TypeAlias = Callable[[str, str, str], nodes.Module]

# What the specification calls its modules.
_STANDARD_NAMES = ("algo", "image", "layout", "linalg", "math", "nn", "quant")


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A parsed module, its imports resolved to the names of modules that were found."""

    name: str
    source: Source
    node: nodes.Module
    imports: tuple[str, ...]

    @property
    def is_standard(self) -> bool:
        """Whether the module belongs to the standard library."""
        return self.source.path.startswith(STDLIB_PREFIX)


def load_modules(
    main: Source, load: Loader, parse: Parser, dialect: str
) -> tuple[Mapping[str, LoadedModule], list[Diagnostic]]:
    """Return all modules that ``main`` needs, in the order in which they are first imported.

    A module that is missing, or whose text does not parse, is omitted and has a diagnostic. Import
    cycles between modules other than ``main`` are allowed.
    """
    diagnostics: list[Diagnostic] = []
    modules: dict[str, LoadedModule] = {}
    tried = {MAIN}
    queue: list[tuple[str, tuple[Source, ...]]] = [(MAIN, (main,))]
    while queue:
        name, sources = queue.pop(0)
        parsed = [_parse(source, parse, dialect, diagnostics) for source in sources]
        texts = [text for text in parsed if text is not None]
        if len(texts) < len(sources):
            continue
        source, node = sources[-1], _merged(texts)
        imports = [item for item in node.imports if str(item.path) != MAIN]
        diagnostics += [_import_of_main(item) for item in node.imports if str(item.path) == MAIN]
        for item in imports:
            wanted = str(item.path)
            if wanted not in tried:
                # What failed is remembered as well, so that it is reported once.
                tried.add(wanted)
                imported = _load(item, load, diagnostics)
                if dialect == "draft":
                    diagnostics += _name_clash(item, imported)
                queue += [(wanted, imported)] if imported else []
        wanted_names = tuple(dict.fromkeys(str(item.path) for item in imports))
        modules[name] = LoadedModule(name, source, node, wanted_names)
    return modules, diagnostics


def _merged(texts: list[nodes.Module]) -> nodes.Module:
    """Return the texts of one module as one; the first definition of a name is used."""
    if len(texts) == 1:
        return texts[0]
    definitions: dict[str, nodes.Definition] = {}
    for text in texts:
        for definition in text.definitions:
            definitions.setdefault(definition.name.name, definition)
    imports = {str(item.path): item for text in texts for item in text.imports}
    return nodes.Module(tuple(imports.values()), tuple(definitions.values()), span=texts[-1].span)


def _load(item: nodes.Import, load: Loader, found: list[Diagnostic]) -> tuple[Source, ...]:
    try:
        imported = load(item.path.parts)
        if imported is None:
            found.append(_missing(item, hint=len(found) < MAX_REPORTED))
    except NnefError as problem:
        found.extend(problem.diagnostics)
        return ()
    if imported is None:
        return ()
    return imported if isinstance(imported, tuple) else (imported,)


def _name_clash(item: nodes.Import, sources: Iterable[Source]) -> list[Diagnostic]:
    """Return the error for a module with the name of a standard one: in the draft, names are
    unique.
    """
    name = str(item.path)
    own = [source for source in sources if not source.path.startswith(STDLIB_PREFIX)]
    if not own or name not in _STANDARD_NAMES:
        return []
    return [
        Diagnostic(
            f"module '{name}' of the model ({own[0].path}) has the name of a standard module",
            item.path.span,
            f"rename it, or move it to a subfolder and write 'import ops.{name};'; only in the "
            "tools dialect a module of the model replaces the standard one",
        )
    ]


def _parse(
    source: Source, parse: Parser, dialect: str, found: list[Diagnostic]
) -> nodes.Module | None:
    # The standard library is shared by the dialects: written in the draft's, its overlay in tools.
    if source.path.startswith(OVERLAY_PREFIX):
        dialect = "tools"
    elif source.path.startswith(STDLIB_PREFIX):
        dialect = "draft"
    try:
        return parse(source.text, source.path, dialect)
    except NnefError as problem:
        found.extend(problem.diagnostics)
        return None


def _import_of_main(item: nodes.Import) -> Diagnostic:
    return Diagnostic(
        "the main module cannot be imported",
        item.path.span,
        "move the operators that both need to their own module",
    )


def _missing(item: nodes.Import, *, hint: bool) -> Diagnostic:
    name = str(item.path)
    near = did_you_mean(name, _STANDARD_NAMES) if hint else None
    where = f"looked for '{'/'.join(item.path.parts)}.sknd' in the model folder"
    return Diagnostic(
        f"there is no module '{name}'",
        item.path.span,
        near or f"{where} and in the standard library",
    )


def check_structure(
    modules: Iterable[LoadedModule],
) -> list[Diagnostic]:
    """Return the structural errors of modules: duplicate names, misplaced graphs, no graph in
    main.
    """
    diagnostics: list[Diagnostic] = []
    for module in modules:
        seen: dict[str, nodes.Definition] = {}
        for definition in module.node.definitions:
            diagnostics.extend(_check_definition_name(definition, seen))
            if definition.kind == "graph" and module.name != MAIN:
                diagnostics.append(
                    Diagnostic(
                        f"graph '{definition.name.name}' is defined in the imported module "
                        f"'{module.name}'",
                        definition.name.span,
                        "only the main module has graphs; make it a 'public operator'",
                    )
                )
        if module.name == MAIN and not any(d.kind == "graph" for d in module.node.definitions):
            diagnostics.append(_no_graph(module))
    return diagnostics


def _check_definition_name(
    definition: nodes.Definition, seen: dict[str, nodes.Definition]
) -> list[Diagnostic]:
    name = definition.name.name
    if name in seen:
        first = Note(f"'{name}' was first defined here", seen[name].name.span)
        return [
            Diagnostic(
                f"'{name}' is defined twice",
                definition.name.span,
                "rename one of the two",
                (first,),
            )
        ]
    seen[name] = definition
    return []


def _no_graph(module: LoadedModule) -> Diagnostic:
    definitions = module.node.definitions
    span = definitions[0].name.span if definitions else module.node.span
    hint = (
        "add a 'graph' that uses the operators, or import this file from a main module"
        if definitions
        else "a model's main.sknd holds at least one 'graph Name { ... }'"
    )
    return Diagnostic("the main module has no graph", span, hint)
