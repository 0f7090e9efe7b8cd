"""Rewriting of ``tract_core_scan``: a fragment that is invoked for each part of tensors, with a
state.

Input: statements. Output: statements, declarations and :class:`Scan` descriptions. An invocation
names its fragment in a string and mixes tensors with numbers, which the types of NNEF 1 do not
allow, so each is rewritten to an invocation of a separate declaration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.types import INTEGER, Type
from tvm_nnef.diagnostics import Diagnostic, NnefError, Span, did_you_mean, error

NAME = "tract_core_scan"
_HINT = (
    'write tract_core_scan(body = "fragment", scan = [("parameter", tensor, axis, 1)], '
    'full = [("parameter", tensor)], state = [("parameter", first, "result")], '
    'output = [("result", "full", axis, 1)])'
)


@dataclass(frozen=True)
class Scan:
    """The operands of a scan, by the parameters and results of its fragment.

    Parameters
    ----------
    body
        The fragment.
    scanned
        The parameters that take a part in each step. In the declaration the tensor has the same
        name, followed by numbers ``NAME_axis`` and ``NAME_pace``.
    whole
        The parameters that take the same tensor in each step.
    carried
        The parameters that take a result of the step before, with the names of these results.
    outputs
        Results of the fragment, and whether those of all steps are joined or the last one is
        taken. The numbers of the n-th one are ``n_axis`` and ``n_pace``.
    """

    body: str
    scanned: tuple[str, ...]
    whole: tuple[str, ...]
    carried: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, bool], ...]


@dataclass
class Scans:
    """The scans of a document that were rewritten, with their declarations."""

    fragments: Mapping[str, nodes.Fragment]
    scans: dict[str, Scan] = field(default_factory=dict)
    declarations: list[nodes.Fragment] = field(default_factory=list)

    def rewrite(self, body: Sequence[nodes.Assignment]) -> tuple[nodes.Assignment, ...]:
        """Return the statements with scans as invocations of declarations.

        Raises NnefError for wrong scans.
        """
        return tuple(
            replace(each, value=self._invocation(each.value))
            if isinstance(each.value, nodes.Invocation) and each.value.name.name == NAME
            else each
            for each in body
        )

    def _invocation(self, node: nodes.Invocation) -> nodes.Invocation:
        given = {each.name.name: each.value for each in node.arguments if each.name is not None}
        if len(given) < len(node.arguments) or not {"body", "output"} <= set(given):
            raise error(f"the arguments of '{NAME}' are not complete", node.span, hint=_HINT)
        _check_defaults(given)
        fragment = self._fragment(given["body"])
        types = {each.name.name: each.type for each in fragment.parameters}
        types |= {each.name.name: each.type for each in fragment.results}
        scanned = dict(_rows(given, "scan", 4))
        whole = dict(_rows(given, "full", 2))
        states = dict(_rows(given, "state", 3))
        outputs = list(_rows(given, "output", 4))
        results = [name for name, _ in outputs]
        carried = {name: _string(row[2]) for name, row in states.items()}
        for name in (*scanned, *whole, *states, *results, *carried.values()):
            if name not in types:
                hint = did_you_mean(name, types) or f"names are {', '.join(types)}"
                message = f"the fragment '{fragment.name.name}' has no '{name}'"
                raise error(message, node.span, hint=hint)
        tensors = [(name, row[1]) for name, row in (scanned | whole | states).items()]
        rows = [*scanned.items(), *((str(n), row) for n, (_, row) in enumerate(outputs, 1))]
        numbers = [
            (f"{name}_{kind}", row[position])
            for name, row in rows
            for kind, position in (("axis", 2), ("pace", 3))
        ]
        name = f"{NAME}_{len(self.scans) + 1}"
        declared = [(each, types[each]) for each, _ in tensors]
        declared += [(each, INTEGER) for each, _ in numbers]
        made = [(f"{number}_{each}", types[each]) for number, each in enumerate(results, 1)]
        self.declarations.append(_declaration(name, node.span, declared, made))
        self.scans[name] = Scan(
            fragment.name.name, tuple(scanned), tuple(whole), tuple(carried.items()),
            tuple((each, _is_full(row[1])) for each, row in outputs),
        )  # fmt: skip
        arguments = tuple(
            nodes.Argument(value.span, nodes.Name(value.span, each), value)
            for each, value in (*tensors, *numbers)
        )
        return replace(node, name=nodes.Name(node.name.span, name), arguments=arguments)

    def _fragment(self, node: nodes.Expression) -> nodes.Fragment:
        name = _string(node)
        found = self.fragments.get(name)
        if found is None or found.body is None or found.generic:
            hint = did_you_mean(name, self.fragments) or "name one that the document defines"
            raise error(f"there is no fragment '{name}' with a body", node.span, hint=hint)
        return found


def _declaration(
    name: str,
    span: Span,
    parameters: Sequence[tuple[str, Type]],
    results: Sequence[tuple[str, Type]],
) -> nodes.Fragment:
    """Return a fragment without a body, by the names and types of its parameters and results."""

    def at(text: str) -> nodes.Name:
        return nodes.Name(span, text)

    return nodes.Fragment(
        span, at(name), False, None,
        tuple(nodes.Parameter(span, at(each), type_, None) for each, type_ in parameters),
        tuple(nodes.Result(span, at(each), type_) for each, type_ in results), None,
    )  # fmt: skip


def _rows(
    given: Mapping[str, nodes.Expression], argument: str, length: int
) -> Iterator[tuple[str, tuple[nodes.Expression, ...]]]:
    """Yield the tuples of an argument, by the name that is first in each."""
    node = given.get(argument)
    if node is None:
        return
    rows = node.items if isinstance(node, nodes.Array) else (node,)
    for row in rows:
        if not isinstance(row, nodes.Tuple) or len(row.items) != length:
            raise error(f"'{argument}' of '{NAME}' is not an array of tuples of {length} items",
                        row.span, hint=_HINT)  # fmt: skip
        yield _string(row.items[0]), row.items


def _string(node: nodes.Expression) -> str:
    if isinstance(node, nodes.Literal) and isinstance(node.value, str):
        return node.value
    raise error("expected a name in quotation marks", node.span, hint=_HINT)


def _is_full(node: nodes.Expression) -> bool:
    found = _string(node)
    if found not in ("full", "last"):
        raise error(f"'{found}' is not an output of a scan", node.span, hint="full, last")
    return found == "full"


def _check_defaults(given: Mapping[str, nodes.Expression]) -> None:
    """Raise NnefError for arguments that need tract's state between runs."""
    for name, neutral in (("skip", 0), ("reset_every_turn", False)):
        node = given.get(name)
        if node is not None and not (isinstance(node, nodes.Literal) and node.value == neutral):
            hint = f"only '{name} = {str(neutral).lower()}' has a meaning without streaming"
            raise error(f"'{name}' of '{NAME}' cannot be converted", node.span, hint=hint)


