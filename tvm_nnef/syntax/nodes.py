"""The syntax tree of SkriptND (NNEF 2.0 draft, chapter 2): frozen nodes with their spans.

Two trees are equal when they mean the same text up to white space, comments, redundant
parentheses and the spelling of the dialect: spans take no part in comparisons. Nothing here is
resolved; an :class:`Identifier` may name an attribute, an extent, a tensor or an index symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tvm_nnef.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Node:
    """Anything that stands somewhere in a text."""

    span: Span = field(compare=False, repr=False, kw_only=True)


# --- expressions (section 2.4) --------------------------------------------------------------


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

    Plain parts hold the characters as they are meant, with ``\\{`` already unescaped; two plain
    parts never stand side by side, and an empty string has no parts.
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
    """A built-in scalar function, written between back-ticks in the draft."""

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

    ``arguments`` is None where no parentheses were written (only in ``@quantize``).
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

    ``trailing_comma`` tells ``x[i,]`` (an access to a tensor of rank 1) from ``x[i]``.
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
    """``c ? a : b``; without ``b``, null where the condition is false."""

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


# --- types and parameters (sections 2.3, 2.5 to 2.7) ----------------------------------------


@dataclass(frozen=True, slots=True)
class Pack(Node):
    """``..`` or ``..(n)`` behind a type, an extent or a name."""

    length: Expression | None


@dataclass(frozen=True, slots=True)
class Extent(Node):
    """One item of a shape: ``n``, ``s..(d)``, ``..z`` (one per tensor of a pack), ``~|10``."""

    value: Expression | Omitted
    bound: Expression | None = None
    pack: Pack | None = None
    per_item: bool = False


@dataclass(frozen=True, slots=True)
class TypeSpec(Node):
    """``optional real^(r)[m, s..]..(k)``; a shape of None is no shape, ``()`` is rank 0."""

    name: TypeName
    optional: bool = False
    rank: Identifier | None = None
    shape: tuple[Extent, ...] | None = None
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class LoopBound(Node):
    """``i < n``"""

    index: Identifier
    extent: Expression


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """An attribute, input, output, constant or variable. Only constants have ``bounds``."""

    name: Identifier
    type: TypeSpec
    default: Expression | None = None
    bounds: tuple[LoopBound, ...] = ()


@dataclass(frozen=True, slots=True)
class DtypeDefinition(Node):
    """``T: num = real;``"""

    name: Identifier
    base: TypeName
    default: TypeName | None = None


# --- statements (sections 2.8 to 2.14) ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameTarget(Node):
    """A name on the left, as in ``y``, ``y: real[n]`` or ``ys..(k)``."""

    name: Identifier
    type: TypeName | None = None
    shape: tuple[Extent, ...] | None = None
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class ZipTarget(Node):
    """``(a, b)..`` inside a list on the left."""

    names: tuple[NameTarget, ...]
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class ListTarget(Node):
    """``[a, b..]`` on the left."""

    items: tuple[NameTarget | ZipTarget | Omitted, ...]


Target: TypeAlias = "NameTarget | ListTarget | ZipTarget | Omitted"


@dataclass(frozen=True, slots=True)
class Using(Node):
    """``name = expression;`` in ``@using``."""

    target: Target
    value: Expression


@dataclass(frozen=True, slots=True)
class Detail(Node):
    """A value printed with a failed assertion; the label defaults to the expression's text."""

    label: Text | None
    value: Expression


@dataclass(frozen=True, slots=True)
class Assertion(Node):
    """``condition: "message", detail, 'label': detail;``"""

    condition: Expression
    message: Text | None = None
    details: tuple[Detail, ...] = ()


@dataclass(frozen=True, slots=True)
class IterationCount(Node):
    """``..(n)``, ``..(i -> n)``, ``..(i ->)``; never both None."""

    index: Identifier | None
    count: Expression | None


@dataclass(frozen=True, slots=True)
class LocalValue(Node):
    """``z = x[i..] * 2.0,`` in front of a formula's assignment."""

    name: Identifier
    value: Expression


LoweringOperator: TypeAlias = Literal["=", ":=", "+=", "*=", "&=", "|=", "min=", "max="]


@dataclass(frozen=True, slots=True)
class Lowering(Node):
    """One formula of ``@lower``."""

    target: Subscript
    operator: LoweringOperator
    value: Expression
    bounds: tuple[LoopBound, ...] = ()
    condition: Expression | None = None
    locals: tuple[LocalValue, ...] = ()
    unroll: IterationCount | None = None


@dataclass(frozen=True, slots=True)
class Scope(Node):
    """``label: { components yield a, b; }``"""

    components: tuple[Component, ...]
    yields: tuple[Expression, ...]
    label: Identifier | None = None


@dataclass(frozen=True, slots=True)
class BranchArm(Node):
    """A condition and what follows when it holds."""

    condition: Body
    consequent: Body


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """``if c then a elif d then b else e``"""

    arms: tuple[BranchArm, ...]
    alternative: Body


@dataclass(frozen=True, slots=True)
class Carried(Node):
    """``sum: real[n] = 0.0`` in a ``with`` clause."""

    name: Identifier
    value: Expression
    type: TypeName | None = None
    shape: tuple[Extent, ...] | None = None


@dataclass(frozen=True, slots=True)
class Scan(Node):
    """``x : xs`` in a ``for`` clause."""

    name: Identifier
    value: Expression


@dataclass(frozen=True, slots=True)
class Loop(Node):
    """``with … for … while … do..(i -> n) body while …`` (at most one ``while``)."""

    body: Body
    carried: tuple[Carried, ...] = ()
    scans: tuple[Scan, ...] = ()
    condition: Body | None = None
    post_test: bool = False
    unroll: bool = False
    iteration: IterationCount | None = None


Body: TypeAlias = "Expression | Scope"
"""What stands in a branch or a loop: an invocation, a block, or an expression of tensors."""


@dataclass(frozen=True, slots=True)
class Component(Node):
    """``a, [b, c..(k)] = operator(x);`` in ``@compose`` or ``@update``."""

    targets: tuple[Target, ...]
    value: Body | Branch | Loop


@dataclass(frozen=True, slots=True)
class Quantization(Node):
    """``scope.tensor: quant.operator{scale=0.1};``"""

    tensor: Path
    quantizer: Call


# --- definitions and modules (sections 2.2, 2.15) -------------------------------------------

BlockKind: TypeAlias = Literal[
    "dtype", "attrib", "input", "using", "constant", "variable", "output",
    "assert", "lower", "compose", "update", "quantize",
]  # fmt: skip
Statement: TypeAlias = (
    "DtypeDefinition | Parameter | Using | Assertion | Lowering | Component | Quantization"
)


@dataclass(frozen=True, slots=True)
class Block(Node):
    """``@kind { statements }``; all statements are of the class that the kind asks for."""

    kind: BlockKind
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Definition(Node):
    """An operator or a graph, its blocks in the order of the text."""

    kind: Literal["operator", "graph"]
    name: Identifier
    blocks: tuple[Block, ...]
    public: bool = False


@dataclass(frozen=True, slots=True)
class Import(Node):
    """One name of an ``import a, b.c;``."""

    path: Path


@dataclass(frozen=True, slots=True)
class Module(Node):
    """A file."""

    imports: tuple[Import, ...]
    definitions: tuple[Definition, ...]
