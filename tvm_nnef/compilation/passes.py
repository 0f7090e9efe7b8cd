"""All passes of the back end in their order, from a lowered module to machine code.

Input: the IRModule of a lowered model and a target. Output: machine code for its kernels, and
instructions of TVM's virtual machine for the calls. :func:`run_phases` runs a part of the list.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import relax, s_tir, tirx

from tvm_nnef.compilation.allocations import with_size_classes
from tvm_nnef.compilation.cuda_graphs import with_cuda_graphs
from tvm_nnef.compilation.equal_kernels import with_merged_kernels
from tvm_nnef.compilation.host_tensors import with_host_tensors
from tvm_nnef.compilation.memory_plan import memory_plan
from tvm_nnef.compilation.metadata import with_members, with_metadata
from tvm_nnef.compilation.options import DEFAULT, Compiling
from tvm_nnef.compilation.planned_memory import with_planned_memory
from tvm_nnef.compilation.symbol_order import with_sorted_sizes, with_sorted_symbols
from tvm_nnef.compilation.weights import ParameterFile, with_bound_weights
from tvm_nnef.exact.late_arithmetic import (
    has_late_divisions,
    with_late_arithmetic,
    with_plain_arithmetic,
)
from tvm_nnef.exact.named_values import with_named_values
from tvm_nnef.exact.wrapping import with_opaque_elements, with_wrapping_elements
from tvm_nnef.lower.checks import outside
from tvm_nnef.profiling.call_sites import CallSites
from tvm_nnef.schedules import Tuned, schedule_kernels, takes_attention, unscheduled
from tvm_nnef.schedules.codegen import dot_products, math_functions
from tvm_nnef.schedules.codegen.bounds_checks import with_bounds_checks
from tvm_nnef.schedules.codegen.index_remainders import with_opaque_remainders
from tvm_nnef.schedules.codegen.loop_buffers import with_hoisted_buffers
from tvm_nnef.schedules.codegen.stack import on_stack
from tvm_nnef.schedules.codegen.strided_loads import sorted_in_registers
from tvm_nnef.schedules.gpu.launch import without_empty_launches
from tvm_nnef.schedules.machine import machine_model
from tvm_nnef.schedules.plan.dimension_names import with_named_dimensions
from tvm_nnef.schedules.relax import packing
from tvm_nnef.schedules.relax.attention_fusion import with_fused_attention
from tvm_nnef.schedules.relax.code_products import keep_codes
from tvm_nnef.schedules.relax.host_kernels import with_host_kernels
from tvm_nnef.schedules.relax.integers import with_integers
from tvm_nnef.schedules.relax.layout import channels_last
from tvm_nnef.schedules.relax.legalization import LEGALIZATIONS, with_plain_shapes
from tvm_nnef.schedules.relax.loop_kernels import with_loop_kernels
from tvm_nnef.schedules.relax.parameters import with_prepared_parameters
from tvm_nnef.schedules.relax.patterns import annotate
from tvm_nnef.schedules.relax.raising import raise_to_operators
from tvm_nnef.schedules.relax.reduction_fusion import with_fused_reductions
from tvm_nnef.schedules.relax.simplify import share_subexpressions, simplify_calls
from tvm_nnef.schedules.relax.specialization import with_bound_constants
from tvm_nnef.spirv import generator
from tvm_nnef.spirv import math_functions as vulkan_math
from tvm_nnef.spirv.grids import split_large_grids
from tvm_nnef.tvm_support import build, compat
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimExpression,
    PrimFunction,
    Target,
    assertion,
    cuda_assertion,
    prim_functions,
    update_functions,
)
from tvm_nnef.tvm_support.empty_constants import with_readable_constants
from tvm_nnef.tvm_support.flattening import flattened
from tvm_nnef.tvm_support.function_attributes import EXACT_BUFFERS, KEEPS_BUFFERS
from tvm_nnef.tvm_support.interrupts import deferring
from tvm_nnef.tvm_support.lowering import (
    compacted,
    converts_positions,
    device_functions,
    is_tangled,
    keeping_buffers,
    names_many_values,
    names_values,
    on_host,
    polling,
    vectorized,
    with_all_registers,
    with_rounded_bfloat16,
    with_target,
    with_written_infinities,
)
from tvm_nnef.tvm_support.sound_indices import with_positive_divisors, with_sound_indices

PHASES = ("bind", "graph", "fuse", "schedule", "bytecode", "lower", "code")
"""The phases in their order. The result of ``code`` is an executable, of all others a module."""

OnFunction: TypeAlias = Callable[[PrimFunction], PrimFunction]


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass: its name, the phase that it belongs to, and what it does with a module."""

    name: str
    phase: str
    run: Callable[[Any], Any]


