"""The call graph of fragments: infinite recursion, and fragments that depend on wrong ones.

Input: fragments of a document. Output: diagnostics, or names.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.fragments import Signatures
from tvm_nnef.diagnostics import Diagnostic, Note

_SHOWN = 3
"""The number of fragments that are shown at either end of a long cycle."""


def cycles(signatures: Signatures, fragments: tuple[nodes.Fragment, ...]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each cycle of fragments that invoke each other whatever the arguments
    are.
    """
    invoked = {
        each.name.name: list(_unconditional(each))
        for each in fragments
        if signatures.get(each.name.name) is not None and signatures[each.name.name].node is each
    }
    done: set[str] = set()
    for start in invoked:
        path: list[nodes.Invocation] = []
        pending = [iter(invoked[start])] if start not in done else []
        names = {start: 0}
        while pending:
            node = next(pending[-1], None)
            if node is None:
                pending.pop()
                done.add(names.popitem()[0])
                del path[-1:]
            elif node.name.name in names:
                first = names[node.name.name]
                chain = [*list(names)[first:], node.name.name]
                if len(chain) > 2 * _SHOWN:
                    chain = [*chain[:_SHOWN], "…", *chain[-_SHOWN:]]
                shown = path[first:][:_SHOWN]
                notes = tuple(Note("through this", each.span) for each in shown)
                message = (
                    f"fragment '{node.name.name}' invokes itself without end: {' → '.join(chain)}"
                )
                hint = "put the invocation into a branch: 'f(x) if length_of(x) > 0 else 0.0'"
                yield Diagnostic(message, node.span, hint, notes)
            elif node.name.name in invoked and node.name.name not in done:
                names[node.name.name] = len(names)
                path.append(node)
                pending.append(iter(invoked[node.name.name]))


def _unconditional(fragment: nodes.Fragment) -> Iterator[nodes.Invocation]:
    """Yield the invocations that every expansion of a fragment makes."""
    pending = [each.value for each in reversed(fragment.body or ())]
    while pending:
        node = pending.pop()
        if isinstance(node, nodes.Invocation):
            yield node
        match node:
            case nodes.Select(condition=condition):
                pending.append(condition)
            case nodes.Comprehension(iterators=iterators):
                pending += [each.source for each in reversed(iterators)]
            case nodes.Binary(operator=("&&" | "||"), left=left):
                pending.append(left)
            case _:
                pending += reversed(nodes.children(node))


def wrong_fragments(document: nodes.Document, problems: list[Diagnostic]) -> set[str]:
    """Return the fragments that have diagnostics, and those that invoke them."""
    starts = [each.span.start for each in (*document.fragments, document.graph)]
    positions = {bisect(starts, each.span.start) for each in problems if each.span}
    wrong = {
        each.name.name for number, each in enumerate(document.fragments, 1) if number in positions
    }
    invoking: dict[str, list[str]] = {}
    for each in document.fragments:
        for name in (name for item in each.body or () for name in invoked(item)):
            invoking.setdefault(name, []).append(each.name.name)
    pending = list(wrong)
    while pending:
        callers = set(invoking.get(pending.pop(), ())) - wrong
        wrong |= callers
        pending += callers
    return wrong


def invoked(statement: nodes.Assignment) -> Iterator[str]:
    """Yield the operations that a statement invokes."""
    for each in nodes.expressions(statement.value):
        if isinstance(each, nodes.Invocation):
            yield each.name.name
