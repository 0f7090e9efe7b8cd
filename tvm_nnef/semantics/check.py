"""Checking of a program: from the text of a main module to a :class:`Program` with all diagnostics.

Input: the source of ``main`` and a loader of modules. Output: a :class:`Program` and all
diagnostics, in the order of their positions. Nothing is evaluated with concrete values; conditions
on values (asserts, shapes, ranks) are checked when a graph is composed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from tvm_nnef.diagnostics import MAX_REPORTED, Diagnostic, Source, capped
from tvm_nnef.semantics.blocks import sort_blocks
from tvm_nnef.semantics.bounds import check_bounds
from tvm_nnef.semantics.definition import check_definition
from tvm_nnef.semantics.modules import (
    LoadedModule,
    Loader,
    Parser,
    check_structure,
    load_modules,
)
from tvm_nnef.semantics.names import Report, TooManyErrors
from tvm_nnef.semantics.program import (
    STDLIB_PREFIX,
    CheckedDefinition,
    CheckedModule,
    LazyDefinitions,
    Program,
)
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.dialect import Ambiguity


def check_program(
    main: Source,
    load: Loader,
    *,
    dialect: str = "draft",
    check_stdlib: bool = False,
    parse: Parser | None = None,
    ambiguities: Sequence[Ambiguity] = (),
) -> tuple[Program | None, list[Diagnostic]]:
    """Load and check a model; return the program, and every diagnostic in the order of position.

    ``load`` returns the source of the module with the given name parts, or None. The program is
    None if there are errors. Modules whose path starts with ``<stdlib>/`` are trusted unless
    ``check_stdlib``. ``ambiguities`` are reported as warnings, except for divisions of reals and of
    sizes, which mean the same in both dialects. Errors of users raise no exception (sections 2.2 to
    2.15).
    """
    modules, diagnostics = load_modules(main, load, parse or _parse, dialect)
    program = Program({name: _checked(module) for name, module in modules.items()}, dialect)
    own = [m for m in modules.values() if check_stdlib or not m.is_standard]
    diagnostics += check_structure(own)
    report = Report(diagnostics)
    complete = _check_definitions(program, own, report)
    found_all = [
        *report.found,
        *(
            _ambiguous(each)
            for each in ambiguities
            if (each.span.source.path, each.span.start) not in report.plain_divisions
        ),
    ]
    ordered = capped(sort_diagnostics(found_all, main.path))
    if not complete:
        message = f"checking stopped after {MAX_REPORTED} errors; there are more"
        hint = "correct these first"
        ordered.append(Diagnostic(message, hint=hint, severity="note", file=main.path))
    failed = any(diagnostic.severity == "error" for diagnostic in ordered)
    return None if failed else program, ordered


def _ambiguous(location: Ambiguity) -> Diagnostic:
    message = (
        f"'{location.sign}' is read as the draft means it; Khronos's tools may mean another thing"
    )
    hint = "say which dialect it is: dialect='draft' or 'tools', or a first line '# dialect: tools'"
    return Diagnostic(message, location.span, hint, severity="warning")


def _check_definitions(program: Program, modules: Iterable[LoadedModule], report: Report) -> bool:
    """Add the diagnostics of definitions to the report; return false if it is full."""
    try:
        for module in modules:
            check_bounds(module.node.definitions, report)
            for definition in module.node.definitions:
                check_definition(program, module.name, definition, report)
    except TooManyErrors:
        return False
    return True


def sort_diagnostics(found: Iterable[Diagnostic], first: str) -> list[Diagnostic]:
    """Sort diagnostics by file, ``first`` and then in the order of mention, and by position."""
    diagnostics = list(found)
    files = dict.fromkeys((first, *(diagnostic.path for diagnostic in diagnostics)))
    order = {file: index for index, file in enumerate(files)}
    return sorted(diagnostics, key=lambda d: (order[d.path], d.span.start if d.span else -1))


def _checked(module: LoadedModule) -> CheckedModule:
    named: dict[str, nodes.Definition] = {}
    for definition in module.node.definitions:
        named.setdefault(definition.name.name, definition)

    def build(node: nodes.Definition) -> CheckedDefinition:
        return sort_blocks(module.name, node, standard=module.is_standard)

    return CheckedModule(
        module.name, module.source, module.node, module.imports, LazyDefinitions(named, build)
    )


def _parse(text: str, path: str, dialect: str) -> nodes.Module:
    """Parse a text; trees of standard modules are cached, a user's text is parsed again."""
    if path.startswith(STDLIB_PREFIX):
        return _standard_tree(text, path, dialect)
    from tvm_nnef.syntax.parser import parse

    return parse(text, path, dialect)


@functools.lru_cache(maxsize=32)
def _standard_tree(text: str, path: str, dialect: str) -> nodes.Module:
    """Return the tree of a standard module, parsed once: that takes longer than most checks."""
    from tvm_nnef.syntax.cache import parse_cached

    return parse_cached(text, path, dialect)
