"""The nodes of types, statements, definitions and modules: everything but expressions.

Dataclasses without any behaviour; :mod:`tvm_nnef.syntax.nodes` exports them. A field that only one
dialect can write has a default for its absence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tvm_nnef.syntax.expressions import (
    Call,
    Expression,
    Identifier,
    Node,
    Omitted,
    Path,
    Subscript,
    Text,
    TypeName,
)

# --- types and parameters (sections 2.3, 2.5 to 2.7) ----------------------------------------


@dataclass(frozen=True, slots=True)
class Pack(Node):
    """``..`` or ``..(n)`` after a type, an extent or a name.

    Only in the tools dialect: ``..(static n)``, ``..(dynamic n)``, and ``..(n|4)`` with a bound.
    """

    length: Expression | None
    static: bool = False
    dynamic: bool = False
    bound: Expression | None = None


@dataclass(frozen=True, slots=True)
class Extent(Node):
    """One item of a shape: ``n``, ``s..(d)``, ``..z`` (one per tensor of a pack), ``~|10``.

    Only in the tools dialect: ``static n``, an extent that is known when the model is composed.
    """

    value: Expression | Omitted
    bound: Expression | None = None
    pack: Pack | None = None
    per_item: bool = False
    static: bool = False


@dataclass(frozen=True, slots=True)
class TypeSpec(Node):
    """``optional real^(r)[m, s..]..(k)``; a shape of None is not a shape, ``()`` is rank 0.

    Only in the tools dialect: ``dynamic int``, an attribute that may depend on dynamic extents.
    """

    name: TypeName
    optional: bool = False
    rank: Identifier | None = None
    shape: tuple[Extent, ...] | None = None
    pack: Pack | None = None
    dynamic: bool = False


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
    """``z = x[i..] * 2.0,`` before a formula's assignment."""

    name: Identifier
    value: Expression


LoweringOperator: TypeAlias = Literal["=", ":=", "+=", "*=", "&=", "|=", "min=", "max="]


@dataclass(frozen=True, slots=True)
class Lowering(Node):
    """A formula of ``@lower``: an assignment to elements of a tensor."""

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
"""The body of a branch or a loop: an invocation, a block, or an expression of tensors."""


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
    """A name that an ``import a, b.c;`` imports."""

    path: Path


@dataclass(frozen=True, slots=True)
class Module(Node):
    """A file."""

    imports: tuple[Import, ...]
    definitions: tuple[Definition, ...]