def passes(
    target: Target,
    options: Compiling = DEFAULT,
    *,
    tuned: Tuned | None = None,
    code_forms: Sequence[str] = (),
    scheduling: Callable[[int, int], None] = lambda number, total: None,
) -> list[Pass]:
    """Every pass for a target, in order.

    ``tuned`` gives schedules that were found by measuring; ``code_forms`` are what the metadata say
    about the code for CUDA.
    ``scheduling`` is called before each kernel is scheduled, with its number and the number of all.
    Each list serves one compilation: some passes hand what they find to the last.
    """
    optimize, instructions, parameters = relax.transform, build.Instructions(), ParameterFile()
    sites, is_cpu = CallSites(), compat.is_cpu(target)

    def on_machine(run: Callable[[Module, Any], Module]) -> Callable[[Module], Module]:
        return lambda mod: run(mod, machine_model(target))

    codes = functools.partial(keep_codes, int8_activations=options.int8_activations)
    phases: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {
        "bind": [
            ("bind_weights", with_bound_weights),
            ("describe_interface", lambda mod: with_metadata(mod, target, code_forms)),
            ("number_operations", sites.number),
        ],
        "graph": [
            ("read_arithmetic", _on_functions(with_plain_arithmetic)),
            ("raise_formulas", raise_to_operators),
            ("use_integers", on_machine(functools.partial(with_integers, note=sites.note))),
            # Products of integers first: both read constants as codes, before these are folded.
            *_if(is_cpu, ("keep_codes", on_machine(codes))),
            ("simplify", simplify_calls),
            ("share_subexpressions", sites.shared(share_subexpressions)),
            ("specialize_constants", with_bound_constants),
            *_if(
                is_cpu,
                ("move_channels_last", on_machine(channels_last)),
                ("pack_weights", on_machine(packing.pack)),
                # Several products read the same words of data.
                ("share_words", sites.shared(share_subexpressions)),
            ),
            ("dispatch_sampling", relax.backend.DispatchSampling()),
            ("legalize_operators", optimize.LegalizeOps({**LEGALIZATIONS})),
            ("dispatch_sorting", relax.backend.DispatchSortScan()),
            ("number_calls", sites.number),
            ("form_dataflow", optimize.ConvertToDataflow()),
            ("simplify_shapes", with_plain_shapes),
            ("lift_work_on_weights", with_prepared_parameters),
        ],
        "fuse": [
            ("remove_dead_code", optimize.DeadCodeElimination()),
            ("classify_kernels", optimize.AnnotateTIROpPattern()),
            ("classify_elementwise_kernels", annotate),
            ("group_kernels", sites.grouped(optimize.FuseOps())),
            ("fuse_kernels", optimize.FuseTIR()),
            ("remove_fused_kernels", optimize.DeadCodeElimination()),
            ("fuse_reductions", on_machine(with_fused_reductions)),
            ("fuse_attention", lambda mod: with_fused_attention(mod, takes_attention(target))),
            *_if(not is_cpu, ("leave_sizes_to_host", with_host_kernels)),
            ("sort_symbols", with_sorted_symbols),
            ("merge_kernels", with_merged_kernels),
            ("number_kernels", sites.number),
        ],
        "schedule": [
            ("name_dimensions", _on_functions(with_named_dimensions, unscheduled)),
            ("schedule_kernels", lambda mod: schedule_kernels(mod, target, tuned, scheduling)),
            *_if(is_cpu, ("make_loop_kernels", on_machine(with_loop_kernels))),
        ],
        "bytecode": [
            ("remove_unused_calls", optimize.DeadCodeElimination()),
            ("number_loops", sites.number),
            ("make_reshapes_views", optimize.RewriteDataflowReshape()),
            ("make_empty_constants_views", with_readable_constants),
            ("describe_calls", lambda mod: with_members(mod, sites.described(mod))),
            ("leave_dataflow", optimize.ToNonDataflow()),
            ("remove_purity_checks", optimize.RemovePurityChecking()),
            ("allocate_results", optimize.CallTIRRewrite()),
            ("plan_memory", with_planned_memory),
            *_if(options.cuda_graphs, ("capture_cuda_graphs", with_cuda_graphs)),
            *_if(not is_cpu, ("place_tensors_on_host", with_host_tensors)),
            ("lower_allocations", optimize.LowerAllocTensor()),
            ("free_after_last_use", optimize.KillAfterLastUse()),
            ("describe_memory", lambda mod: with_members(mod, {"memory": memory_plan(mod)})),
            ("round_allocations", with_size_classes),
            ("separate_parameters", parameters.separate),
            ("lower_builtins", optimize.LowerRuntimeBuiltin()),
            ("compute_scalars", optimize.ComputePrimValue()),
            ("compute_shapes", optimize.VMShapeLower()),
            ("sort_sizes", with_sorted_sizes),
            ("export_names", optimize.AttachGlobalSymbol()),
            ("write_instructions", instructions.write),
        ],
        "lower": _lowering(target, checked=options.checked),
        "code": [
            (
                "generate_code",
                lambda kernels: instructions.linked(
                    kernels, target, parameters.metadata, parameters.data
                ),
            )
        ],
    }
    return [
        Pass(name, phase, functools.partial(_in_target, run if is_long else deferring(run), target))
        for phase, entries in phases.items()
        for name, run in entries
        for is_long in [phase in ("lower", "code") or name == "schedule_kernels"]
    ]


