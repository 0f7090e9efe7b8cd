"""Kernels that no strategy matches, such as loops whose steps depend on each other."""

from __future__ import annotations

from tvm import s_tir

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tir.expressions import nodes
from tvm_nnef.tvm_support.compat import prim_functions

SUPPRESSION = """
import algo;
graph G {
    @input { boxes: real[1, 40, 4]; scores: real[1, 1, 40]; }
    @output { y: int[~, 3]; }
    @compose {
        y = algo.nonmax_suppress{
            box_format='CENTER', max_outputs_per_class=2, iou_threshold=0.25, score_threshold=0.375
        }(boxes, scores);
    }
}
"""


def test_buffers_outside_of_a_launch_lie_in_device_memory() -> None:
    """TVM puts those of the scope ``local`` on the stack of the host, which no GPU reads."""
    scheduled = run_phases(tvm_nnef.from_nnef(SUPPRESSION), resolve("cuda"), "bind", "schedule")
    buffers = [
        buffer
        for function in prim_functions(scheduled).values()
        for block in nodes(function.body, s_tir.SBlock)
        for buffer in block.alloc_buffers
    ]
    assert buffers
    assert {str(buffer.scope()) for buffer in buffers} == {"global"}
