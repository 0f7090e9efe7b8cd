"""The dimensions that an outlined operator declares: equal ones as numbers, others as names.

Input: for each input and output the tensors of all invocations. Output: declared shapes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from tvm_nnef.converters.common.symbolic import Size, Symbol, Symbolic
from tvm_nnef.converters.common.tensors import Call, Declared, Invocation, Step, Tensor
from tvm_nnef.symbolic import dimensions

_LETTERS = {3: "ncl", 4: "nchw", 5: "ncdhw"}
"""Usual names of the dimensions of feature maps, by rank."""

_OTHERS = "cdefgijkmpqrs"


@dataclass(slots=True)
class Dimensions:
    """Names for dimensions that differ between invocations; the same name for equal ones.

    ``symbols`` are the dynamic dimensions of the graph given by an input.
    """

    symbols: set[Symbol] = field(default_factory=set)
    _named: dict[Hashable, Symbol] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def of_input(self, group: Sequence[Tensor]) -> Declared:
        """Return the shape of an input.

        A dimension that differs between invocations gets a name.
        """
        shape: list[int | Symbol] = []
        for key, sizes in _keyed(group):
            declared = self._known(sizes)
            if declared is None:
                if key not in self._named:
                    self._named[key] = Symbol(self._letter(group[0], len(shape)), 0)
                declared = self._named[key]
            elif isinstance(declared, Symbol):
                self.symbols.add(declared)
            shape.append(declared)
        return tuple(shape)

    def of_output(self, group: Sequence[Tensor]) -> Declared | None:
        """Return the shape of an output if it follows from the inputs; else None."""
        shape = []
        for key, found in _keyed(group):
            declared = self._known(found)
            if declared is None or (isinstance(declared, Symbol) and declared not in self.symbols):
                declared = self._named.get(key)
            if declared is None:
                return None
            shape.append(declared)
        return tuple(shape)

    def _known(self, sizes: Sequence[Size]) -> int | Symbol | None:
        """Return a dimension that is the same in all invocations: a number, or a named dimension;
        else None.
        """
        first = sizes[0]
        if any(str(each) != str(first) for each in sizes):
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
    """Yield for each dimension a key, and its sizes in all tensors.

    Height and width have different keys, even if they are equal in each invocation.
    """
    spatial: list[Hashable] = []
    for axis, found in enumerate(zip(*(each.shape for each in group), strict=True)):
        values = tuple(map(str, found))
        is_spatial = axis > 1 and group[0].value is None
        yield (values, spatial.count(values) if is_spatial else 0), found
        spatial += [values] * is_spatial


def unbound(steps: Sequence[Step], declared: Dimensions) -> Iterator[Symbol]:
    """Yield the dynamic dimensions that steps need and no input has, each once."""
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
