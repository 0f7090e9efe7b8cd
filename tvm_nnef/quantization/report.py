"""What a quantization made of each weight: operators, sizes, errors."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_nnef.support.html_table import html_table
from tvm_nnef.support.text_table import text_table

_HEADS = ("weight", "operators", "shape", "bytes", "error")


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A weight: the operators that read it, its bytes before and after, and its relative error.

    The error is that of the root mean square: so large is that of a product with data that do not
    depend on it. Of a weight that ``stays`` real, for a reason, it is None or what it would be.
    """

    name: str
    operators: tuple[str, ...]
    shape: tuple[int, ...]
    before: int
    after: int
    error: float | None
    stays: str = ""

    def cells(self) -> tuple[str, ...]:
        """The columns of a table."""
        error = "" if self.error is None else f"{self.error:.2%}"
        size = f"{self.before} -> {self.after}" if not self.stays else f"{self.before}"
        note = f"{error} stays real: {self.stays}".strip() if self.stays else error
        shape = "x".join(map(str, self.shape))
        return self.name, ", ".join(self.operators), shape, size, note


@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """The weights of products and embeddings of a model, those of the largest errors first."""

    weights: tuple[QuantizedWeight, ...]
    bits: int
    block: int

    @property
    def quantized(self) -> tuple[QuantizedWeight, ...]:
        """The weights that are codes now."""
        return tuple(each for each in self.weights if not each.stays)

    def summary(self) -> str:
        """A table, and a line with the sums."""
        lines = text_table([_HEADS, *(each.cells() for each in self.weights)], len(_HEADS))
        before, after = (sum(getattr(each, name) for each in self.quantized)
                         for name in ("before", "after"))  # fmt: skip
        count = len(self.quantized)
        total = (
            f"{count} of {len(self.weights)} weights in {self.bits} bits, blocks of {self.block}"
        )
        return "\n".join([*lines, f"{total}: {before} -> {after} bytes"])

    def to_json(self) -> dict[str, object]:
        """The report as JSON."""
        weights = [
            {"name": w.name, "operators": list(w.operators), "shape": list(w.shape),
             "bytes_before": w.before, "bytes_after": w.after, "error": w.error, "stays": w.stays}
            for w in self.weights
        ]  # fmt: skip
        return {"bits": self.bits, "block": self.block, "weights": weights}

    def __repr__(self) -> str:
        return f"<QuantizationReport: {len(self.quantized)} of {len(self.weights)} weights>"

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], _HEADS, [each.cells() for each in self.weights])
