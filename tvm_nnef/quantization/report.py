"""Report of a quantization: sizes, ranges and errors of each weight or operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm_nnef.support.html_table import html_table
from tvm_nnef.support.text_table import text_table


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A weight: the operators that read it, its bytes before and after, and its relative error.

    The error is that of the root mean square: so large is that of a product with data that do not
    depend on it. Of a weight that ``stays`` real, for a reason, it is None or what it would be.
    """

    heads: ClassVar = ("weight", "operators", "shape", "bytes", "error")
    name: str
    operators: tuple[str, ...]
    shape: tuple[int, ...]
    before: int
    after: int
    error: float | None
    stays: str = ""

    def cells(self) -> tuple[str, ...]:
        """The columns of a table."""
        size = f"{self.before} -> {self.after}" if not self.stays else f"{self.before}"
        shape = "x".join(map(str, self.shape))
        return self.name, ", ".join(self.operators), shape, size, _note(self.error, self.stays)

    def to_json(self) -> dict[str, object]:
        """Return the row as JSON."""
        return {
            "name": self.name, "operators": list(self.operators), "shape": list(self.shape),
            "bytes_before": self.before, "bytes_after": self.after, "error": self.error,
            "stays": self.stays,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuantizedOperator:
    """An operator whose operands are codes: the tensor that is rounded for it, and its error.

    The error is that of its result for operands without errors: the root mean square of what
    rounding of operand, weight and bias changes, relative to the result.
    """

    heads: ClassVar = ("operation", "operator", "input", "range", "error")
    name: str
    operator: str
    input: str
    range: tuple[float, float] | None
    error: float | None
    stays: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the columns of a table."""
        limits = "" if self.range is None else "{:.4g} to {:.4g}".format(*self.range)
        return self.name, self.operator, self.input, limits, _note(self.error, self.stays)

    def to_json(self) -> dict[str, object]:
        """Return the row as JSON."""
        return {
            "name": self.name, "operator": self.operator, "input": self.input,
            "range": None if self.range is None else list(self.range), "error": self.error,
            "stays": self.stays,
        }  # fmt: skip


def _note(error: float | None, stays: str) -> str:
    known = "" if error is None else f"{error:.2%}"
    return f"{known} stays real: {stays}".strip() if stays else known


@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """Weights, or operators if activations are quantized, those of the largest errors first.

    ``block`` is how many codes share a scale; None for one for each output. ``samples`` is the
    number of inputs that ranges are from.
    """

    weights: tuple[QuantizedWeight, ...] = ()
    operators: tuple[QuantizedOperator, ...] = ()
    bits: int = 8
    block: int | None = None
    samples: int = 0

    @property
    def rows(self) -> tuple[QuantizedWeight, ...] | tuple[QuantizedOperator, ...]:
        """Return the weights or the operators."""
        return self.operators or self.weights

    @property
    def quantized(self) -> tuple[QuantizedWeight | QuantizedOperator, ...]:
        """Those that are codes now."""
        return tuple(each for each in self.rows if not each.stays)

    def summary(self) -> str:
        """A table, and a line with the sums."""
        heads = (self.rows or (QuantizedOperator,))[0].heads
        lines = text_table([heads, *(each.cells() for each in self.rows)], len(heads))
        return "\n".join([*lines, self._total()])

    def _total(self) -> str:
        count = f"{len(self.quantized)} of {len(self.rows)}"
        if self.operators:
            return f"{count} operators in integers, ranges from {self.samples} inputs"
        before, after = (
            sum(getattr(each, name) for each in self.weights if not each.stays)
            for name in ("before", "after")
        )
        kind = f"weights in {self.bits} bits, blocks of {self.block}"
        return f"{count} {kind}: {before} -> {after} bytes"

    def to_json(self) -> dict[str, object]:
        """The report as JSON."""
        found: dict[str, object] = {"bits": self.bits, "block": self.block}
        if self.operators:
            operators = [each.to_json() for each in self.operators]
            return {**found, "samples": self.samples, "operators": operators}
        return {**found, "weights": [each.to_json() for each in self.weights]}

    def __repr__(self) -> str:
        kind = "operators" if self.operators else "weights"
        return f"<QuantizationReport: {len(self.quantized)} of {len(self.rows)} {kind}>"

    def _repr_html_(self) -> str:
        heads = (self.rows or (QuantizedOperator,))[0].heads
        return html_table(repr(self)[1:-1], heads, [each.cells() for each in self.rows])
