"""The dimensions that an operator declares: equal ones as numbers, others under names.

Input: for each input and output the tensors that take this part. Output: declared shapes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from tvm_nnef.converters.common.symbolic import Size, Symbol, Symbolic
from tvm_nnef.converters.common.tensors import Call, Declared, Invocation, Step, Tensor
from tvm_nnef.symbolic import dimensions

_LETTERS = {3: "ncl", 4: "nchw", 5: "ncdhw"}
"""What the dimensions of what goes through a network are often called, by rank."""

_OTHERS = "cdefgijkmpqrs"


@dataclass(slots=True)
class Dimensions:
    """Names for dimensions that differ from one invocation to the next; the same for equal ones.

    ``symbols`` are the dynamic dimensions of the graph given by an input.
    """

    symbols: set[Symbol] = field(default_factory=set)
    _named: dict[Hashable, Symbol] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def of_input(self, group: Sequence[Tensor]) -> Declared:
        """The shape of an input; what is not the same in all invocations gets a name."""
        shape: list[int | Symbol] = []
        for key, found in _keyed(group):
            declared = self._known(found)
            if declared is None:
                if key not in self._named:
                    self._named[key] = Symbol(self._letter(group[0], len(shape)), 0)
                declared = self._named[key]
            elif isinstance(declared, Symbol):
                self.symbols.add(declared)
            shape.append(declared)
        return tuple(shape)

    def of_output(self, group: Sequence[Tensor]) -> Declared | None:
        """The shape of an output if it follows from the inputs, else None."""
        shape = []
        for key, found in _keyed(group):
            declared = self._known(found)
            if declared is None or (isinstance(declared, Symbol) and declared not in self.symbols):
                declared = self._named.get(key)
            if declared is None:
                return None
            shape.append(declared)
        return tuple(shape)

    def _known(self, found: Sequence[Size]) -> int | Symbol | None:
        """A dimension that is the same in all invocations: a number, or a dimension with a name."""
        first = found[0]
        if any(str(each) != str(first) for each in found):
            return None
        if isinstance(first, int):
            return first
        return first.symbols.get(str(first))

    def _letter(self, tensor: Tensor, axis: int) -> str:
        usual = _LETTERS.get(tensor.rank, "") if tensor.value is None else ""
        wanted = [*usual[axis : axis + 1], *_OTHERS]
        found = next((each for each in wanted if each not in self._taken), "s")
        self._taken.add(found)
        return found


def _keyed(group: Sequence[Tensor]) -> Iterator[tuple[Hashable, tuple[Size, ...]]]:
    """The dimensions of all tensors, dimension after dimension, and what these are known by.

    Height and width are two things, even where they are equal in each invocation.
    """
    spatial: list[Hashable] = []
    for axis, found in enumerate(zip(*(each.shape for each in group), strict=True)):
        values = tuple(map(str, found))
        is_spatial = axis > 1 and group[0].value is None
        yield (values, spatial.count(values) if is_spatial else 0), found
        spatial += [values] * is_spatial


def unbound(steps: Sequence[Step], declared: Dimensions) -> Iterator[Symbol]:
    """The dynamic dimensions that steps need and no input has, each once."""
    yield from dict.fromkeys(each for each in _symbols(steps) if each not in declared.symbols)


def _symbols(steps: Sequence[Step]) -> Iterator[Symbol]:
    for step in steps:
        match step:
            case Call(attributes=attributes):
                for value in attributes.values():
                    for item in value if isinstance(value, (list, tuple)) else (value,):
                        if isinstance(item, Symbolic):
                            names = dimensions.symbols(item.dimension)
                            yield from (item.symbols[name] for name in names)
            case Invocation(operator):
                yield from operator.symbols
