"""A contraction as a SkriptND operator: declarations of its tensors, and a formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm_nnef.converters.common.names import Namer
from tvm_nnef.converters.tile.dimensions import Dim, Product, Quotient, Symbol, is_at_least
from tvm_nnef.converters.tile.indices import IndexExpression, Variable
from tvm_nnef.converters.tile.ranges import Bounded, Nest
from tvm_nnef.converters.tile.tracing import Aggregation
from tvm_nnef.syntax import nodes, parse


@dataclass
class Operand:
    """A tensor that a contraction reads or writes: its name, type and sizes."""

    name: str
    kind: str
    sizes: tuple[Dim, ...]


@dataclass
class Written:
    """An operator, and the sizes that are its attributes, by name."""

    definition: nodes.Definition
    attributes: dict[str, Dim]


@dataclass
class _Names:
    """The names of an operator: sizes of its inputs, attributes, and indices."""

    namer: Namer
    sizes: dict[Dim, str] = field(default_factory=dict)
    attributes: dict[str, Dim] = field(default_factory=dict)
    indices: dict[Variable, str] = field(default_factory=dict)

    def declare(self, operand: Operand) -> str:
        """Return the declaration of an input; new sizes get names."""
        for axis, size in enumerate(operand.sizes):
            if size.number is None and size not in self.sizes:
                symbol = size.symbol
                wanted = symbol.name if symbol else ""
                self.sizes[size] = self.namer.name(wanted or f"{operand.name}_{axis}")
        shape = ", ".join(map(self.size, operand.sizes))
        return f"{operand.name}: {operand.kind}[{shape}];"

    def size(self, size: Dim) -> str:
        """Return the text of a size."""
        if size in self.sizes:
            return self.sizes[size]
        terms = [(factor, self._atom(atom)) for atom, factor in size.terms.items()]
        return linear([*terms, (size.constant, "")])

    def _atom(self, atom: object) -> str:
        assert isinstance(atom, (Symbol, Quotient))
        own = Dim({atom: 1})
        if own in self.sizes:
            return self.sizes[own]
        if isinstance(atom, Symbol):
            name = self.namer.name(atom.name or "size")
            self.sizes[own] = name
            self.attributes[name] = own
            return name
        sign = "*" if isinstance(atom, Product) else "/"
        left, right = (_grouped(self.size(each)) for each in (atom.left, atom.right))
        return f"({left} {sign} {right})"

    def index(self, expression: IndexExpression) -> str:
        """Return the text of an index expression."""
        terms = [(factor, self.indices[each]) for each, factor in expression.terms.items()]
        constant = expression.constant
        if constant in self.sizes:
            return linear([*terms, (1, self.sizes[constant])])
        terms += [(factor, self._atom(atom)) for atom, factor in constant.terms.items()]
        return linear([*terms, (constant.constant, "")])


def linear(terms: Sequence[tuple[int, str]]) -> str:
    """Return the text of a sum of factors and names; a number has no name."""
    text = ""
    nonzero = [each for each in terms if each[0]]
    # A sum that starts with a sign is harder to read.
    first = next((i for i, each in enumerate(nonzero) if each[0] > 0), 0)
    for factor, name in [*nonzero[first : first + 1], *nonzero[:first], *nonzero[first + 1 :]]:
        size = abs(factor)
        part = str(size) if not name else name if size == 1 else f"{size} * {name}"
        sign = "-" if factor < 0 else "+"
        text = f"{text} {sign} {part}" if text else f"-{part}" if factor < 0 else part
    return text or "0"


def _grouped(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def write(
    name: str,
    nest: Nest,
    operator: Aggregation,
    operands: Sequence[Operand],
    read: Sequence[str],
    combination: str,
    output: Operand,
) -> Written:
    """Return the operator of a contraction.

    ``read`` names the operand of each element that is read.
    """
    names = _names(name, nest, operands, output)
    inputs = [names.declare(each) for each in operands]
    access = [
        _access(names, nest, own, subscripts)
        for own, subscripts in zip(read, nest.problem.operands, strict=True)
    ]
    value = f" {combination} ".join(access)
    conditions = [
        each for own in nest.problem.constraints for each in _conditions(names, nest, own)
    ]
    return _operator(name, names, nest, inputs, output, operator, value, conditions)


def write_mask(name: str, nest: Nest, operands: Sequence[Operand], output: Operand) -> Written:
    """Return the operator that computes which elements of the output are written.

    It has no inputs: sizes are attributes.
    """
    names = _names(name, nest, operands, output)
    checked = [each for own in nest.problem.operands for each in own]
    conditions = [
        each
        for own in (*checked, *nest.problem.constraints)
        for each in _conditions(names, nest, own)
    ]
    unique = list(dict.fromkeys(conditions))
    return _operator(name, names, nest, [], output, "|=", "true", unique)


def _names(name: str, nest: Nest, operands: Sequence[Operand], output: Operand) -> _Names:
    names = _Names(Namer([name, output.name, *(each.name for each in operands)]))
    # Sizes are more important for a reader than indices: they keep their names.
    reserved = {s.name for each in operands for size in each.sizes if (s := size.symbol)}
    inner = Namer([name, output.name, *(each.name for each in operands), *reserved])
    for variable in nest.extents:
        names.indices[variable] = inner.name(variable.name or "i")
    names.namer = Namer(
        [name, output.name, *(each.name for each in operands), *names.indices.values()]
    )
    return names


def _operator(
    name: str,
    names: _Names,
    nest: Nest,
    inputs: Sequence[str],
    output: Operand,
    operator: str,
    value: str,
    conditions: Sequence[str],
) -> Written:
    shape = ", ".join(map(names.size, output.sizes))
    written = _access(names, nest, output.name, nest.problem.output)
    loops = "".join(
        f", {names.indices[variable]} < {_size(names, size, output)}"
        for variable, size in nest.extents.items()
    )
    condition = f" | {' && '.join(conditions)}" if conditions else ""
    formula = f"{written} {operator} {value}{loops}{condition};"
    # Texts above have found the attributes.
    attributes = "".join(f"{each}: int; " for each in names.attributes)
    attributes = f"@attrib {{ {attributes}}}" if attributes else ""
    text = (
        f"operator {name} {{ {attributes} @input {{ {' '.join(inputs)} }} "
        f"@output {{ {output.name}: {output.kind}[{shape}]; }} @lower {{ {formula} }} }}"
    )
    (definition,) = parse(text, f"<{name}>").definitions
    return Written(definition, names.attributes)


def _size(names: _Names, size: Dim, output: Operand) -> str:
    text = names.size(size)
    if is_at_least(size, 0) or size in names.sizes or size in output.sizes:
        return text
    # Without any valid indices a range is empty, not of negative length.
    return f"({text} >> 0)"


def _access(names: _Names, nest: Nest, tensor: str, subscripts: Sequence[Bounded]) -> str:
    parts = []
    for each in subscripts:
        text = names.index(each.expression)
        parts.append(text if nest.holds(each) else f"|{text}|")
    return f"{tensor}[{', '.join(parts)}]"


def _conditions(names: _Names, nest: Nest, bounded: Bounded) -> list[str]:
    text = names.index(bounded.expression)
    lower = [] if nest.is_nonnegative(bounded) else [f"{text} >= 0"]
    return lower if nest.is_below(bounded) else [*lower, f"{text} < {names.size(bounded.size)}"]
