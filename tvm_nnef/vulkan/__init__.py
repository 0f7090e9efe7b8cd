"""Kernels for Vulkan: lowered device functions in, SPIR-V out, and what runs it where TVM cannot.

TVM calls :mod:`~tvm_nnef.vulkan.generator` for the target ``vulkan``. ``kernel``, ``statements``
and ``expressions`` read a function of TIR; ``control_flow``, ``arithmetic`` and ``calls`` write the
instructions for it with an :class:`~tvm_nnef.vulkan.assembler.Assembler`. ``library`` packs shaders
as TVM does. ``launcher`` and ``device`` run them if the installed TVM has no runtime for Vulkan.
"""
