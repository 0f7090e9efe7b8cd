"""Declarations: generic types, parameter types, and the symbols that shapes declare (2.5 to 2.7).

Input: parameters of a definition. Output: symbols in a context's names, their types checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from tvm_nnef.diagnostics import Note, did_you_mean
from tvm_nnef.semantics import expected, hints, lists
from tvm_nnef.semantics.affine import affine, declared_symbol, literal, literal_length
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.names import Report, Symbol, SymbolKind, used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.semantics.types import (
    ABSTRACT,
    ANY,
    CONCRETE,
    INT,
    UNKNOWN,
    Generics,
    Type,
    dtype_hint,
)
from tvm_nnef.syntax import nodes

_INT = frozenset({"int"})


def declare(symbol: Symbol, context: Context) -> None:
    """Make a name visible, or report that it is in use."""
    first = context.names.find(symbol.name)
    if symbol.name in context.generics.bases:
        context.report.error(
            f"'{symbol.name}' is already the name of a generic type", symbol.span, "rename one"
        )
    elif first is not None:
        context.report.error(
            f"'{symbol.name}' is already declared as {_article(first.description)}",
            symbol.span,
            "names are unique within a definition; rename one of the two",
            (Note(f"'{symbol.name}' was first declared here", first.span),),
        )
        # Which of the two is meant by a use is not known.
        symbol = replace(symbol, type=replace(UNKNOWN, packed=symbol.type.packed), shape=None)
    context.names.declare(symbol)


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def declare_generics(definitions: tuple[nodes.DtypeDefinition, ...], report: Report) -> Generics:
    """Return the generic types of ``@dtype`` (2.13)."""
    bases: dict[str, str] = {}
    for definition in definitions:
        name, base, default = definition.name.name, definition.base.name, definition.default
        if name in bases:
            report.error(
                f"the type '{name}' is declared twice",
                definition.name.span,
                "remove one of the two, or rename it",
            )
        if base not in ABSTRACT:
            report.error(
                f"'{base}' restricts nothing",
                definition.base.span,
                "write 'type', 'arith' or 'num'",
            )
            base = "type"
        bases[name] = base
        if default is not None and default.name not in ABSTRACT[base]:
            report.error(
                f"the default type '{default.name}' of '{name}' is not allowed by '{base}'",
                default.span,
                f"'{base}' allows {', '.join(sorted(ABSTRACT[base]))}",
            )
    return Generics(bases)


def base_type(name: nodes.TypeName, context: Context) -> str:
    """Return the base type that a type name denotes in a parameter or a target."""
    if context.generics.knows(name.name):
        return name.name
    if name.name in ABSTRACT:
        context.report.error(
            f"'{name.name}' is not a concrete type",
            name.span,
            f"declare a generic type in '@dtype', as in 'T: {name.name};', and use 'T'",
        )
    else:
        known = [*sorted(CONCRETE), *context.generics.bases]
        context.report.error(
            f"unknown type '{name.name}'",
            name.span,
            dtype_hint(name.name)
            or did_you_mean(name.name, known)
            or f"declare it in '@dtype', as in '{name.name}: num;'",
        )
    return ANY


def parameter_type(parameter: nodes.Parameter, context: Context, tensor: bool) -> Type:
    """Return the type of a declared parameter."""
    kind = parameter.type
    declared_type = Type(
        base_type(kind.name, context),
        packed=kind.pack is not None,
        optional=kind.optional,
        tensor=tensor,
        length=literal_length(kind.pack),
    )
    if tensor and declared_type.base == "str":
        context.report.error(
            "there are no tensors of strings", kind.name.span, "use int, real or bool"
        )
    return declared_type if declared_type.base != ANY else replace(declared_type, poison=True)


def declare_parameter(parameter: nodes.Parameter, kind: SymbolKind, context: Context) -> Symbol:
    """Declare the name of a parameter; return its symbol."""
    tensor = kind != "attribute"
    declared_type = parameter_type(parameter, context, tensor)
    symbol = Symbol(
        parameter.name.name, kind, declared_type, parameter.name.span, parameter.type.shape
    )
    declare(symbol, context)
    return symbol


@dataclass(frozen=True, slots=True)
class Shapes:
    """Checks of shapes, which declare their symbols.

    ``role``: the shape of an input declares symbols, that of an output those with an upper bound,
    that of a constant or variable none.
    """

    context: Context
    role: Literal["input", "output", "local"]
    conditions: dict[str, list[nodes.Expression]] = field(default_factory=dict)

    def check(self, parameter: nodes.Parameter) -> None:
        """Check pack length, rank and extents in the order in which they are bound."""
        kind = parameter.type
        optional = kind.optional
        if kind.pack is not None and kind.pack.length is not None:
            self._bind(kind.pack.length, replace(INT, optional=optional))
            self._int(kind.pack.length, "the length of a pack of tensors")
        if kind.rank is not None:
            self._bind(kind.rank, replace(INT, optional=optional))
            self._int(kind.rank, "the rank of a tensor")
        for extent in kind.shape or ():
            self.check_extent(extent, optional, packed=kind.pack is not None)

    def check_extent(self, extent: nodes.Extent, optional: bool, packed: bool) -> None:
        """Check one item of a shape."""
        context = self.context
        if extent.per_item and not packed:
            context.report.error(
                "a dimension per item needs a pack of tensors",
                extent.span,
                "write '..' after the shape to declare a pack",
            )
        if extent.per_item and extent.pack is not None:
            context.report.error(
                "a dimension per item is a single one, not a pack of dimensions",
                extent.span,
                "write '..n' for one dimension of each tensor, or 's..' for all tensors alike",
            )
        length = extent.pack.length if extent.pack else None
        flag = None
        if length is not None:
            self._bind(length, replace(INT, optional=optional))
            if lists.infer_length(length, context).base == "bool":
                flag = length
        if extent.bound is not None:
            self._int(extent.bound, "an upper bound")
        if isinstance(extent.value, nodes.Omitted):
            return
        many = extent.per_item or (extent.pack is not None and flag is None)
        count = literal_length(extent.pack) if many else None
        symbol = Type("int", many, optional or flag is not None, length=count)
        self._bind(extent.value, symbol, flag, bounded=extent.bound is not None)
        self._check_value(extent, extent.value)

    def _check_value(self, extent: nodes.Extent, value: nodes.Expression) -> None:
        found = expected.expect(value, self.context, _INT, "a dimension")
        if found.poison or is_negative(value, "a dimension", self.context):
            return
        text = value.span.text
        if found.packed and extent.pack is None and not extent.per_item:
            self.context.report.error(
                f"'{text}' is a pack of dimensions", value.span, f"write '{text}..'"
            )
        elif not found.packed and extent.per_item:
            self.context.report.error(
                f"'{text}' is one dimension, not one per item", value.span, f"write '{text}'"
            )
        elif not found.packed and extent.pack is not None and extent.pack.length is None:
            self.context.report.error(
                f"'{text}' is a single dimension and needs a count to be repeated",
                extent.span,
                f"write '{text} ..(n)'",
            )

    def _int(self, expression: nodes.Expression, what: str) -> None:
        if is_negative(expression, what, self.context):
            return
        found = expected.expect(expression, self.context, _INT, what)
        if found.packed and not found.poison:
            self.context.report.error(
                f"{what} must be a single value",
                expression.span,
                hints.single(expression.span.text),
            )

    def _bind(
        self,
        expression: nodes.Expression,
        kind: Type,
        flag: nodes.Expression | None = None,
        *,
        bounded: bool = False,
    ) -> None:
        if self.role == "local" or (self.role == "output" and not bounded):
            return
        if bounded:
            self._check_bounded(expression)
        bind_symbol(expression, kind, self.context)
        form = affine(expression)
        if flag is not None and form is not None and form.symbol is not None:
            seen = self.conditions.setdefault(form.symbol, [])
            if any(are_complementary(flag, other) for other in seen):
                require(form.symbol, self.context)
            seen.append(flag)

    def _check_bounded(self, expression: nodes.Expression) -> None:
        """Check that the expression of a bounded extent is not an attribute: it is known only at
        run time.
        """
        for name in used_names(expression):
            symbol = self.context.names.find(name.name)
            if symbol is not None and symbol.kind in ("attribute", "helper"):
                self.context.report.error(
                    f"{symbol.description} '{name.name}' is used as a dynamic dimension",
                    name.span,
                    "a dimension with an upper bound has its own name, or '~'; a dimension that "
                    "an attribute gives has no bound",
                    (Note(f"'{name.name}' is declared here", symbol.span),),
                )
                return


def is_negative(expression: nodes.Expression, what: str, context: Context) -> bool:
    """Report an extent or a length that is a negative literal."""
    value = literal(expression)
    if value is None or value >= 0:
        return False
    context.report.error(f"{what} cannot be negative", expression.span, hints.NOT_NEGATIVE)
    return True


def bind_symbol(expression: nodes.Expression, kind: Type, context: Context) -> None:
    """Declare the symbol of an affine expression, or record that a known one is never null."""
    name = declared_symbol(expression, context.names)
    if name is not None:
        location = next(used for used in used_names(expression) if used.name == name)
        context.names.declare(Symbol(name, "dimension", kind, location.span))
        return
    form = affine(expression)
    if form is not None and form.symbol is not None and not kind.optional:
        require(form.symbol, context)


def require(name: str, context: Context) -> None:
    """Record that an extent is never null."""
    symbol = context.names.find(name)
    if symbol is not None and symbol.kind == "dimension" and symbol.type.optional:
        context.names.declare(replace(symbol, type=symbol.type.required))


def check_shape_given(
    parameter: nodes.Parameter, definition: CheckedDefinition, context: Context
) -> None:
    """Check that the tensors of an operator have shapes, unless its composition determines them."""
    if parameter.type.shape is None and not definition.is_composed:
        context.report.error(
            f"'{parameter.name.name}' has no shape",
            parameter.type.span,
            f"write '{parameter.type.name.name}[]' for rank 0, '[s..]' for any rank",
        )


def bind_unknown(parameter: nodes.Parameter, context: Context) -> None:
    """Declare all names in a shape that could not be bound, so that they are reported once."""
    kind = parameter.type
    for name in used_names((kind.pack, kind.rank, kind.shape)):
        if context.names.find(name.name) is None and name.name not in context.elsewhere:
            context.names.declare(Symbol(name.name, "dimension", UNKNOWN, name.span))


def are_complementary(one: nodes.Expression, other: nodes.Expression) -> bool:
    """Whether exactly one of two conditions holds, by their form: ``c`` and ``!c``."""
    match one, other:
        case nodes.Unary(operator="!", operand=operand), _ if operand == other:
            return True
        case _, nodes.Unary(operator="!", operand=operand) if operand == one:
            return True
        case nodes.Binary(), nodes.Binary():
            same = (one.left, one.right) == (other.left, other.right)
            return same and {one.operator, other.operator} == {"==", "!="}
    return False
