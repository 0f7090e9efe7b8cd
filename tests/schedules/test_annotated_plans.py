"""Plans of kernels that lowering annotates: what is decided from sizes and the machine model."""

from __future__ import annotations

import pytest
from tvm import tirx

from tvm_nnef.function_attributes import ArgReduction, Sort, annotation_attributes
from tvm_nnef.schedules.cpu import argmax, sort
from tvm_nnef.schedules.machine.model import CpuModel
from tvm_nnef.tvm_support.compat import buffer, opaque_function

MACHINE = CpuModel(256, 16)


def annotated(annotation, shape, result, dtype="float32"):
    """A function of a tensor and int32 indices, with an annotation or without."""
    tensors = [buffer(shape, dtype, "x"), buffer(result, "int32", "y")]
    function = opaque_function("f", tensors, tensors[1:], [], tirx.Evaluate(0))
    return function.with_attr(annotation_attributes(annotation)) if annotation else function


@pytest.mark.parametrize(("shape", "first", "dtype", "expected"), [
    ((4, 1000), 1, "float32", {"along": "rows", "lanes": 8, "parallel": "False"}),
    ((4096, 1000), 1, "float32", {"along": "rows", "lanes": 8, "parallel": "True"}),
    ((4096, 5), 1, "float32", {"along": "results", "lanes": 8, "parallel": "True"}),
    ((1000, 4), 0, "float64", {"along": "results", "lanes": 4, "parallel": "False"}),
    ((4, 1000), 1, "int8", {"along": "rows", "lanes": 8, "parallel": "False"}),
])  # fmt: skip
def test_argmax_chooses_its_lanes_by_the_reduced_axis(shape, first, dtype, expected):
    result = [size for axis, size in enumerate(shape) if axis != first]
    function = annotated(ArgReduction(first, 1, True), shape, result, dtype)
    plan = argmax.match(function, MACHINE)
    assert plan.decisions() == expected
    assert str(plan).startswith("cpu.argmax: along ")
    assert sort.match(function, MACHINE) is None


def test_products_of_dynamic_sizes_have_wide_indices():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    for shape, count, expected in (((n,), 1, "int32"), ((n, m), 2, "int64")):
        plan = argmax.match(annotated(ArgReduction(0, count, True), shape, ()), MACHINE)
        assert plan.index_type == expected


@pytest.mark.parametrize(("rows", "parallel"), [(1, "False"), (1000, "True")])
def test_sorting_runs_in_parallel_if_there_is_enough_work(rows, parallel):
    function = annotated(Sort(largest=True), (rows, 100), (rows, 5))
    plan = sort.match(function, MACHINE)
    assert plan.decisions() == {"keys": "int32", "kept": "5", "parallel": parallel}
    assert plan.cost > 0
    assert argmax.match(function, MACHINE) is None


def test_functions_without_an_annotation_have_no_such_plan():
    function = annotated(None, (4, 100), (4,))
    assert argmax.match(function, MACHINE) is None
    assert sort.match(function, MACHINE) is None
