"""The nodes of expressions (section 2.4), and the root of all nodes.

Dataclasses without any behaviour; :mod:`tvm_nnef.syntax.nodes` exports them. Nothing here
is resolved; an :class:`Identifier` may name an attribute, an extent, a tensor or an index symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tvm_nnef.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the syntax tree, with its span in the text."""

    span: Span = field(compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Integer(Node):
    """``42``"""

    value: int


@dataclass(frozen=True, slots=True)
class Real(Node):
    """``1.5``, ``1e-5``; always finite."""

    value: float


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """``true``, ``false``"""

    value: bool


@dataclass(frozen=True, slots=True)
class NamedConstant(Node):
    """``inf``, ``pi``: both of type real."""

    name: Literal["inf", "pi"]


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A string; adjacent literals are joined. Parts in braces are expressions to be formatted.

    Plain parts hold the characters as they are meant: in the draft ``\\{`` is a brace, in the tools
    dialect a backslash and a brace. Two plain parts are never adjacent, and an empty string
    has no parts.
    """

    parts: tuple[str | Expression, ...]


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    """A single name."""

    name: str


@dataclass(frozen=True, slots=True)
class Path(Node):
    """A dotted name, as in ``nn.conv``; at least one part."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Property(Node):
    """``x.shape``, ``x.rank``, ``x.size``; semantics checks the property's name."""

    target: Identifier
    name: str


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """``int``, ``real``, ``bool``, ``str``, ``num``, ``arith``, ``type``, or a generic's name."""

    name: str


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """``real(x)`` with a type keyword, or the type's default value ``real()`` (argument None).

    A cast to a generic type, ``T(x)``, is written like a call and parsed as :class:`Call`.
    """

    type: TypeName
    argument: Expression | None


@dataclass(frozen=True, slots=True)
class Builtin(Node):
    """A built-in scalar function: `` `exp`(x) `` in the draft, ``exp(x)`` in the tools dialect."""

    function: Identifier
    argument: Expression


@dataclass(frozen=True, slots=True)
class Omitted(Node):
    """``~``: an argument, a result, or an extent left out."""


@dataclass(frozen=True, slots=True)
class AttributeAssignment(Node):
    """``padding=0`` in an invocation."""

    name: Identifier
    value: Expression


@dataclass(frozen=True, slots=True)
class Call(Node):
    """``label: module.operator<real>{a=1}(x, ~)``; also a cast to a generic type, ``T(x)``.

    ``arguments`` is None if no parentheses were written (only in ``@quantize``).
    """

    callee: Path
    generics: tuple[TypeName, ...] = ()
    attributes: tuple[AttributeAssignment, ...] = ()
    arguments: tuple[Expression | Omitted, ...] | None = ()
    label: Identifier | None = None


@dataclass(frozen=True, slots=True)
class Range(Node):
    """``b:e:s`` in a list, or in an index, where each part may be left out."""

    begin: Expression | None
    end: Expression | None
    stride: Expression | None


@dataclass(frozen=True, slots=True)
class Expand(Node):
    """``x..`` (a pack spliced in) or ``x ..(n)`` (an item repeated), in a list or an index."""

    item: Expression
    count: Expression | None


@dataclass(frozen=True, slots=True)
class Zip(Node):
    """``(a, b)..`` in a list: packs interleaved. ``count``: the length after the dots, if any."""

    items: tuple[Expression, ...]
    count: Expression | None


ListItem: TypeAlias = "Expression | Range | Expand | Zip"


@dataclass(frozen=True, slots=True)
class ListExpression(Node):
    """``[1, 2:n, b.., (c, d)..]``"""

    items: tuple[ListItem, ...]


@dataclass(frozen=True, slots=True)
class Subscript(Node):
    """``a[i]``: a pack's item, a slice, a mask, a string's part, or a tensor access.

    ``trailing_comma`` marks ``x[i,]`` (an access to a tensor of rank 1), unlike ``x[i]``.
    """

    target: Expression
    items: tuple[Expression | Range | Expand, ...]
    trailing_comma: bool = False


@dataclass(frozen=True, slots=True)
class Guard(Node):
    """``|i|`` (skip where out of bounds) or ``|i <> below : above|`` (remap), as a tensor index."""

    index: Expression
    below: Expression | None = None
    above: Expression | None = None


@dataclass(frozen=True, slots=True)
class Substitute(Node):
    """``a[i] <- b``"""

    target: Subscript
    value: Expression


UnaryOperator: TypeAlias = Literal["+", "-", "!", "?"]
BinaryOperator: TypeAlias = Literal[
    "+", "-", "*", "/", "\\", "%", "**", "min", "max",
    "<", "<=", ">", ">=", "==", "!=", "&&", "||", "^", "=>", "is", "in",
]  # fmt: skip
FoldOperator: TypeAlias = Literal[
    "+", "*", "min", "max", "&&", "||", "<", "<=", ">", ">=", "==", "!=", ":="
]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``-x``, ``!x``, and the null test ``?x``."""

    operator: UnaryOperator
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Two operands; minimum and maximum (``<<`` and ``>>`` in the draft) have names."""

    operator: BinaryOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Select(Node):
    """``c ? a : b``; without ``b``, null if the condition is false."""

    condition: Expression
    consequent: Expression
    alternative: Expression | None


@dataclass(frozen=True, slots=True)
class Coalesce(Node):
    """``a ?? b``"""

    value: Expression
    fallback: Expression


@dataclass(frozen=True, slots=True)
class Fold(Node):
    """``x + ..``, or ``x + ...`` where cumulative."""

    operator: FoldOperator
    operand: Expression
    cumulative: bool = False


Expression: TypeAlias = (
    "Integer | Real | Boolean | NamedConstant | Text | Identifier | Property | Cast | Builtin"
    " | Call | ListExpression | Subscript | Guard | Substitute | Unary | Binary | Select"
    " | Coalesce | Fold"
)
