"""The strategy for products that read their weights as codes of few bits.

The annotation ``CODE_BITS`` marks them (:mod:`tvm_nnef.schedules.relax.code_products`). A product
of one row, or a few, is bound by memory: each code is multiplied where it is read
(:mod:`code_rows`). For more rows, a panel of weights at a time is decoded into a small buffer, and
register tiles multiply with it; if their data may be rounded to int8 (``INT8_DATA``), bytes are
multiplied with codes instead (:mod:`code_bytes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.schedules.analysis.reduction import Reduction, read_reduction
from tvm_nnef.schedules.cpu.code_bytes import CodeBytes, code_bytes
from tvm_nnef.schedules.cpu.code_rows import CodeRows, code_rows, code_term, in_panels
from tvm_nnef.schedules.cpu.elementwise import stage_plan
from tvm_nnef.schedules.cpu.tile import planning, tile_sizes
from tvm_nnef.schedules.cpu.tile.planes import one_plane
from tvm_nnef.schedules.cpu.tile.register_tile import RegisterTilePlan
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tvm_support.compat import PrimFunction, dtype_of, with_opaque_body

NAME = "cpu.code_product"


def match(kernel: Kernel, machine: CpuModel) -> CodeProductPlan | None:
    """Return the plan of a product with codes; None for other kernels."""
    reduction = read_reduction(kernel)
    if reduction is None or reduction.code_bits is None or reduction.borders:
        return None
    steps = next(stage.reduced for stage in kernel.stages if stage.reduced)
    threads = planning.is_parallel(reduction, machine)
    index_type = kernel.index_type
    plans = [stage_plan(copy, index_type, machine) for copy in reduction.copies]
    tiles = _tiles(kernel, replace(reduction, copies=()), steps, machine, parallel=threads)
    if tiles is None:
        return None
    direct = code_rows(reduction, steps, index_type, machine, parallel=threads)
    rounded = None
    if reduction.int8_data:
        rounded = code_bytes(reduction, steps, index_type, machine, parallel=threads)
    allocated = [tirx.AllocBuffer(copy.assignment.buffer) for copy in plans]
    copies = [copy.statement() for copy in plans]
    before = (*allocated, *reduction.views, *copies)
    return CodeProductPlan(kernel, before, direct, rounded, tiles)


@dataclass(frozen=True, slots=True, eq=False)
class CodeProductPlan(Plan):
    """A plan of copies (``before``), and ``direct`` loops if they apply to the number of rows, else
    those of ``rounded`` data, else tiles.
    """

    kernel: Kernel
    before: tuple[tirx.Stmt, ...]
    direct: CodeRows | None
    rounded: CodeBytes | None
    tiles: RegisterTilePlan

    @property
    def strategy(self) -> str:
        """``cpu.code_product``."""
        return NAME

    @property
    def cost(self) -> float:
        """The cost of the tiles."""
        return self.tiles.cost

    def decisions(self) -> Mapping[str, int | str]:
        """Return the number of rows without tiles, and the tiles of the others."""
        direct = {} if self.direct is None else {"direct rows": self.direct.height}
        rounded = {} if self.rounded is None else {"int8 rows": self.rounded.height}
        return {**direct, **rounded, **self.tiles.decisions()}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with all loops."""
        loops = self.tiles.statement()
        if self.rounded is not None:
            loops = self.rounded.statement(loops)
        if self.direct is not None:
            loops = self.direct.statement(loops)
        body = emit.sequence([*self.before, loops])
        results = [stage.buffer for stage in self.kernel.results]
        return with_opaque_body(function, results, [], body)

    def alternatives(self) -> Iterator[CodeProductPlan]:
        """Yield other tiles."""
        for tiles in self.tiles.alternatives():
            yield replace(self, tiles=tiles)


def _tiles(
    kernel: Kernel,
    reduction: Reduction,
    steps: Sequence[Axis],
    machine: CpuModel,
    *,
    parallel: bool,
) -> RegisterTilePlan | None:
    """Return register tiles over panels of weights, each of which is decoded before its tiles."""
    others = reduction.axes[:-1]
    assert reduction.panel_width is not None
    rows = sizes.estimate(sizes.product(axis.extent for axis in others))
    width = tile_sizes.packed_width(rows, reduction.panel_width, 32, machine)
    width = 1 << (min(width, reduction.panel_width).bit_length() - 1)
    divided_reduction, panel, lane = in_panels(reduction, width)
    term = code_term(divided_reduction, steps, (panel, lane))
    if term is None:
        return None
    axes = (panel, *steps, lane)
    own = [Axis(tirx.Var(str(a.var.name), dtype_of(a.var)), a.extent) for a in axes]
    value = substituted(term.weight, {a.var: b.var for a, b in zip(axes, own, strict=True)})
    weights = tirx.decl_buffer([axis.extent for axis in own], reduction.dtype, "weights")
    divided_reduction = replace(
        divided_reduction,
        axes=(panel, *others, lane),
        reduced=tuple(steps),
        term=term.data * weights[tuple(axis.var for axis in axes)],
        copies=(Stage(weights, tuple(own), value),),
        views=(),
        panel_width=None,
        code_bits=None,
        int8_data=False,
    )
    inner = one_plane(divided_reduction, (panel,), machine)
    tiling = planning.plan_tiles(inner, machine, parallel=False)
    if tiling is None:
        return None
    copies = [stage_plan(c, kernel.index_type, machine, threads=False) for c in inner.copies]
    moving = machine.moving_cycles(sizes.estimate(sizes.elements(term.words.source)) * 4)
    return RegisterTilePlan(
        kernel, inner, tiling, tuple(copies), (panel,), moving, parallel=parallel
    )
