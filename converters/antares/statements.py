"""Conversion of statements into operators of SkriptND, one for each, and the graph that invokes
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tvm_nnef.converters.antares import axes, fused, guards, nodes
from tvm_nnef.converters.antares.nodes import Axis, Number, Statement
from tvm_nnef.converters.antares.scalars import Typed, Writer, completed
from tvm_nnef.converters.common.names import Namer
from tvm_nnef.diagnostics import NnefError, error
from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.syntax import parse
from tvm_nnef.syntax.nodes import Definition

MAX_ELEMENTS = 1 << 40
"""Upper limit of the elements of a result."""

ASSIGNMENTS = {"=": "=", "=.": ":=", "+=!": "+=", ">=!": ">=", "<=!": "<="}
_INITIAL = {">=!": "-inf", "<=!": "inf"}


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph by its name there; ``source`` is its name in Antares IR."""

    name: str
    source: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def declaration(self) -> str:
        """The tensor's declaration in SkriptND."""
        return f"{self.name}: {DTYPES[self.dtype]}[{', '.join(map(str, self.shape))}];"


@dataclass
class Conversion:
    """The state after the statements so far.

    ``current`` has the tensors of names, ``results`` all that statements compute. ``broken`` has
    the names of those that are wrong, or that read a wrong one.
    """

    current: dict[str, Tensor] = field(default_factory=dict)
    inputs: tuple[Tensor, ...] = ()
    results: list[Tensor] = field(default_factory=list)
    operators: list[Definition] = field(default_factory=list)
    components: list[str] = field(default_factory=list)
    names: Namer = field(default_factory=Namer)
    broken: set[str] = field(default_factory=set)

    def add_inputs(self, declared: Mapping[str, tuple[tuple[int, ...], str]]) -> None:
        """Declare the inputs of the graph."""
        self.inputs = tuple(
            Tensor(self.names.name(name), name, *each) for name, each in declared.items()
        )
        self.current.update((each.source, each) for each in self.inputs)

    def add(self, statement: Statement) -> Tensor:
        """Convert a statement. Raises NnefError for errors in it."""
        shapes = {name: each.shape for name, each in self.current.items()}
        statement = _with_axes_only(statement)
        self._check_target(statement)
        lengths = axes.axis_lengths(statement, shapes)
        statement = _simplified(statement, lengths)
        statement = guards.with_guards(statement, lengths, shapes)
        axes.check_bounds(statement, lengths, shapes)
        statement, lengths, views = fused.divided(statement, lengths, shapes)
        read = self._operands(statement, views)
        return self._operator(statement, lengths, read)

    def _check_target(self, statement: Statement) -> None:
        target = statement.target
        known = self.current.get(target.tensor)
        if statement.operator == "=.":
            if known is None:
                message = f"'{target.tensor}' has no elements that '=.' could replace"
                hint = "list it in input_dict, or compute it with '=' before"
                raise error(message, target.span, hint=hint)
            return
        if known is not None:
            what = "an input" if known in self.inputs else "computed before"
            message = f"'{target.tensor}' is {what} and cannot be assigned"
            raise error(message, target.span, hint="use another name, or '=.' to replace elements")
        seen: set[str] = set()
        for index in target.indices:
            if not isinstance(index, Axis):
                hint = "only '=.' writes to computed indices; compute the index on the right side"
                raise error("an index on the left side must be an axis", index.span, hint=hint)
            if index.name in seen:
                hint = "use an axis for each dimension, and .when([A == B], …)"
                raise error(f"axis '{index.name}' occurs twice", index.span, hint=hint)
            seen.add(index.name)
        if statement.is_reduction:
            return
        for node in nodes.walk(statement.value):
            if isinstance(node, Axis) and node.name not in seen:
                message = f"axis '{node.name}' is not on the left side"
                hint = "reduce over it with '+=!', '>=!' or '<=!'"
                raise error(message, node.span, hint=hint)

    def _operands(self, statement: Statement, views: Iterable[fused.View]) -> dict[str, Tensor]:
        """Return the tensors that a statement reads, in order; views are made in the graph."""
        accesses = [*nodes.accesses(statement.value)]
        for index in statement.target.indices:
            accesses += nodes.accesses(index)
        if statement.operator == "=.":
            accesses.insert(0, statement.target)
        operands = {each.tensor: self.current[each.tensor] for each in accesses}
        for view in views:
            whole, at = operands[view.tensor], view.dimension
            shape = (*whole.shape[:at], *view.lengths, *whole.shape[at + 1 :])
            name = self.names.name(f"{whole.name}_view")
            attributes = f"axis={at}, rank=1, shape=[{', '.join(map(str, view.lengths))}]"
            self.components.append(f"{name} = layout.reshape{{{attributes}}}({whole.name});")
            operands[view.tensor] = Tensor(name, whole.source, shape, whole.dtype)
            self.results.append(operands[view.tensor])
        return operands

    def _operator(
        self, statement: Statement, lengths: Mapping[str, int], read: Mapping[str, Tensor]
    ) -> Tensor:
        target = statement.target
        name = self.names.name(target.tensor)
        declared = Namer([name, *(each.name for each in read.values())])
        names = {axis: declared.name(axis) for axis in lengths}
        known = {**self.current, **read}
        tensors = {source: (each.name, each.dtype) for source, each in known.items()}
        writer = Writer(names, tensors)
        value = completed(writer.scalar(statement.value))
        result = self._result(statement, name, value, lengths)
        loops = [f"{names[axis]} < {length}" for axis, length in lengths.items()]
        if statement.operator == "=.":
            lines = [_copied(result, read[target.tensor].name, declared)]
            value = _stored(value, result.dtype)
        else:
            lines = _initial(statement, result, writer, lengths)
        left = f"{name}{writer.indices(target)} {ASSIGNMENTS[statement.operator]}"
        lines.append(f"{', '.join([f'{left} {value.text}', *loops])};")
        operator = self.names.name(f"compute_{name}")
        text = _operator_text(operator, read.values(), result, lines)
        self.operators += _parsed(text, statement)
        operands = ", ".join(each.name for each in read.values())
        self.components.append(f"{name} = {operator}({operands});")
        self.results.append(result)
        self.current[target.tensor] = result
        return result

    def _result(
        self, statement: Statement, name: str, value: Typed, lengths: Mapping[str, int]
    ) -> Tensor:
        target = statement.target
        if statement.operator == "=.":
            known = self.current[target.tensor]
            return Tensor(name, target.tensor, known.shape, known.dtype)
        shape = tuple(lengths[each.name] for each in target.indices if isinstance(each, Axis))
        elements = 1
        for length in shape:
            elements *= length
        if elements > MAX_ELEMENTS:
            message = f"'{target.tensor}' has more than 2^40 elements"
            raise error(message, statement.span, hint="use shorter axes")
        return Tensor(name, target.tensor, shape, value.dtype)