def _lowering(
    target: Target,
    *,
    scheduled: bool = True,
    checked: bool = False,
    inspect: Callable[[PrimFunction], None] | None = None,
) -> list[tuple[str, Callable[[Module], Module]]]:
    """The passes over kernels, from schedules to what code is generated from.

    HoistIfThenElse of TVM's list for CPUs is not here: it lifts conditions after what the loop
    makes certain was dropped from them, so that a guard of a division by a dimension is gone if the
    loop would not have run. Compaction and the reuse of memory skip kernels that they make wrong.

    Kernels do not check their arguments: the virtual machine, which alone calls them, has checked
    the shapes. Such checks would be most of the code of a small kernel.
    """
    stir, tir, kind = s_tir.transform, tirx.transform, str(target.kind.name)
    is_cpu, is_cuda, is_vulkan = (kind == each for each in ("llvm", "cuda", "vulkan"))
    placed = stir.PlanAndUpdateBufferAllocationLocation()
    return [
        ("bind_target", with_target(target)),
        *_if(is_vulkan, ("split_large_grids", _on_functions(split_large_grids))),
        ("compact_buffers", compacted),
        ("mark_reuse_of_memory", _on_functions(keeping_buffers)),
        ("make_elements_opaque", _on_functions(with_opaque_elements)),
        ("make_indices_sound", _on_functions(with_sound_indices)),
        ("canonicalize_loops", stir.CanonicalizeLoop()),
        ("lower_initializations", stir.LowerInitBlock()),
        # A buffer in the memory of a GPU would be moved into the launch that alone uses it.
        ("place_allocations", placed if is_cpu else _unless(EXACT_BUFFERS, placed)),
        ("make_blocks_opaque", stir.ConvertBlocksToOpaque()),
        *_if(not is_cpu, ("unify_threads", stir.UnifyThreadBinding())),
        ("lower_matched_buffers", stir.LowerMatchBuffer()),
        ("simplify_statements", _unless(names_many_values, stir.StmtSimplify())),
        ("annotate_irregular_loops", stir.AnnotateIrregularLoop()),
        ("lower_blocks", stir.LowerOpaqueBlock()),
        ("make_divisors_positive", _on_functions(with_positive_divisors)),
        ("flatten_buffers", flattened),
        # CUDA has its own conversions.
        *_if(not is_cuda, ("round_to_bfloat16", _on_functions(with_rounded_bfloat16))),
        ("widen_bfloat16", tir.BF16ComputeLegalize()),
        ("narrow_indices", tir.NarrowDataType(32)),
        ("partition_loops", stir.LoopPartition()),
        ("vectorize_loops", vectorized),
        ("reuse_memory", _unless(KEEPS_BUFFERS, tir.StorageRewrite())),
        ("unroll_loops", tir.UnrollLoop()),
        ("make_new_divisors_positive", _on_functions(with_positive_divisors)),
        ("normalize_divisions", _unless(is_tangled, stir.RenormalizeSplitPattern())),
        ("simplify_again", _unless(is_tangled, tir.StmtSimplify())),
        ("remove_empty_statements", _unless(is_tangled, tir.RemoveNoOp())),
        ("make_selects_safe", stir.RewriteUnsafeSelect()),
        ("make_last_divisors_positive", _on_functions(with_positive_divisors)),
        # The generator of CUDA takes an index for aligned, and loads a vector, only if it sees all
        # of the index.
        *_if(
            not is_cuda,
            (
                "eliminate_common_subexpressions",
                _unless(_keeps_repeated_values, tir.CommonSubexprElim()),
            ),
        ),
        ("verify_memory", tir.VerifyMemory()),
        ("mark_entry", tir.AnnotateEntryFunc()),
        *_if(
            not is_cpu,
            ("insert_barriers", stir.ThreadSync("shared")),
            ("merge_shared_memory", _unless(EXACT_BUFFERS, stir.MergeSharedMemoryAllocations())),
            # TVM inserts no barrier under a condition.
            ("skip_empty_launches", _on_functions(without_empty_launches)),
            ("split_device_code", tir.SplitHostDevice()),
            ("allow_all_registers", _on_functions(with_all_registers)),
            ("write_infinities", _on_functions(with_written_infinities)),
        ),
        ("unpack_arguments", tir.MakePackedAPI()),
        ("store_bfloat16", tir.BF16StorageLegalize()),
        ("drop_argument_checks", tir.SkipAssert()),
        ("expand_late_arithmetic", _on_functions(_with_late_arithmetic)),
        *_if(inspect is not None, ("inspect", _on_functions(_inspecting(inspect)))),
        *_if(
            scheduled and is_cpu,
            ("use_dot_instructions", _on_functions(dot_products.expand)),
            ("expand_math_functions", _on_functions(math_functions.expand)),
            ("name_values", _on_functions(with_named_values)),
            ("load_strided_vectors", _on_functions(sorted_in_registers)),
            ("hoist_dynamic_buffers", _on_functions(with_hoisted_buffers)),
            ("put_buffers_on_stack", _on_functions(on_stack)),
            ("hide_remainders", _on_functions(with_opaque_remainders)),
        ),
        *_if(
            is_vulkan and generator.register(),
            ("expand_math_functions", _on_functions(vulkan_math.expand, device_functions)),
        ),
        *_if(not is_vulkan, ("wrap_elements", _on_functions(with_wrapping_elements))),
        *_if(checked, ("check_indices", _on_functions(_with_checks))),
        ("poll_signals", _on_functions(polling)),
        ("lower_intrinsics", on_host(tir.LowerTVMBuiltin())),
        ("lower_math", tir.LowerIntrin()),
    ]


