"""Code generation for Vulkan.

Input: PrimFuncs. Output: SPIR-V shaders.
"""
