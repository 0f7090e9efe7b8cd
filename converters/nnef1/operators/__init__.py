"""The operations of NNEF 1.0.4 (chapter 4): a function for each, which makes steps of its call.

The modules of this package are found by ``registry.standard``. A function gets an
:class:`~.operation.Operation` and a :class:`~tvm_nnef.converters.common.builder.Builder`, and
returns the results in their order. If one operator of SkriptND's standard library means the same,
the function calls that; else it combines several, or calls a formula of ``nnef1.sknd``.
"""