def run_phases(
    mod: Module,
    target: Target,
    first: str = PHASES[0],
    last: str = PHASES[-1],
    *,
    tuned: Tuned | None = None,
) -> Any:
    """Return the result of the phases from the first to the last."""
    wanted = PHASES[PHASES.index(first) : PHASES.index(last) + 1]
    for each in passes(target, tuned=tuned):
        mod = each.run(mod) if each.phase in wanted else mod
    return mod


def compile_kernel(
    function: PrimFunction,
    target: Target,
    *,
    scheduled: bool = True,
    checked: bool = False,
    inspect: Callable[[PrimFunction], None] | None = None,
) -> Callable[..., object]:
    """The machine code of one PrimFunc, lowered as in :func:`passes`.

    A PrimFunc that is not ``scheduled`` gets no pass of ours after TVM's. ``inspect`` is called
    with the function after TVM's passes, and may raise an exception.
    """
    mod = build.module_of(function, "main")
    for _, run in _lowering(target, scheduled=scheduled, checked=checked, inspect=inspect):
        mod = _in_target(run, target, mod)
    return build.machine_code(mod, target, "main")


Entry: TypeAlias = "tuple[str, Callable[[Any], Any]]"


def _if(condition: bool, *entries: Entry) -> Iterable[Entry]:
    return entries if condition else ()


