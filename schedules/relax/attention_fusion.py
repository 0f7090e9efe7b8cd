"""The kernels of attention become one, which stores no scores.

Input: a module whose kernels are fused (:mod:`reduction_fusion`). Output: the same, with one kernel
for the products of queries and keys, their softmax and the weighted sum of values, if a strategy of
the target takes it. What is cheap and read by nothing else, such as the transposition of keys,
becomes part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tvm.ir import Call

from tvm_nnef.schedules.analysis.accesses import is_cheap
from tvm_nnef.schedules.analysis.attention import may_end_attention
from tvm_nnef.schedules.analysis.kernel import Kernel, is_plain
from tvm_nnef.schedules.relax.reduction_fusion import (
    Chain,
    KernelCall,
    Users,
    combined,
    longer,
    with_chains,
)
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import Module, PrimFunction, prim_functions

_MOST_CALLS = 6
"""The most kernels from the scores to the weighted sum: a limit of compile time."""

IsTaken: TypeAlias = "Callable[[Kernel], bool | None]"
"""Whether a strategy takes a kernel; None if it takes no longer kernel either."""


def with_fused_attention(mod: Module, is_taken: IsTaken) -> Module:
    """The module with one kernel for each attention that a strategy takes."""
    if not any(map(_has_exponential, prim_functions(mod).values())):
        return mod

    def grown(last: KernelCall, free: Sequence[KernelCall], users: Users) -> Chain | None:
        if len([stage for stage in last.kernel.stages if stage.reduced]) != 1:
            return None
        return _attention(combined([last], "attention"), free, users, is_taken)

    return with_chains(mod, grown)


def _has_exponential(function: PrimFunction) -> bool:
    """Whether a kernel computes an exponential, as one of each attention does."""
    calls: list[Call] = []
    traversal.walk(function.body, (Call, calls.append))
    return any(getattr(call.op, "name", "") == "tirx.exp" for call in calls)


def _attention(
    chain: Chain, free: Sequence[KernelCall], users: Users, is_taken: IsTaken
) -> Chain | None:
    """The shortest chain that a strategy takes, with cheap kernels before it; None for none."""
    if not may_end_attention(chain.kernel) or len(chain.calls) > _MOST_CALLS:
        return None
    taken = is_taken(chain.kernel)
    if taken is None:
        return None
    if taken:
        return _with_cheap(chain, free, users, is_taken)
    larger = (combined(calls, chain.kind) for calls in longer(chain, free, users))
    found = (_attention(each, free, users, is_taken) for each in larger)
    return next((each for each in found if each is not None), None)


def _with_cheap(chain: Chain, free: Sequence[KernelCall], users: Users, is_taken: IsTaken) -> Chain:
    """The chain with the kernels before it that cost no more than loading their results."""
    for calls in longer(chain, free, users):
        added = next(call for call in calls if call not in chain.calls)
        if all(is_plain(s.value) or is_cheap(s.value) for s in added.kernel.stages):
            larger = combined(calls, chain.kind)
            if is_taken(larger.kernel):
                return _with_cheap(larger, free, users, is_taken)
    return chain
