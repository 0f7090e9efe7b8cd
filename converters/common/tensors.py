"""The representation of a converted graph before it becomes a syntax tree: tensors and steps.

Operator functions create them with the :class:`~tvm_nnef.converters.common.builder.Builder`;
``emission`` turns them into nodes. Names are assigned last, so that results have the names of the
source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.converters.common.symbolic import Shape, Size, Symbol, Symbolic, product
from tvm_nnef.converters.common.types import Array, kind
from tvm_nnef.graph.formula import ScalarType


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor of a known dtype and shape; ``value`` is set if it is known before a run.

    ``source`` is its name in the source, empty for a tensor that only the conversion needs.
    ``sizes`` are its elements if they are computed from shapes known only at run time. ``name`` is
    its name in the model, None until names are assigned, ``hint`` the text to derive it from if the
    source has no name. Elements of ``texts`` replace the elements in the source; the elements are
    indices into them. ``is_state`` is true for a variable that an update changes: its value is that
    of the first call only. ``buffered`` is a larger tensor that begins with its elements. Compared
    by identity.
    """

    dtype: str
    shape: Shape
    source: str = ""
    value: Array | None = field(default=None, repr=False)
    name: str | None = None
    hint: str = ""
    sizes: NDArray[np.object_] | None = field(default=None, repr=False)
    texts: tuple[str, ...] = ()
    is_state: bool = False
    buffered: Buffered | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"'{self.source}' {self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def kind(self) -> ScalarType:
        """``real``, ``int`` or ``bool``."""
        return kind(self.dtype)

    @property
    def size(self) -> int:
        """The number of elements; raises Unconvertible if it is known only at run time."""
        return product(self.shape)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Buffered:
    """A tensor of which another one is the first part along an axis."""

    whole: Tensor
    axis: int


@dataclass(eq=False, slots=True)
class Pack:
    """Tensors of one dtype and shape under one name, such as the slices that a loop iterates
    over.
    """

    dtype: str
    shape: Shape
    length: Size
    name: str | None = None
    hint: str = ""
    source: str = ""


Number: TypeAlias = "bool | int | float"
Argument: TypeAlias = "Tensor | Pack | Number | Sequence[Tensor] | None"
"""An argument of an invocation: a tensor, a number, a pack of tensors, or nothing (``~``)."""
Attribute: TypeAlias = "Number | str | Symbolic | Sequence[Number | Size]"
Result: TypeAlias = "Tensor | Pack | tuple[Tensor, ...] | None"
"""A result: a tensor, a pack of tensors, or an omitted one (``~``)."""


@dataclass(frozen=True, slots=True)
class Call:
    """An invocation of an operator by its qualified name."""

    operator: str
    types: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Steps inside a branch or a loop, and their results."""

    steps: tuple[Step, ...]
    yields: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One of two blocks, selected by a bool tensor of one element."""

    condition: Tensor
    consequent: Block
    alternative: Block
    results: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeated block, as :class:`tvm_nnef.graph.nodes.Loop`.

    ``carried`` are the inner names with their initial values; ``scans`` iterate over packs.
    ``condition`` is a carried bool tensor that is evaluated before each step.
    """

    body: Block
    carried: tuple[tuple[Tensor, Tensor | Number], ...]
    scans: tuple[tuple[Tensor, Pack], ...]
    index: Tensor | None
    count: Tensor | Size | None
    condition: Tensor | None
    results: tuple[Result, ...]


Declared: TypeAlias = "tuple[int | Symbol, ...]"
"""The dimensions of a declaration: numbers, and symbols, which it names."""


@dataclass(eq=False, slots=True)
class Operator:
    """The operator of several equal runs of steps.

    Inputs and outputs are declared with ``input_shapes`` and ``output_shapes``. ``symbols`` are the
    dynamic dimensions in no input; they become attributes. ``wanted`` is a suggested name.
    """

    wanted: str
    inputs: tuple[Tensor, ...]
    input_shapes: tuple[Declared, ...]
    outputs: tuple[Tensor, ...]
    output_shapes: tuple[Declared | None, ...]
    steps: tuple[Step, ...]
    symbols: tuple[Symbol, ...]
    name: str | None = None


@dataclass(eq=False, slots=True)
class Invocation:
    """An invocation of such an operator, and the ``steps`` that it replaces.

    The steps correspond to those of the operator one by one, with the tensors of this repetition.
    ``wanted`` is a suggested label.
    """

    operator: Operator
    arguments: tuple[Tensor, ...]
    results: tuple[Tensor | None, ...]
    steps: tuple[Step, ...]
    wanted: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive steps, which may be equal to another run.

    ``read`` has the tensors from outside, as often as they are read, ``given`` each tensor that the
    steps compute and other steps read, None instead of the others. ``wiring`` has for each operand
    the index of the result of the run that it is, -1 for operands from outside.
    """

    steps: tuple[Step, ...]
    read: tuple[Tensor, ...]
    given: tuple[Tensor | None, ...]
    wiring: tuple[int, ...]


Step: TypeAlias = "Call | Branch | Loop | Invocation"


@dataclass(frozen=True, slots=True)
class ConvertedGraph:
    """A graph in steps, all of which are needed.

    ``updates`` are variables and their values for the next run. ``quantized`` are tensors and their
    quantizers: an operator of one input with its attributes (``@quantize``). ``defaults`` are the
    values of inputs that a call may omit, by their names in the source; ``fixed_inputs`` the names
    of inputs of the source that became constants.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    updates: tuple[tuple[Tensor, Tensor], ...] = ()
    quantized: tuple[tuple[Tensor, Call], ...] = ()
    defaults: Mapping[str, Array] = field(default_factory=dict, repr=False)
    fixed_inputs: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[Tensor, ...]:
        """The tensors that are read after the last step."""
        return (*self.outputs, *(new for _, new in self.updates))