def _in_target(run: Callable[[Any], Any], target: Target, mod: Any) -> Any:
    with target:
        return run(mod)


def _on_functions(
    change: OnFunction, select: Callable[[Module], dict[str, PrimFunction]] = prim_functions
) -> Callable[[Module], Module]:
    """A pass that changes each PrimFunc of those selected by itself."""

    def run(mod: Module) -> Module:
        functions = select(mod)
        made = ((name, change(function)) for name, function in functions.items())
        return update_functions(mod, {n: f for n, f in made if not f.same_as(functions[n])})

    return run


def _unless(
    left_out: str | Callable[[PrimFunction], bool], transform: Callable[[Module], Module]
) -> Callable[[Module], Module]:
    """A pass over the PrimFuncs that do not have an attribute, or not a property."""

    def is_left_out(function: PrimFunction) -> bool:
        attributes = function.attrs or {}
        return left_out in attributes if isinstance(left_out, str) else left_out(function)

    def run(mod: Module) -> Module:
        chosen = {n: f for n, f in prim_functions(mod).items() if not is_left_out(f)}
        return update_functions(mod, prim_functions(transform(build.module_like(mod, chosen))))

    return run


def _inspecting(inspect: Callable[[PrimFunction], None] | None) -> OnFunction:
    def seen(function: PrimFunction) -> PrimFunction:
        if inspect is not None:
            inspect(function)
        return function

    return seen


def _keeps_repeated_values(function: PrimFunction) -> bool:
    """Whether TVM would name values that it cannot analyze, or that get names later."""
    named = names_values(function) or has_late_divisions(function)
    return named or converts_positions(function)


def _with_late_arithmetic(function: PrimFunction) -> PrimFunction:
    """Late arithmetic as expressions, whose operands are computed once each."""
    expanded = with_late_arithmetic(function)
    return with_named_values(expanded) if has_late_divisions(function) else expanded


def _with_checks(function: PrimFunction) -> PrimFunction:
    target = (function.attrs or {}).get("target")
    on_gpu = target is not None and str(target.kind.name) == "cuda"

    def checked(condition: PrimExpression, kernel: str, buffer: str) -> tirx.Stmt:
        failure = outside(kernel, buffer)
        if on_gpu:
            return cuda_assertion(condition, failure.message)
        return assertion(condition, failure.to_json())

    return with_bounds_checks(function, checked)