def _with_axes_only(statement: Statement) -> Statement:
    """Return a statement whose target has an axis of length 1 for each index 0."""
    if statement.operator == "=.":
        return statement
    lengths = dict(statement.lengths)
    indices = list(statement.target.indices)
    for position, index in enumerate(indices):
        if isinstance(index, Number) and index.value == 0:
            indices[position] = Axis(index.span, f"_{position}")
            lengths[f"_{position}"] = 1, index.span
    target = replace(statement.target, indices=tuple(indices))
    return replace(statement, target=target, lengths=lengths)


def _simplified(statement: Statement, lengths: Mapping[str, int]) -> Statement:
    target = axes.simplified(statement.target, lengths)
    assert isinstance(target, nodes.Access)
    return replace(statement, target=target, value=axes.simplified(statement.value, lengths))


def _stored(value: Typed, dtype: str) -> Typed:
    """Return a value that is stored in a tensor that exists already."""
    kind = DTYPES[dtype]
    return value if value.kind == kind else Typed(f"{kind}({value.text})", dtype)


def _initial(
    statement: Statement, result: Tensor, writer: Writer, lengths: Mapping[str, int]
) -> list[str]:
    """Return the initial value that SkriptND requires for a min or max."""
    if statement.operator not in _INITIAL:
        return []
    limit = _INITIAL[statement.operator]
    target_axes = [each.name for each in statement.target.indices if isinstance(each, Axis)]
    loops = [f"{writer.axes[axis]} < {lengths[axis]}" for axis in target_axes]
    value = f"int({limit})" if DTYPES[result.dtype] == "int" else limit
    access = f"{result.name}{writer.indices(statement.target)}"
    return [f"{', '.join([f'{access} = {value}', *loops])};"]


def _copied(result: Tensor, source: str, declared: Namer) -> str:
    """Return the statement that copies elements that '=.' does not replace."""
    names = [declared.name(f"i{axis}") for axis in range(len(result.shape))]
    indices = f"[{', '.join(names)}{',' if len(names) == 1 else ''}]"
    loops = [f"{name} < {length}" for name, length in zip(names, result.shape, strict=True)]
    return f"{', '.join([f'{result.name}{indices} = {source}{indices}', *loops])};"


def _parsed(text: str, statement: Statement) -> tuple[Definition, ...]:
    """Return the operator of a statement. Raises NnefError if it is too deep for SkriptND."""
    try:
        return tuple(parse(text).definitions)
    except NnefError as problem:
        message = f"the statement cannot be converted: {problem.diagnostics[0].message}"
        raise error(message, statement.span, hint="use statements for parts of it") from problem


def _operator_text(name: str, read: Iterable[Tensor], result: Tensor, lines: list[str]) -> str:
    inputs = " ".join(each.declaration for each in read)
    block = f"@input {{ {inputs} }}\n" if inputs else ""
    body = "\n".join(lines)
    return (
        f"operator {name} {{\n{block}@output {{ {result.declaration} }}\n@lower {{\n{body}\n}}\n}}"
    )
