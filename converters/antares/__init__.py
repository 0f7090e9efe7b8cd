"""Antares IR: ``einstein_v2("output0[N, M] +=! input0[N, K] * input1[K, M]", {…})``.

==========================  ========================================================================
module                      content
==========================  ========================================================================
``call``, ``literals``      the call, as text or from Python (``call.lark``); nothing is executed
``parser``, ``nodes``       statements as a syntax tree (``expression.lark``)
``syntax``, ``text``        what both grammars share: limits, messages, positions in the source
``axes``                    the lengths of axes, bounds of indices
``guards``                  conditions that are bounds checks, as guards of SkriptND
``fused``                   fused reduction axes, divided
``scalars``                 expressions with their dtypes, as text of SkriptND
``statements``, ``main``    an operator for each statement, a graph that invokes them
==========================  ========================================================================
"""

from tvm_nnef.converters.antares.main import convert, einstein_v2

__all__ = ["convert", "einstein_v2"]