def rewritten(document: nodes.Document, problems: list[Diagnostic]) -> tuple[nodes.Document, Scans]:
    """Return a document with its scans as invocations of declarations; append diagnostics."""
    scans = Scans({each.name.name: each for each in document.fragments})

    def body(statements: tuple[nodes.Assignment, ...]) -> tuple[nodes.Assignment, ...]:
        try:
            return scans.rewrite(statements)
        except NnefError as problem:
            problems.extend(problem.diagnostics)
            return statements

    fragments = tuple(
        each if each.body is None else replace(each, body=body(each.body))
        for each in document.fragments
    )
    graph = replace(document.graph, body=body(document.graph.body))
    return replace(document, fragments=fragments, graph=graph), scans


def steps_of(sizes: Sequence[tuple[int, int]], span: Span) -> int:
    """Return the number of steps for dimensions and their paces.

    Raises NnefError if they differ.
    """
    hint = "paces are -1 or positive, and divide dimensions into equal numbers of parts"
    for size, pace in sizes:
        if pace == 0 or pace < -1 or size % abs(pace):
            raise error(f"a pace of {pace} for a dimension of {size}", span, hint=hint)
    found = {size // abs(pace) for size, pace in sizes}
    if len(found) != 1:
        counts = " and ".join(map(str, sorted(found))) or "no"
        raise error(f"its tensors have {counts} parts", span, hint=hint)
    return found.pop()
