"""The operations of NNEF 1.0.4 (chapter 4): a function for each that converts a call into steps.

The modules of this package are found by ``registry.standard``. A function gets an
:class:`~.operation.Operation` and a :class:`~tvm_nnef.converters.common.builder.Builder`, and
returns the results in their order. It calls an operator of SkriptND's standard library that means
the same, if there is one; else it combines several, or calls a formula of ``nnef1.sknd``.
"""
